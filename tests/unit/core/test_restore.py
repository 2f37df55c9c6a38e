"""A restart: what was declared is there again, and so are the messages."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import cast

import pytest

from headrace.core.broker import Broker
from headrace.core.clock import VirtualClock
from headrace.core.loop_turn import LoopTurn
from headrace.core.queues.queue import Queue
from headrace.core.restore import restore
from headrace.core.storage import Storage
from headrace.errors import AccessRefused
from headrace.model.message import PublishedRun
from headrace.store.api.metadata import DamagedRow, Declarations
from headrace.store.api.rows import (
    BindingRow,
    ExchangeRow,
    PermissionRow,
    PolicyRow,
    QueueRow,
    TopicPermissionRow,
    TopicRow,
    UserRow,
)
from headrace.store.consistency import remove_dangling_rows
from support.fake_loop import HandLoop, Inbox, message
from support.faulty_disk import ForgetfulDisk
from support.storage.log_stage import LogStage

QUEUE = QueueRow(1, "u-1", "/", "q")


class Site:
    """A broker on a log that outlives it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.journal = LogStage(ForgetfulDisk())
        self.catalogue = Declarations(vhosts=["/"], queues=[QUEUE], next_queue_id=2)
        self.start()

    def start(self) -> Broker:
        self.hand = HandLoop()
        loop = cast(asyncio.AbstractEventLoop, self.hand)
        turn = LoopTurn(loop)
        log = self.journal.log
        self.broker = Broker(
            loop,
            directory=self._directory,
            memory_limit=1 << 40,
            disk_free_limit=0,
            clock=VirtualClock(),
            turn=turn,
            storage=Storage(turn, log=log, clean=log.report.clean),
        )
        restore(self.broker, self.catalogue)
        self.broker.storage.record_from_now_on(self.catalogue.next_queue_id)
        return self.broker

    def queue(self) -> Queue:
        return self.broker.vhosts["/"].queues["q"]

    def publish(self, *bodies: str, persistent: bool = True) -> None:
        vhost = self.broker.vhosts["/"]
        contents = [message(body) for body in bodies]
        size = sum(map(len, contents))
        vhost.publish(
            PublishedRun(vhost.routes.get("", "q"), contents, size, persistent=persistent)
        )
        self.run()

    def run(self) -> None:
        self.hand.run()
        self.journal.commit()

    def restart(self) -> None:
        self.run()
        self.journal.restart()
        self.start()

    def crash(self) -> None:
        self.run()
        self.journal.crash()
        self.start()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def received(site: Site) -> Inbox:
    inbox = Inbox()
    inbox.consume(site.queue())
    site.run()
    return inbox


# -- declarations -------------------------------------------------------------------------------


def test_everything_declared_is_there_again(site: Site) -> None:
    site.catalogue = Declarations(
        vhosts=["/", "other"],
        exchanges=[ExchangeRow("other", "x", "topic", True, True, {"alternate-exchange": "y"})],
        queues=[QUEUE, QueueRow(2, "u-2", "other", "q2", True, {"x-max-length": 3})],
        bindings=[
            BindingRow("other", "x", True, "q2", "a.#"),
            BindingRow("other", "amq.topic", False, "x", "b"),
        ],
        policies=[PolicyRow("other", "p", "^q", "queues", 1, {"max-length": 2})],
        next_queue_id=3,
    )
    vhost = site.start().vhosts["other"]

    exchange, queue = vhost.exchanges["x"], vhost.queues["q2"]
    assert (exchange.kind, exchange.auto_delete, exchange.internal) == ("topic", True, True)
    assert (queue.number, queue.uuid, queue.auto_delete) == (2, "u-2", True)
    assert queue.policies.policy == "p"
    assert [one.name for one in vhost.routes.get("x", "a.b").destinations] == ["q2"]
    assert vhost.declare_queue("q3", durable=True).number == 3


