"""Topics in MySQL or MariaDB: the tables of the seed, read by a rule that loses nothing."""
