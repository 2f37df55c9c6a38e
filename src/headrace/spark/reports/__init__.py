"""Reports: what went through the broker, how long it waited, what went wrong."""