def test_a_binding_to_a_missing_target_is_logged_and_skipped(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.catalogue.bindings = [
        BindingRow("/", "amq.direct", True, "gone", "k"),
        BindingRow("/", "amq.direct", True, "q", "k"),
    ]
    with caplog.at_level(logging.ERROR):
        vhost = site.start().vhosts["/"]

    assert "could not be restored" in caplog.text
    assert [one.name for one in vhost.routes.get("amq.direct", "k").destinations] == ["q"]


# -- damage -------------------------------------------------------------------------------------

RIGHTS = PermissionRow("ann", "/", ".*", ".*", ".*")
ANN = UserRow("ann", "", ())


@pytest.mark.parametrize("reason", ["'amn' '/' 'x' is damaged", "3 rows found, expected 4"])
def test_a_damaged_restriction_of_topics_lifts_no_restriction(site: Site, reason: str) -> None:
    site.catalogue.users, site.catalogue.permissions = [ANN], [RIGHTS]
    site.catalogue.topic_permissions = [TopicPermissionRow("ann", "/", "known", "^eu", "")]
    site.start().users.user("ann").check_topic("/", "write", "amq.topic", "us")
    site.catalogue.damaged = [DamagedRow("topic_permissions", reason)]

    ann = site.start().users.user("ann")

    ann.check_topic("/", "write", "known", "eu.1")
    with pytest.raises(AccessRefused):
        ann.check_topic("/", "write", "amq.topic", "us")


def test_a_restriction_of_a_missing_user_restricts_no_other(site: Site) -> None:
    site.catalogue.users, site.catalogue.permissions = [ANN], [RIGHTS]
    site.catalogue.topic_permissions = [TopicPermissionRow("gone", "/", "amq.topic", "^eu", "")]
    assert len(remove_dangling_rows(site.catalogue)) == 1

    site.start().users.user("ann").check_topic("/", "write", "amq.topic", "us")


def test_what_a_repair_accepted_and_cannot_be_declared_does_not_stop_a_start(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.catalogue.exchanges = [ExchangeRow("/", "bad", "topid"), ExchangeRow("/", "x", "topic")]
    site.catalogue.queues = [
        QueueRow(1, "u-1", "/", "q"),
        QueueRow(2, "u-2", "/", "bad", arguments={"x-max-length": -1}),
    ]
    site.catalogue.topics = [TopicRow("/", "bad", "u-3", 1, 5, {}, {"midlle.0": 3}, 3)]
    site.catalogue.policies = [PolicyRow("/", "bad", "(", "queues", 1, {"max-lengthh": 2})]

    vhost = site.start().vhosts["/"]

    assert set(vhost.queues) == {"q"}
    assert "x" in vhost.exchanges
    assert caplog.text.count("could not be restored") >= 3


def test_no_first_user_is_made_when_users_may_be_damaged(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.catalogue.damaged = [DamagedRow("users", "0 rows found, expected 1")]

    users = site.start().users
    users.ensure_default_user("guest", "guest")

    assert users.list_users() == []
    assert "no user can be read" in caplog.text


# -- messages -----------------------------------------------------------------------------------


def test_persistent_messages_are_there_after_a_restart_and_others_are_not(site: Site) -> None:
    site.publish("a", "b")
    site.publish("transient", persistent=False)
    site.publish("c")

    site.restart()

    assert site.queue().backlog.count == 3
    assert received(site).deliveries == {1: ("a", 0), 2: ("b", 0), 3: ("c", 0)}


def test_after_a_crash_messages_are_marked_as_possibly_delivered(site: Site) -> None:
    site.publish("a")
    site.crash()
    site.publish("b")

    assert received(site).deliveries == {1: ("a", 1), 2: ("b", 0)}


def test_acknowledged_messages_do_not_come_back(site: Site) -> None:
    site.publish("a", "b", "c")
    received(site).ack(1, 2)

    site.restart()

    assert received(site).seen == ["c"]


def test_unacknowledged_messages_come_back_marked_however_the_broker_ended(site: Site) -> None:
    site.publish("a")
    received(site)

    site.crash()

    assert received(site).deliveries == {1: ("a", 1)}


def test_new_messages_get_offsets_behind_the_old_ones(site: Site) -> None:
    site.publish("a")
    received(site).ack(1)
    site.restart()
    site.publish("b")
    site.restart()

    assert received(site).seen == ["b"]


def test_deleting_a_queue_drops_its_messages(site: Site) -> None:
    site.publish("a")
    site.broker.vhosts["/"].delete_queue("q", site)
    site.restart()

    site.journal.log.index.retain_only(set())
    assert site.journal.log.reads.live(1) == (0, 0)


def test_a_purged_queue_is_empty_after_a_restart(site: Site) -> None:
    site.publish("a", "b")
    site.restart()
    assert site.queue().purge() == 2

    site.restart()

    assert site.queue().backlog.count == 0
    assert received(site).seen == []
