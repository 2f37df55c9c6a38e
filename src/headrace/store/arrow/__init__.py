"""Stored messages as Arrow batches, without a loop per message.

Imports NumPy and pyarrow, so only the fetch process may import it, never the broker itself.
"""
