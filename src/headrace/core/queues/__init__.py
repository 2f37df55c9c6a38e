"""A queue and its parts."""
