"""Choosing cases by name and group."""

from __future__ import annotations

import pytest

from headrace.bench.cases import CASES, GROUPS, Case, select


def test_no_choice_means_all_cases() -> None:
    assert select(()) == select(("all",)) == list(CASES.values())


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_selects_its_cases(group: str) -> None:
    assert {case.group for case in select((group,))} == {group}


def test_names_and_groups_mix_and_keep_the_order_of_the_table() -> None:
    names = [case.name for case in select(("latency", "sizes", "publish", "publish"))]

    assert names == ["publish", "size-12", "size-1k", "size-16k", "latency"]


def test_an_unknown_name_is_named() -> None:
    with pytest.raises(KeyError, match="warp"):
        select(("publish", "warp"))


def test_large_bodies_and_many_pairs_shrink_the_backlog() -> None:
    assert CASES["auto-ack"].backlog == 20_000
    assert CASES["size-16k"].backlog == 4096
    assert CASES["many-connections"].backlog == 100


def test_a_flood_has_no_bound() -> None:
    assert CASES["flood"].backlog > 10**12
    assert CASES["flood"].limit


def test_only_a_fanout_multiplies_deliveries() -> None:
    assert CASES["fanout"].copies == 10
    assert CASES["ten-queues"].copies == Case(name="x", about="").copies == 1
