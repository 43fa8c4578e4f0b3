"""How values are formatted: cards for screens and notebooks, data frames, numbers, safe text."""
