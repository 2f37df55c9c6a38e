"""Topics of a vhost: those of the log engine live here, those of other engines in threads."""
