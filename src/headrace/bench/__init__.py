"""Load generator and runner behind `headrace bench`: measures any AMQP 0-9-1 broker from outside.

Publishes and acks are encoded beforehand and go over raw sockets; deliveries and confirms are
counted by their bytes. So the codec, which it shares with the broker, costs nothing meanwhile.
"""
