"""Helpers of the tests: brokers, clients, fakes, and programs to be killed."""
