"""The interfaces."""
