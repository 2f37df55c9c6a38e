"""The living broker: vhosts, exchanges, queues and the way of a message. No sockets."""
