"""Codecs: bytes to values and back. No sockets, no event loop, no clock."""
