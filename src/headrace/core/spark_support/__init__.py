"""State kept for programs outside the broker, such as Spark."""
