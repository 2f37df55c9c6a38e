"""The native protocol's front door: session (bytes), handshake, channel, handlers per operation."""
