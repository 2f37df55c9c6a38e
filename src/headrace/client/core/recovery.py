"""Declarations of a connection, and the requests that restore them on a new one. No I/O.

A recovery is a generator: it yields requests and is sent the replies (or thrown the errors), so
that both clients drive the same plan.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from dataclasses import dataclass, field

from headrace.client.core.channel_state import ChannelState, ConsumerState
from headrace.client.core.requests import Fields, Reply
from headrace.client.errors import ConsumerCancelled, HeadraceError, ResourceLocked
from headrace.wire.native.payloads import Op

logger = logging.getLogger(__name__)

CONTROL = 0  # the channel on which declarations are repeated; programs get 1 and more


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    channel: int
    op: int
    fields: Fields
    what: str


Plan = Generator[RecoveryStep, Reply, None]


def recovery(topology: Topology, channels: dict[int, ChannelState], *, patient: bool) -> Plan:
    """All of it. ``patient``: a locked queue raises ResourceLocked, as its lock may go soon."""
    yield from _declarations(topology, patient)
    for channel in list(channels.values()):
        yield RecoveryStep(channel.id, Op.CHANNEL_OPEN, {}, f"channel {channel.id}")
        if channel.prefetch is not None:
            qos = {"prefetch": channel.prefetch}
            yield RecoveryStep(channel.id, Op.QOS, qos, f"prefetch of channel {channel.id}")
        for consumer in list(channel.consumers.values()):
            yield from _consume(topology, channel, consumer)


def _declarations(topology: Topology, patient: bool) -> Plan:
    if not (topology.exchanges or topology.queues or topology.bindings):
        return
    yield RecoveryStep(CONTROL, Op.CHANNEL_OPEN, {}, "channel for recovery")
    for name, fields in list(topology.exchanges.items()):
        yield from _attempt(
            RecoveryStep(CONTROL, Op.EXCHANGE_DECLARE, fields, f"exchange {name!r}")
        )
    for name in list(topology.queues):
        yield from _queue(topology, name, patient)
    for one in topology.bindings:
        yield from _attempt(RecoveryStep(CONTROL, Op.BIND, one, f"binding to {one['source']!r}"))
    yield RecoveryStep(CONTROL, Op.CHANNEL_CLOSE, {}, "channel for recovery")


def _queue(topology: Topology, name: str, patient: bool) -> Plan:
    fields, what = topology.queues[name], f"queue {name!r}"
    if name in topology.server_named:
        # Clients may not declare such a name: look for it, unless it ended with its connection.
        if fields["exclusive"] or not (yield from _exists(name)):
            yield from _unnamed_queue(topology, name)
        return
    try:
        yield RecoveryStep(CONTROL, Op.QUEUE_DECLARE, fields, what)
    except HeadraceError as error:
        if isinstance(error, ResourceLocked) and patient:
            raise
        logger.warning("%s was not recovered: %s", what, error)


def _exists(name: str) -> Generator[RecoveryStep, Reply, bool]:
    page, more = 0, True
    while more:
        fields = {"kind": "queues", "page": page}
        reply = yield RecoveryStep(CONTROL, Op.LIST, fields, "list of queues")
        if any(row["name"] == name for row in reply["rows"]):
            return True
        page, more = page + 1, bool(reply.get("more"))
    return False


def _unnamed_queue(topology: Topology, name: str) -> Plan:
    fields = {**topology.queues[name], "name": ""}
    reply = yield from _attempt(RecoveryStep(CONTROL, Op.QUEUE_DECLARE, fields, f"queue {name!r}"))
    if reply is not None and reply["name"] != name:
        topology.rename(name, reply["name"])


def _consume(topology: Topology, channel: ChannelState, consumer: ConsumerState) -> Plan:
    fields = consumer.fields = topology.resolve(Op.CONSUME, consumer.fields)
    what = f"consumer {consumer.tag!r} of queue {consumer.queue!r}"
    if (yield from _attempt(RecoveryStep(channel.id, Op.CONSUME, fields, what))) is None:
        channel.consumers.pop(consumer.tag, None)
        consumer.sink.end(ConsumerCancelled(f"{what} could not be recovered"))


def _attempt(step: RecoveryStep) -> Generator[RecoveryStep, Reply, Reply | None]:
    """One step that may fail; recovery continues without it."""
    try:
        return (yield step)
    except HeadraceError as error:
        logger.warning("%s was not recovered: %s", step.what, error)
        return None


@dataclass(slots=True)
class Topology:
    """The records of one connection. Its methods are called when the broker has said yes."""

    exchanges: dict[str, Fields] = field(default_factory=dict)
    queues: dict[str, Fields] = field(default_factory=dict)
    bindings: list[Fields] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    """Names which the broker gave earlier, and the names that these queues have now."""
    server_named: set[str] = field(default_factory=set)

    # -- keeping the records ---------------------------------------------------------------------

    def add_exchange(self, fields: Fields) -> None:
        self.exchanges[fields["name"]] = fields

    def drop_exchange(self, name: str) -> None:
        self.exchanges.pop(name, None)
        for one in [b for b in self.bindings if name in (b["source"], b.get("exchange"))]:
            self._drop_binding(one)

    def add_queue(self, fields: Fields, name: str) -> None:
        """``name`` is what the broker called it."""
        if not fields["name"]:
            self.server_named.add(name)
        self.queues[name] = {**fields, "name": name}

    def drop_queue(self, name: str) -> None:
        self.queues.pop(name, None)
        self.server_named.discard(name)
        for one in [b for b in self.bindings if b.get("queue") == name]:
            self._drop_binding(one)

    def add_binding(self, fields: Fields) -> None:
        if fields not in self.bindings:
            self.bindings.append(fields)

    def drop_binding(self, fields: Fields) -> None:
        """Without a key: every binding of the pair."""
        for one in [b for b in self.bindings if _matches(b, fields)]:
            self._drop_binding(one)

    def _drop_binding(self, binding: Fields) -> None:
        self.bindings.remove(binding)
        name = binding["source"]
        if any(one["source"] == name for one in self.bindings):
            return
        if name in self.exchanges and self.exchanges[name]["auto_delete"]:
            self.drop_exchange(name)  # the broker has deleted it by itself

    def last_consumer_left(self, queue: str) -> None:
        """A queue that deletes itself is gone now."""
        record = self.queues.get(queue)
        if record is not None and record["auto_delete"]:
            self.drop_queue(queue)

    # -- names -----------------------------------------------------------------------------------

    def resolve(self, number: int, fields: Fields) -> Fields:
        """The fields of a request with the present names of queues."""
        if not self.aliases:
            return fields
        key = "name" if number in (Op.QUEUE_DECLARE, Op.QUEUE_DELETE) else "queue"
        if number == Op.PUBLISH:
            return self._resolve_publish(fields)
        name = self.aliases.get(fields.get(key, ""))
        return fields if name is None else {**fields, key: name}

    def _resolve_publish(self, fields: Fields) -> Fields:
        if "batch" in fields:
            return {**fields, "batch": [self._resolve_publish(one) for one in fields["batch"]]}
        name = self.aliases.get(fields["key"]) if not fields["exchange"] else None
        return fields if name is None else {**fields, "key": name}

    def rename(self, old: str, new: str) -> None:
        self.queues[new] = {**self.queues.pop(old), "name": new}
        self.server_named.discard(old)
        self.server_named.add(new)
        for one in self.bindings:
            if one.get("queue") == old:
                one["queue"] = new
        for former, present in self.aliases.items():
            if present == old:
                self.aliases[former] = new
        self.aliases[old] = new


def _matches(record: Fields, asked: Fields) -> bool:
    wanted = ("queue", "exchange", "source")
    if any(record.get(name) != asked.get(name) for name in wanted):
        return False
    return "key" not in asked or record.get("key", "") == asked["key"]
