"""Crash tests of a broker on a real disk: a load, a ledger of what happened, and its judge."""
