"""The archive: every message of queues and topics as a row of a Delta table, exactly once."""
