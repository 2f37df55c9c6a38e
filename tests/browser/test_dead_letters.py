"""Dead letters on the page: grouped by cause, edited, sent back one first and then the rest."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from headrace.testing import wait_for
from support.console_page import Api, Console


def die(api: Api, source: str, payload: str) -> None:
    """A consumer rejects it."""
    api.publish(source, payload)
    body = {"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"}
    api.call("POST", "queues", "/", source, "get", body=body)


@pytest.fixture
def grave(api: Api) -> str:
    """A queue that holds three letters from bills and two from orders."""
    api.put("queues", "/", "grave", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
    for source in ("bills", "orders"):
        api.put("queues", "/", source, durable=True, arguments=arguments)
    for number in range(5):
        die(api, ("bills", "orders")[number % 2], json.dumps({"number": number}))
    wait_for(lambda: api.ready("grave") == 5)
    return "grave"


def test_one_is_edited_and_sent_back_first_and_then_the_rest_of_its_cause(
    console: Console, api: Api, grave: str
) -> None:
    console.open("deadletters")
    row = console.row("Dead letters by cause", "bills")
    expect(row).to_contain_text("rejected")
    expect(row).to_contain_text("3")
    row.get_by_role("link", name="Redrive…").click()
    expect(console.heading(grave)).to_be_visible()

    console.click("Edit message")
    console.fill("Payload", '{"number": "mended"}')
    console.click("Send first message")
    console.sees("First message sent")
    outcome = console.page.get_by_text("The message is now in bills, which has 1 ready message")
    expect(outcome).to_contain_text("4 messages are left in grave.")
    console.sees("The destination queue has no consumers, so the outcome is not known yet.")
    expect(console.page.get_by_text("No messages have returned so far.")).to_have_count(0)
    assert (api.ready("bills"), api.ready(grave)) == (1, 4)

    console.click("Send remaining 2…")
    console.confirm("Send 2")
    console.expect_notice("2 messages moved, 2 left.")
    assert (api.ready("bills"), api.ready("orders"), api.ready(grave)) == (3, 0, 2)
    browsed = api.get("queues", "/", "bills", "browse")
    assert isinstance(browsed, dict)
    assert [one["payload"] for one in browsed["items"]] == [
        '{"number": "mended"}', '{"number": 2}', '{"number": 4}',
    ]  # fmt: skip
    assert all("headers" not in one["properties"] for one in browsed["items"])


def test_the_first_message_of_a_queue_is_rejected_and_redriven(console: Console, api: Api) -> None:
    api.put("queues", "/", "failed", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"}
    api.put("queues", "/", "invoices", durable=True, arguments=arguments)
    api.publish("invoices", "17")
    console.open("queues", "/", "invoices", tab="messages")
    console.click("Reject first message…")
    console.confirm("Reject")
    console.expect_notice("1 message rejected.")
    wait_for(lambda: (api.ready("invoices"), api.ready("failed")) == (0, 1))

    console.open("deadletters")
    console.row("Dead letters by cause", "invoices").get_by_role("link", name="Redrive…").click()
    console.click("Send first message")
    console.sees("First message sent")
    assert (api.ready("invoices"), api.ready("failed")) == (1, 0)
    console.sees("No messages left with this cause.")
    expect(console.page.get_by_role("button", name="Send remaining")).to_have_count(0)
    expect(console.page.get_by_role("button", name="Show next message")).to_have_count(0)


def test_without_dead_letters_the_page_explains_dead_lettering(console: Console, api: Api) -> None:
    api.put("queues", "/", "grave", durable=True)
    api.call("DELETE", "queues", "/", "grave", "contents")

    console.open("deadletters")
    console.sees("No dead letters")
    console.sees("x-dead-letter-exchange")
