"""Where messages are read from."""
