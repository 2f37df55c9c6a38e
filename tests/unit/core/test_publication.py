"""Publications: what is prepared in pieces comes in the order in which it was added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.core.publication import ENTRIES_AT_ONCE, EntrySink
from headrace.core.queues.prepared_puts import RESIDENT_LIMIT
from headrace.core.topics.amqp_mapping import entry_of
from headrace.model.message import PublishedRun, Route
from headrace.store.paging_files import Scratch
from headrace.store.topics.types import Entry
from support.fake_loop import Stage, message


class NotedSink(EntrySink):
    """A topic that notes the keys of what is appended."""

    name = "topic.t"

    def __init__(self) -> None:
        self.keys: list[str | None] = []

    def put(self, batch: PublishedRun) -> bool:
        raise AssertionError("many messages are prepared")

    def entries(self, batch: PublishedRun) -> list[Entry]:
        return [entry_of(content, batch.route.key) for content in batch.contents]

    def prepare(self, entries: Sequence[Entry]) -> Callable[[], object]:
        keys = [entry.tags for entry in entries]
        return lambda: self.keys.extend(keys)


def test_many_messages_to_a_topic_keep_their_order() -> None:
    sink = NotedSink()
    publication = Stage().vhost.new_publication()
    keys = [str(number) for number in range(2 * ENTRIES_AT_ONCE + 10)]
    for key in keys:
        publication.add(PublishedRun(Route("topic.t", key, [sink]), [message("x")], 1))
    publication.publish()

    assert sink.keys == keys


def test_transient_messages_of_several_publications_are_paged_out(tmp_path: Path) -> None:
    """Each of them is small enough for the memory; all together are not."""
    stage = Stage()
    scratch = stage.vhost.storage.scratch = Scratch(tmp_path)
    queue = stage.queue()
    body, mib = bytes(1 << 18), 1 << 20
    for _ in range(6):
        publication = stage.vhost.new_publication()
        for _ in range(20):
            route = stage.vhost.routes.get("", "q")
            publication.add(PublishedRun(route, [message(body)], len(body)))
        publication.publish()

    assert queue.backlog.size > 30 * mib
    assert scratch._active is not None and scratch._active.used > 30 * mib - RESIDENT_LIMIT
    assert sum(len(run) for run in queue.backlog.clear()) == 120
    scratch.close()
