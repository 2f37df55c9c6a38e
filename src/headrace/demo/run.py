"""Tells the whole story against one broker; a chapter that fails does not stop the next."""

from __future__ import annotations

from headrace.demo import everyday, trouble
from headrace.demo.clients import ClientError, Clients
from headrace.demo.story import Story

CHAPTERS = (*everyday.CHAPTERS, *trouble.CHAPTERS)


def tell(story: Story, url: str) -> None:
    """Each chapter is a function; the first line of its docstring is its heading."""
    for chapter in CHAPTERS:
        story.heading(str(chapter.__doc__))
        try:
            with Clients(url) as clients:
                chapter(story, clients)
        except (ClientError, OSError) as error:
            story.check(f"the chapter came to its end: {type(error).__name__}", False, error)
