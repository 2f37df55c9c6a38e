"""The AMQP 0-9-1 front door: session (bytes), handshake, channel, and handlers per method class."""
