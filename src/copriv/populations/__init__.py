"""What the owners' records may be: laws of features, targets and heterogeneity, as far as public rows tell."""
