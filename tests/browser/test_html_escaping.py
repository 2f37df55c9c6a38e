"""Names are text: HTML in any of them shows as it was written and never becomes part of a page."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from playwright.sync_api import expect

from headrace import topics
from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from support.brokers import Broker
from support.console_page import Api, Console


def evil(kind: str) -> str:
    # Without spaces, which groups must not have; browsers take a slash for one.
    return f'<img/src=x/onerror="window.evil=1"><b/class="evil">{kind}&amp;</b>'


VHOST = evil("vhost")


@pytest.fixture(scope="module")
def world(managed: Broker, api: Api) -> Iterator[None]:
    """Everything that has a name has a bad one."""
    api.put("vhosts", VHOST, description=evil("description"))
    api.put("users", evil("user"), password="x", tags="management")
    api.put("permissions", VHOST, evil("user"), configure=evil("c"), write="", read="")
    grave = {"x-dead-letter-exchange": evil("exchange"), evil("argument"): evil("value")}
    api.put("exchanges", VHOST, evil("exchange"), type="topic", durable=True)
    api.put("queues", VHOST, evil("queue"), durable=True, arguments=grave)
    api.put("queues", VHOST, evil("grave"), durable=True)
    api.bind(evil("exchange"), evil("grave"), "#", VHOST)
    api.bind(evil("exchange"), evil("queue"), evil("key"), VHOST)
    definition = {"message-ttl": 60_000_000}
    policy = {"pattern": evil("queue"), "definition": definition, "apply-to": "queues"}
    api.call("PUT", "policies", VHOST, evil("policy"), body=policy)
    api.put("vhost-limits", VHOST, "max-queues", value=100)
    parameters = pika.ConnectionParameters(
        managed.host,
        managed.amqp_port,
        VHOST,
        client_properties={"connection_name": evil("connection"), "product": evil("product")},
    )
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    properties = pika.BasicProperties(
        message_id=evil("id"), headers={evil("header"): evil("value")}, delivery_mode=2
    )
    for _ in range(2):
        channel.basic_publish(evil("exchange"), evil("key"), evil("body").encode(), properties)
    method, _, _ = channel.basic_get(evil("queue"))
    assert method is not None
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.basic_consume(evil("queue"), lambda *_: None, consumer_tag=evil("tag"))
    with topics.open(f"headrace://guest:guest@{managed.host}:{managed.native_port}/") as store:
        store.create("plain")
        store.producer("plain", token="a-1").append(b"x")
        store.consumer("plain", token="b-1", group=evil("group")).read(1)
        with BulkConnection(Settings(host=managed.host, port=managed.native_port)) as bulk:
            state = {"state": evil("state"), "error": evil("error"), "file": evil("file")}
            bulk.report_pipeline(evil("pipeline"), state)
        yield
    connection.close()


PAGES: list[tuple[list[str], dict[str, str], str]] = [
    (["vhosts"], {}, VHOST),
    (["vhosts", VHOST], {}, VHOST),
    (["users"], {}, evil("user")),
    (["users", evil("user")], {}, evil("user")),
    (["policies"], {}, evil("policy")),
    (["limits"], {}, VHOST),
    (["connections"], {}, evil("connection")),
    (["channels"], {}, "guest"),
    (["exchanges"], {}, evil("exchange")),
    (["exchanges", VHOST, evil("exchange")], {}, evil("key")),
    (["queues"], {}, evil("queue")),
    (["queues", VHOST, evil("queue")], {}, evil("tag")),
    (["queues", VHOST, evil("grave")], {"tab": "messages"}, evil("body")),
    (["queues", VHOST, evil("queue")], {"tab": "bindings"}, evil("key")),
    (["deadletters"], {}, evil("queue")),
    (["deadletters", VHOST, evil("grave")], {}, evil("header")),
    (["topics"], {}, "plain"),
    (["groups"], {}, evil("group")),
    (["pipelines"], {}, evil("error")),
    (["reports"], {}, evil("grave")),
]


@pytest.mark.usefixtures("world")
def test_html_in_every_name_is_shown_as_text(console: Console) -> None:
    for parts, query, text in PAGES:
        console.open(*parts, **query)
        shown = console.page.locator("main").get_by_text(text).locator("visible=true")
        expect(shown.first).to_be_visible()
        found = console.page.evaluate("document.querySelectorAll('.evil, img').length")
        assert found == 0, parts
    assert console.page.evaluate("window.evil") is None


@pytest.mark.usefixtures("world")
def test_html_in_names_is_text_in_the_search_and_in_questions(console: Console) -> None:
    console.page.keyboard.press("/")
    console.page.keyboard.type('"evil">queue')
    expect(console.first_hit()).to_contain_text(evil("queue"))
    console.page.keyboard.press("Enter")
    expect(console.heading(evil("queue"))).to_be_visible()
    console.click("Purge…")
    console.confirm("Purge", typed=evil("queue"))
    console.expect_notice("Queue purged.")
    assert console.page.evaluate("document.querySelectorAll('.evil, img').length") == 0
    assert console.page.evaluate("window.evil") is None


def test_names_that_are_hard_to_write_are_reached(console: Console, api: Api) -> None:
    for name in ("a/b c", "ü?#%25", "~", "100%"):
        api.put("queues", "/", name, durable=True)
        console.open("queues")
        console.page.get_by_role("link", name=name, exact=True).click()
        expect(console.heading(name)).to_be_visible()
        console.page.get_by_role("link", name="Messages", exact=True).click()
        console.sees("No ready messages")
        api.call("DELETE", "queues", "/", name)
