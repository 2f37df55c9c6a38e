"""Blocks of publishes have one size, the right keys, and the size their deliveries will have."""

from __future__ import annotations

import fnmatch
from dataclasses import replace

import pika.frame
import pytest
from pika.frame import Method
from pika.spec import Basic

from headrace.bench.cases import CASES
from headrace.bench.load_plan import LoadPlan, PublishBlock, distinct_keys, other_patterns


def keys_of(block: PublishBlock, count: int) -> list[str]:
    found = []
    for number in range(count):
        start = number * block.size
        _, method = pika.frame.decode_frame(block.data[start : start + block.size])
        found.append(method.method.routing_key)
    return found


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.distinct_keys < 200_000])
def test_every_block_is_whole_publishes_of_one_size(name: str) -> None:
    block = next(LoadPlan(CASES[name], "p").blocks(0))

    assert len(block.data) == block.count * block.size
    assert block.data[block.size - 1] == block.data[-1] == 0xCE


def test_ten_queues_take_turns_message_by_message() -> None:
    plan = LoadPlan(CASES["ten-queues"], "p")
    block = next(plan.blocks(0))

    assert keys_of(block, 20) == plan.queues * 2
    assert block.count % 10 == 0


def test_every_pair_has_its_own_queue() -> None:
    plan = LoadPlan(CASES["many-connections"], "p")

    assert len({plan.queues_of(pair)[0] for pair in range(250)}) == 250
    assert keys_of(next(plan.blocks(249)), 1) == plan.queues_of(249)


def test_distinct_keys_go_on_from_block_to_block() -> None:
    blocks = LoadPlan(CASES["distinct-keys"], "p").blocks(0)

    first, second = next(blocks), next(blocks)

    assert keys_of(first, 1) == ["m.0000000.end"]
    assert keys_of(second, 1) == ["m.0100000.end"]


@pytest.mark.parametrize("name", ["auto-ack", "ten-queues", "fanout", "celery", "distinct-keys"])
def test_the_delivery_has_the_publishs_content(name: str) -> None:
    plan = LoadPlan(
        replace(CASES[name], distinct_keys=0) if name != "distinct-keys" else CASES[name], "p"
    )
    block = next(plan.blocks(0))
    key = keys_of(block, 1)[0]
    publish = Basic.Publish(exchange=plan.exchange, routing_key=key)
    deliver = Basic.Deliver("c000", 1, False, plan.exchange, key)

    content = block.size - len(Method(1, publish).marshal())
    assert plan.delivery_size == len(Method(1, deliver).marshal()) + content


def test_no_other_pattern_matches_a_key() -> None:
    keys = distinct_keys(0, 300)

    for pattern in other_patterns(300):
        # A star of a shell pattern also covers dots, so it matches more than a topic's words do.
        assert not fnmatch.filter(keys, pattern.replace("#", "*"))
