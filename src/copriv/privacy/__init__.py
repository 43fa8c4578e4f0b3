"""Everything that a privacy claim rests on: bounded contributions, noise, and the count of what was spent."""
