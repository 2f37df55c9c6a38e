"""AMQP 0-9-1 on the wire: field values, methods, properties and contents."""
