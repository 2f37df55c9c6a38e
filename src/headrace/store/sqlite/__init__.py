"""Metadata in SQLite: one file, one writer thread, many changes per commit."""

from headrace.store.sqlite.metadata import SqliteMetadata

__all__ = ["SqliteMetadata"]
