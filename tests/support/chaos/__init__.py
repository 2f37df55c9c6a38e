"""Brokers and workers that chaos tests damage or kill."""
