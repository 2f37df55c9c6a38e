"""Serve, demo, verify, bench."""
