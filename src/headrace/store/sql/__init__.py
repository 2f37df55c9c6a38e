"""Connections to MySQL and compatible servers: URLs, pools, faults."""
