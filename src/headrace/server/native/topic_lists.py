"""Lists of topics and of who reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.topics.async_engine import EngineReply, Then, collect
from headrace.errors import EngineUnavailable, NoSuchTopic
from headrace.server.native.channel import Channel
from headrace.server.native.topic_fields import group_fields, topic_fields
from headrace.server.native.topics import EXCHANGE_PREFIX, limit_of
from headrace.store.topics.types import GroupInfo, TopicInfo
from headrace.wire.native.payloads import Request

if TYPE_CHECKING:
    from headrace.server.native.session import Session

_GONE = (NoSuchTopic, EngineUnavailable)  # deleted since it was listed, or its database is away
Row = tuple[str, dict[str, object]]
Show = Callable[["Session", Request, Iterable[Row]], None]


def list_topics(session: Session, channel: Channel, request: Request, show: Show) -> None:
    def then(answer: EngineReply[list[TopicInfo]]) -> None:
        if session.closed or channel.closing:
            return
        if answer.error is not None:
            session.refuse(request, answer.error)
            return
        found = sorted(answer.value or (), key=lambda info: info.name)
        show(
            session,
            request,
            [
                (EXCHANGE_PREFIX + info.name, topic_fields(info, limit_of(session, info.engine)))
                for info in found
            ],
        )

    session.open_vhost.topics.infos(then)


def list_groups(session: Session, channel: Channel, request: Request, show: Show) -> None:
    """Of one topic, or of all."""
    topics = session.open_vhost.topics
    wanted = request.text("topic", "")
    names = [wanted] if wanted else topics.names()

    def then(answer: EngineReply[list[Row]]) -> None:
        if session.closed or channel.closing:
            return
        if answer.error is not None:
            session.refuse(request, answer.error)
        else:
            show(session, request, answer.value or ())

    def rows_of(name: str, then: Then[list[Row]]) -> None:
        def found(answer: EngineReply[list[GroupInfo]]) -> None:
            rows = [(EXCHANGE_PREFIX + name, group_fields(name, one)) for one in answer.value or ()]
            is_one_of_many = not wanted and isinstance(answer.error, _GONE)
            then(EngineReply(rows, None if is_one_of_many else answer.error))

        try:
            topics.engine_of(name).groups(name, found)
        except _GONE as error:
            found(EngineReply(error=error))

    collect([partial(rows_of, name) for name in names], then)
