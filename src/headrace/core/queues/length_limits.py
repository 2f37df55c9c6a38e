"""Length limits of a queue: what still fits, and what is over the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from headrace.model.backlog import Backlog, PriorityBacklog
from headrace.model.message import PAGED_OUT, PublishedRun, Run
from headrace.model.queue_arguments import QueueSettings
from headrace.wire.amqp.content import body_size

DROP_AT_ONCE = 20_000  # runs, more than come in during a turn; the rest follows in later turns
PAGE_IN_AT_ONCE = 500


class BodySizedRun(Run):
    """A run that counts body bytes, for queues with a limit in bytes."""

    __slots__ = ()
    measure: ClassVar[Callable[[bytes], int]] = body_size


def refused_run(published: PublishedRun, contents: list[bytes]) -> Run:
    """Messages that found no room, for the dead-letter exchange; they never had offsets."""
    return Run(
        published.route,
        contents,
        range(len(contents)),
        0,
        channel_number=published.channel_number,
        persistent=published.persistent,
    )


def measured(run: Run, kind: type[Run]) -> Run:
    """The run as ``kind`` measures it."""
    if type(run) is kind or run.contents is PAGED_OUT:
        return run
    return run.with_contents(run.contents[run.start :], run.offsets[run.start :], kind)


def remeasure(backlog: Backlog | PriorityBacklog, kind: type[Run]) -> None:
    """Measure all ready messages as ``kind`` does."""
    if sum(len(run) for run in backlog.runs()) < backlog.count:
        return  # what is not in memory keeps its measure
    for run in backlog.clear():
        again = measured(run, kind)
        if again.deliveries:
            backlog.requeue([again])
        else:
            backlog.append(again)


def count_that_fits(
    backlog: Backlog | PriorityBacklog, settings: QueueSettings, contents: list[bytes]
) -> int:
    """How many of the messages, from the first on, the limits leave room for."""
    room = len(contents)
    if settings.max_length is not None:
        room = min(room, max(0, settings.max_length - backlog.count))
    if settings.max_length_bytes is not None:
        free = settings.max_length_bytes - backlog.size
        for index, content in enumerate(contents[:room]):
            free -= body_size(content)
            if free < 0:
                return index
    return room


def is_exceeded(backlog: Backlog | PriorityBacklog, settings: QueueSettings) -> bool:
    """Whether there are more messages than the limits allow."""
    most, most_bytes = settings.max_length, settings.max_length_bytes
    if most is not None and backlog.count > most:
        return True
    return most_bytes is not None and backlog.count > 0 and backlog.size > most_bytes


def take_excess(backlog: Backlog | PriorityBacklog, settings: QueueSettings) -> list[Run]:
    """Remove the messages at the head that are over the limits.

    Of very many a part: the more there are, the more of them; fewer if they must be paged in.
    """
    excess: list[Run] = []
    at_once = max(DROP_AT_ONCE, backlog.count >> 5)
    if backlog.paged_out[0]:
        at_once = max(PAGE_IN_AT_ONCE, backlog.count >> 7)
    if settings.max_length is not None:
        while len(excess) < at_once and (over := backlog.count - settings.max_length) > 0:
            excess.append(backlog.take(over))
    if (most := settings.max_length_bytes) is not None:
        while len(excess) < at_once and backlog.count and backlog.size > most:
            excess.append(backlog.take(1))
    return excess
