"""Replay: messages of the past, from the archive or the broker, back into an exchange."""
