"""`make pictures`: the pictures of README and documentation, made from a running broker."""
