"""RocketMQ for tests: Apache's server, a fake one, and what both must answer."""
