"""Tells the whole story against one broker; a chapter that fails does not stop the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.demo import everyday, trouble
from headrace.demo.broker import DemoBroker
from headrace.demo.clients import ClientError, Clients
from headrace.demo.crash import crash
from headrace.demo.story import Story

CHAPTERS = (*everyday.CHAPTERS, *trouble.CHAPTERS)


def tell(story: Story, broker: DemoBroker) -> None:
    """Each chapter is a function; the first line of its docstring is its heading."""
    for chapter in CHAPTERS:
        with _chapter(story, str(chapter.__doc__)), Clients(broker.url) as clients:
            chapter(story, clients)
    with _chapter(story, str(crash.__doc__)):
        crash(story, broker)


@contextmanager
def _chapter(story: Story, heading: str) -> Iterator[None]:
    story.heading(heading)
    try:
        yield
    except (ClientError, OSError) as error:
        story.check(f"the chapter came to its end: {type(error).__name__}", False, error)
