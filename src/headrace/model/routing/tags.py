"""Routing of a topic's own bindings: like a topic exchange, with the tags as the key."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from headrace.model.routing.topic import TopicRouter

T = TypeVar("T")


class TagRouter(TopicRouter[T]):
    """Tags of other clients are no routing keys: nobody checks how they are written."""

    kind: ClassVar[str] = "x-topic"
