"""The map, what a message holds, and lists as files."""

from __future__ import annotations

import base64
import json

import msgpack
import pika
from playwright.sync_api import expect

from support.brokers import Broker
from support.console_page import Api, Console


def test_the_map_leads_from_a_publisher_to_a_consumer(
    console: Console, api: Api, managed: Broker
) -> None:
    parameters = pika.URLParameters(managed.url)
    parameters.client_properties = {"connection_name": "web-shop"}
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.exchange_declare("shop", "topic")
    channel.queue_declare("parcels", durable=True)
    channel.queue_bind("parcels", "shop", "#")
    channel.confirm_delivery()
    channel.basic_publish("shop", "x", b"1")
    channel.basic_consume("parcels", lambda *_: None)

    console.open("map")
    for kind, name in (
        ("publisher", "web-shop"),
        ("exchange", "shop"),
        ("queue", "parcels"),
        ("consumer", "web-shop"),
    ):
        expect(console.page.locator(f"a.node.{kind}").filter(has_text=name)).to_be_visible()
    console.open("queues", "/", "parcels")
    expect(console.row("Consumers", "web-shop")).to_contain_text("Pika Python Client Library")
    connection.close()


def test_messages_are_shown_by_what_they_hold(console: Console, api: Api) -> None:
    api.put("queues", "/", "kinds", durable=True)
    headers = {"task": "shop.tasks.send_invoice", "id": "7", "retries": 1}
    api.publish("kinds", json.dumps([[48017], {"notify": True}, {}]), headers=headers)
    packed = base64.b64encode(msgpack.packb({"packed": b"\xff" * 3, "n": 1})).decode()
    body = {"routing_key": "kinds", "payload": packed, "payload_encoding": "base64"}
    api.call("POST", "exchanges", "/", "amq.default", "publish", body={**body, "properties": {}})

    console.open("queues", "/", "kinds", tab="messages")
    lines = console.page.locator("button.message-line")
    expect(lines).to_have_count(2)
    lines.nth(0).click()
    console.sees("Celery task")
    console.sees('{"notify":true}')
    lines.nth(1).click()
    console.sees("MessagePack")
    expect(console.page.locator("pre.payload")).to_contain_text('"n": 1')


def test_a_list_is_downloaded_with_its_filter(console: Console, api: Api) -> None:
    for name in ("down-1", "down-2", "other"):
        api.put("queues", "/", name, durable=True)
    console.open("queues", name="down")
    expect(console.row("Queues", "down-1")).to_be_visible()
    with console.page.expect_download() as started:
        console.click("Download queues.csv")
    text = started.value.path().read_text("utf-8")
    assert started.value.suggested_filename == "queues.csv"
    assert [line.split(",")[0] for line in text.splitlines()] == ["name", "down-1", "down-2"]


def test_a_table_without_paging_is_downloaded_as_well(console: Console, api: Api) -> None:
    api.put("policies", "/", "short", pattern="^tmp", definition={"message-ttl": 60000})
    console.open("policies")
    expect(console.row("Policies", "short")).to_be_visible()
    with console.page.expect_download() as started:
        console.click("Download policies.json")
    rows = json.loads(started.value.path().read_text("utf-8"))
    assert [row["name"] for row in rows] == ["short"]
    assert rows[0]["definition"] == {"message-ttl": 60000}
