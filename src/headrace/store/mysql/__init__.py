"""Topics in MySQL or MariaDB: the original tables, read by a rule that loses nothing."""
