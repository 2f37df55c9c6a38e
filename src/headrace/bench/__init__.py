"""Load generator and runner behind `headrace bench`: measures any AMQP 0-9-1 broker from outside.

Speaks pre-encoded AMQP frames over raw sockets and shares no code with the broker, so that a fault
in our own codec cannot hide in the figures.
"""
