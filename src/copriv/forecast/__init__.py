"""The cost of privacy before anything runs: bounds, exact moments, spread, plans."""
