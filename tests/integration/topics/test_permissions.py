"""Who may do what to a topic: the permissions of its exchange, `topic.<name>`, decide."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import AccessRefused
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from headrace.testing import RunningBroker
from support.access_matrix import PASSWORD, USER, Site
from support.native_topics import (
    APPEND,
    COMMIT,
    DEAD,
    DECLARE,
    DELETE,
    DESCRIBE,
    FORGET,
    LAG,
    LIST,
    NACK,
    READ,
    RENEW,
    SEEK,
    Line,
    NativeEngine,
)

Call = Callable[[Line, str], object]

CALLS: dict[str, tuple[str, Call]] = {
    "declare": ("configure", lambda line, name: line.call(DECLARE, name=name)),
    "delete": ("configure", lambda line, name: line.call(DELETE, name=name)),
    "append": ("write", lambda line, name: line.call(APPEND, topic=name, body=b"")),
    "describe": ("read", lambda line, name: line.call(DESCRIBE, name=name)),
    "read": ("read", lambda line, name: line.call(READ, topic=name, token="c", batch=1)),
    "commit": ("read", lambda line, name: line.call(COMMIT, topic=name, token="c", claim=[])),
    "nack": ("read", lambda line, name: _nack(line, name)),
    "renew": ("read", lambda line, name: _renew(line, name)),
    "seek": ("read", lambda line, name: line.call(SEEK, topic=name, token="c", time_ms=0)),
    "lag": ("read", lambda line, name: line.call(LAG, topic=name, token="c")),
    "forget": ("read", lambda line, name: line.call(FORGET, topic=name, token="c")),
    "dead": ("read", lambda line, name: line.call(DEAD, topic=name, group="g")),
}


def _claim(line: Line, name: str) -> list[object]:
    claim: list[object] = line.call(READ, topic=name, token="c", group="g", batch=1)["claim"]
    return claim


def _nack(line: Line, name: str) -> object:
    claim = _claim(line, name)
    return line.call(NACK, topic=name, token="c", group="g", claim=claim, ids=[["middle", 1]])


def _renew(line: Line, name: str) -> object:
    return line.call(RENEW, topic=name, token="c", group="g", claim=_claim(line, name))


@pytest.fixture
def site(running: RunningBroker) -> Site:
    return Site(running)


@pytest.mark.parametrize("operation", CALLS)
def test_an_operation_needs_its_permission_and_no_other(
    site: Site, engine: NativeEngine, topic: str, operation: str
) -> None:
    engine.append(topic, [Entry(b"x")])
    action, call = CALLS[operation]
    everything = dict.fromkeys(("configure", "write", "read"), ".*")
    only = {one: f"^topic\\.{topic}$" if one == action else "^$" for one in everything}
    all_but = {one: "^$" if one == action else ".*" for one in everything}
    if operation in ("nack", "renew"):
        all_but = dict.fromkeys(everything, "^$")

    with_line(site, all_but, lambda line: _is_refused(call, line, topic))
    with_line(site, only, lambda line: call(line, topic))


def test_lists_show_what_a_user_may_use(site: Site, engine: NativeEngine, topic: str) -> None:
    other = f"o_{topic}"
    engine.create(TopicSpec(other))
    for name in (topic, other):
        engine.read(name, ConsumerSpec("c"), 1)
    only = dict.fromkeys(("configure", "write", "read"), f"^topic\\.{topic}$")

    def look(line: Line) -> object:
        names = [row["name"] for row in line.call(LIST, kind="topics")["rows"]]
        readers = [row["topic"] for row in line.call(LIST, kind="groups")["rows"]]
        assert (names, readers) == ([topic], [topic])
        return None

    with_line(site, only, look)


def running_port(site: Site) -> int:
    port = site.running.native_port
    assert port is not None
    return port


def with_line(site: Site, grant: dict[str, str], use: Callable[[Line], object]) -> None:
    site.allow(grant["configure"], grant["write"], grant["read"])
    line = Line((site.running.host, running_port(site)), USER, PASSWORD)
    try:
        use(line)
    finally:
        line.close()


def _is_refused(call: Call, line: Line, topic: str) -> None:
    with pytest.raises(AccessRefused):
        call(line, topic)
