"""Spark for tests: sessions, clusters, drivers, and what can be killed of them."""
