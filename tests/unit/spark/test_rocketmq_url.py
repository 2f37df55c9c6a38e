"""Addresses of RocketMQ clusters in the options of the data source."""

from __future__ import annotations

import pytest

from headrace.spark.backends.rocketmq import servers_of
from headrace.spark.errors import BadOption
from headrace.spark.options import read_options, write_options


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("rocketmq://names", ("names:9876", "", "")),
        ("rocketmq://names:1234/", ("names:1234", "", "")),
        ("rocketmq://a,b:1;c", ("a:9876;b:1;c:9876", "", "")),
        ("rocketmq://[::1]", ("[::1]:9876", "", "")),
        ("rocketmq://[::1]:5", ("[::1]:5", "", "")),
        ("rocketmq://key:se%40cret@a:1", ("a:1", "key", "se@cret")),
    ],
)
def test_name_servers_and_keys(url: str, expected: tuple[str, str, str]) -> None:
    assert servers_of(url) == expected


def test_an_address_without_a_name_server() -> None:
    with pytest.raises(BadOption, match="name server"):
        servers_of("rocketmq:///")


def test_queues_and_writing_are_refused() -> None:
    with pytest.raises(BadOption, match="topics only"):
        read_options({"url": "rocketmq://a", "queue": "q"})
    for target in ({"topic": "t"}, {"exchange": "x"}):
        with pytest.raises(BadOption, match="can only be read"):
            write_options({"url": "rocketmq://a", **target})


def test_positions_of_one_broker_or_of_all() -> None:
    given = {"url": "rocketmq://a", "topic": "t"}
    start = read_options({**given, "startingOffsets": '{"t@b": {"0": 5}, "t": {"0": 7}}'}).start
    assert (start.asked("t@b"), start.asked("t@other")) == ({0: 5}, {0: 7})
    with pytest.raises(BadOption, match="not among the sources"):
        read_options({**given, "startingOffsets": '{"u@b": {"0": 5}}'})


def test_a_secret_is_not_shown() -> None:
    assert "hush" not in repr(read_options({"url": "rocketmq://k:hush@a", "topic": "t"}))
