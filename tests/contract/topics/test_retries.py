"""The part `retries` of the contract, on each engine."""

from headrace.testing.topic_engine_contract.retries import *  # noqa: F403
