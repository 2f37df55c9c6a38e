"""Messages of a queue."""
