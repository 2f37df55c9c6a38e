"""The Spark side."""
