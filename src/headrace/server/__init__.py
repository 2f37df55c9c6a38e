"""The I/O shell: listeners and sessions around the core."""
