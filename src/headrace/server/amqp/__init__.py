"""AMQP 0-9-1: session (bytes), handshake, channel, and handlers per method class."""
