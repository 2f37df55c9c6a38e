"""The part `append and read` of the contract, on each engine."""

from headrace.testing.topic_engine_contract.messages import *  # noqa: F403
from headrace.testing.topic_engine_contract.positions import *  # noqa: F403
from headrace.testing.topic_engine_contract.topics import *  # noqa: F403
