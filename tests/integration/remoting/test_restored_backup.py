"""Consumers that keep their offsets themselves, and a broker restored from a backup."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.store.tools.backup import backup, restore
from headrace.testing import run_broker
from headrace.wire.remoting.codes import ResponseCode
from headrace.wire.remoting.headers.pull import PullResult
from support.raw_remoting import Link
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import new_topic, pull, send


def test_a_consumer_ahead_of_the_log_is_sent_to_where_the_log_went_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, copy, again = tmp_path / "data", tmp_path / "copy", tmp_path / "again"
    with run_broker(data_dir=data) as broker:
        site = Ours(broker)
        topic = new_topic(site)
        with Link(site.broker_address) as link:
            for body in (b"a", b"b"):
                send(link, topic, body)
            backup(data, copy)
    restore(copy, again)

    with run_broker(data_dir=again) as broker, Link(Ours(broker).broker_address) as link:
        send(link, topic, b"new")
        answers = [pull(link, topic, offset=9) for _ in range(3)]

    assert {one.code for one in answers} == {ResponseCode.PULL_OFFSET_MOVED}
    assert [PullResult.take(one.ext).next_begin_offset for one in answers] == [2, 2, 2]
    assert caplog.text.count("but the log ends at 3") == 1
