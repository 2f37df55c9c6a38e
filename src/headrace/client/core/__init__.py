"""Connection and channel without I/O, shared by both faces."""
