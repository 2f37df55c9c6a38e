"""Making a new connection what the lost one was: declarations, channels, consumers. No I/O.

A recovery is a generator: it yields requests and is sent the replies (or thrown the errors), so
that both clients drive the same plan.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.client.core.channel_state import ChannelState, ConsumerState
from headrace.client.core.topology import Fields, Topology
from headrace.client.errors import ConsumerCancelled, HeadraceError, ResourceLocked
from headrace.wire.native.payloads import Op

logger = logging.getLogger(__name__)

Reply = Mapping[str, Any]
CONTROL = 0  # the channel on which declarations are repeated; programs get 1 and more


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    """One request of a recovery."""

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
        what = f"binding to {one.source!r}"
        yield from _attempt(RecoveryStep(CONTROL, Op.BIND, one.fields, what))
    yield RecoveryStep(CONTROL, Op.CHANNEL_CLOSE, {}, "channel for recovery")


def _queue(topology: Topology, name: str, patient: bool) -> Plan:
    fields, what = topology.queues[name], f"queue {name!r}"
    if name in topology.server_named:
        # Nobody may declare such a name: look for it, unless it ended with its connection.
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
    """One step that may fail; recovery goes on without it."""
    try:
        return (yield step)
    except HeadraceError as error:
        logger.warning("%s was not recovered: %s", step.what, error)
        return None
