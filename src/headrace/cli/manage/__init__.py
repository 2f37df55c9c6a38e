"""Declarations and access."""
