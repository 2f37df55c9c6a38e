"""Where a group has come to: in the brokers, or in a local file."""
