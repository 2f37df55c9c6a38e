"""The contract of topic engines, as tests that you run on an engine of your own.

A part is a module of tests. Import the parts that the engine has into a test module of yours, and
give them a fixture `engine` that yields an open engine:

    from headrace.testing.topic_engine_contract.fixtures import *
    from headrace.testing.topic_engine_contract.messages import *

| part | modules |
|---|---|
| append and read | `topics`, `messages`, `positions` |
| groups | `groups` |
| retries | `retries` |
"""
