"""Typed headers, one module per subject."""
