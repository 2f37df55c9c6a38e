"""Direct reply-to addresses."""

from __future__ import annotations

from headrace.core.reply_to import PREFIX, ReplyAddress
from headrace.model.message import PublishedRun
from support.fake_loop import Stage


def test_answers_reach_the_requester_through_the_default_exchange(stage: Stage) -> None:
    arrived: list[PublishedRun] = []
    address = ReplyAddress("tag", arrived.append)
    stage.vhost.replies.add(address)

    batch = stage.publish("answer", to=address.name)

    assert arrived == [batch]


def test_an_address_that_is_gone_routes_nowhere(stage: Stage) -> None:
    arrived: list[PublishedRun] = []
    address = ReplyAddress("tag", arrived.append)
    stage.vhost.replies.add(address)
    route = stage.vhost.routes.get("", address.name)
    assert list(route.destinations) == [address]

    stage.vhost.replies.remove(address)
    stage.vhost.routes.changed()

    assert list(stage.vhost.routes.get("", address.name).destinations) == []
    assert address.put(
        PublishedRun(route, [b"late"], 4)
    )  # on its way already: dropped, not refused
    assert arrived == []
    assert stage.vhost.replies.find(address.name) is None


def test_names_cannot_be_guessed_or_confused(stage: Stage) -> None:
    names = {ReplyAddress("tag", lambda _: None).name for _ in range(100)}

    assert len(names) == 100
    assert all(name.startswith(PREFIX) and len(name) > len(PREFIX) + 20 for name in names)
    assert stage.vhost.replies.find(PREFIX + "guess") is None
