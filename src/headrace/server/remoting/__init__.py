"""RocketMQ clients: name server and broker on the remoting protocol."""
