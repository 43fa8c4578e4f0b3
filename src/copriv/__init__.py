"""copriv: the cost of privacy, before you pay it."""
