"""A disk matrix: every file of a data directory, damaged in every way, and a judge."""
