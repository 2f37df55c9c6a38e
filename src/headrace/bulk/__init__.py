"""Bulk reads by offset in one place: broker side, reader side, Arrow."""
