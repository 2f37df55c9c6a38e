"""One module per chapter."""
