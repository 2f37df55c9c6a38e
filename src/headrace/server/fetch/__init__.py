"""Bulk reads: a process of its own turns ranges of offsets into Arrow and back-pressure keeps it
in step with the client. The broker only says where the records are, and passes frames on."""
