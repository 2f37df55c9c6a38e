"""What a consumer is subscribed to: the manager, its records and its metrics."""
