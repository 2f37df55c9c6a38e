"""The commit log: one journal for all queues, in segments (docs/storage-format.md)."""
