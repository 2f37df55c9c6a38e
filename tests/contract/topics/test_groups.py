"""The part `groups` of the contract, on each engine."""

from headrace.testing.topic_engine_contract.groups import *  # noqa: F403
