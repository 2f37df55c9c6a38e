"""The native protocol: session (bytes), handshake, channel, handlers per operation."""
