"""Message queues, and bodies that list them: locks, members, offsets per queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import MalformedError
from headrace.wire.remoting.headers.fields import JsonBody, listed
from headrace.wire.remoting.json_values import (
    body_map,
    items,
    json_bytes,
    loads,
    object_keyed,
    table,
    text,
    whole,
)


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue of a topic on one broker. Sorted as every member of a group sorts them."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """As Java says it; consistent hashing depends on this text."""
        return (
            f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, "
            f"queueId={self.queue_id}]"
        )

    def as_map(self) -> dict[str, object]:
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    @classmethod
    def take(cls, value: object) -> MessageQueue:
        found = table("queue", value)
        return cls(
            text("topic", found.get("topic")),
            text("brokerName", found.get("brokerName")),
            whole("queueId", found.get("queueId")),
        )


# -- locks -----------------------------------------------------------------------------------


class LockRequest(JsonBody):
    """The body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    consumer_group: str
    client_id: str
    queues: tuple[MessageQueue, ...] = listed("mqSet", MessageQueue)
    only_this_broker: bool = False


def locked_body(queues: Iterable[MessageQueue]) -> bytes:
    """The answer to a lock: the queues that the client holds now."""
    return json_bytes({"lockOKMQSet": [queue.as_map() for queue in queues]})


def take_locked(body: bytes) -> tuple[MessageQueue, ...]:
    found = items("lockOKMQSet", body_map(body).get("lockOKMQSet"))
    return tuple([MessageQueue.take(one) for one in found])


# -- members ---------------------------------------------------------------------------------


def members_body(client_ids: Iterable[str]) -> bytes:
    """The answer to GET_CONSUMER_LIST_BY_GROUP."""
    return json_bytes({"consumerIdList": list(client_ids)})


def take_members(body: bytes) -> list[str]:
    found = body_map(body).get("consumerIdList")
    return [text("consumerIdList", one) for one in items("consumerIdList", found)]


# -- values per queue ------------------------------------------------------------------------


def offsets_body(name: str, offsets: Mapping[MessageQueue, int]) -> bytes:
    """`{name:{queue:offset}}` with objects as keys, which Java and Go read."""
    pairs = [(queue.as_map(), offset) for queue, offset in offsets.items()]
    return f'{{"{name}":{object_keyed(pairs)}}}'.encode("ascii")


def offset_list_body(name: str, offsets: Mapping[MessageQueue, int]) -> bytes:
    """The same as a list, which C++ reads."""
    listed = [queue.as_map() | {"offset": offset} for queue, offset in offsets.items()]
    return json_bytes({name: listed})


def take_offsets(name: str, body: bytes) -> dict[MessageQueue, int]:
    """Offsets by queue, in any of the four ways in which they are written."""
    return {
        queue: whole("offset", value) for queue, value in by_queue(name, body_map(body).get(name))
    }


def by_queue(name: str, value: object) -> Iterator[tuple[MessageQueue, Any]]:
    """Values by queue: objects as keys, pairs, keys of JSON text, or a flat list."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield MessageQueue.take(loads(key)), one
        return
    for one in items(name, value):
        if isinstance(one, list):
            if len(one) != 2:
                raise MalformedError(f"'{name}' has a pair of {len(one)}")
            yield MessageQueue.take(one[0]), one[1]
        else:
            yield MessageQueue.take(one), table(name, one).get("offset")
