"""Connections to name servers and brokers. One event loop reads; any thread may write."""
