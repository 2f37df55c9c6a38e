"""What the load is made of: the queues, how they hang together, and where each message may be."""

from __future__ import annotations

from headrace.testing.amqp_connection import RawConnection
from headrace.wire.amqp import methods as m

PLAIN = ("verify.plain.0", "verify.plain.1")
STORED = "verify.stored"
"""Not consumed before the end, so old segments keep a few live messages."""
FAN = "verify.fan"
FANNED = ("verify.fan.0", "verify.fan.1", "verify.fan.2")
WORK, DEAD = "verify.work", "verify.dead"
BRIEF, EXPIRED = "verify.brief", "verify.expired"
BATCH = "verify.batch"
INBOX, OUTBOX = "verify.inbox", "verify.outbox"

BRIEF_MS = 150

HOMES = {queue: queue for queue in (*PLAIN, STORED, *FANNED, WORK, BRIEF, BATCH, INBOX)}
HOMES |= {DEAD: WORK, EXPIRED: BRIEF, OUTBOX: INBOX}
UNORDERED = (DEAD, OUTBOX)
CONSUMED = (*PLAIN, *FANNED, WORK, DEAD, EXPIRED, BATCH, OUTBOX)

# (exchange, routing key) -> the queues that must get the message
ROUTES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", queue): (queue,) for queue in (*PLAIN, STORED, WORK, BRIEF, INBOX)
}
ROUTES[FAN, ""] = FANNED

_ARGUMENTS: dict[str, dict[str, object]] = {
    WORK: {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD},
    BRIEF: {
        "x-message-ttl": BRIEF_MS,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": EXPIRED,
    },
}


def declare(link: RawConnection, channel: int) -> None:
    """Declare everything; harmless when it is there."""
    link.call(
        channel,
        m.ExchangeDeclare(exchange=FAN, type="fanout", durable=True),
        m.ExchangeDeclareOk,
    )
    for queue in HOMES:
        arguments = _ARGUMENTS.get(queue, {})
        link.call(
            channel,
            m.QueueDeclare(queue=queue, durable=True, arguments=arguments),
            m.QueueDeclareOk,
        )
    for queue in FANNED:
        link.call(channel, m.QueueBind(queue=queue, exchange=FAN), m.QueueBindOk)


def count_ready(link: RawConnection, channel: int) -> int:
    """Messages that are ready, in all queues together."""
    return sum(
        link.call(
            channel, m.QueueDeclare(queue=queue, passive=True), m.QueueDeclareOk
        ).message_count
        for queue in HOMES
    )
