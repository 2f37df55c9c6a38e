"""HTTP: the management API in RabbitMQ's shape, metrics, and the page."""
