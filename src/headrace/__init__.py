"""Headrace: a message broker that RabbitMQ clients use unchanged.

Importing this package must stay free of cost: it holds the version and nothing else.
"""

__version__ = "0.1.0"
