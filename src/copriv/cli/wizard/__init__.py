"""What `copriv init` asks on a terminal: `steps` from the name to the owners, and `column_words`, a column on one line."""
