"""The commit log: one sequence of records for all queues, in segments (docs/storage-format.md)."""
