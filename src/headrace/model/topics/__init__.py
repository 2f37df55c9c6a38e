"""Topics: priorities of messages that stay, read by offset, alone or as a group."""
