"""RocketMQ remoting: bytes <-> commands, messages and bodies. No I/O, no clock."""
