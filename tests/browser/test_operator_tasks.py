"""What an operator does on an ordinary day, by clicking."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pika
from playwright.sync_api import Browser, Route, expect

from headrace.testing import wait_for
from support import brokers
from support.brokers import Broker
from support.console_page import Api, Console, http_url


def test_a_wrong_password_is_refused_and_a_right_one_is_not(
    browser: Browser, managed: Broker
) -> None:
    context = browser.new_context()
    console = Console(context.new_page(), http_url(managed))
    console.page.goto(console.url)
    console.page.get_by_label("User").fill("guest")
    console.page.get_by_label("Password").fill("wrong")
    console.click("Log in")
    expect(console.page.get_by_role("alert")).to_contain_text("Login failed")

    console.login()
    expect(console.heading("Overview")).to_be_visible()
    console.click("Log out")
    expect(console.page.get_by_label("Password")).to_be_visible()
    context.close()


def test_a_vhost_and_a_user_with_permissions_are_created(console: Console, api: Api) -> None:
    console.open("vhosts")
    console.click("New virtual host")
    console.fill("Name", "sales")
    console.fill("Description", "all of sales")
    console.click("Create virtual host")
    expect(console.heading("sales")).to_be_visible()
    console.expect_notice("Virtual host sales created.")

    console.open("users")
    console.click("New user")
    console.fill("Name", "anna")
    console.fill("Password", "secret-word")
    console.page.get_by_role("checkbox", name="management").check()
    console.click("Create user")
    expect(console.heading("anna")).to_be_visible()
    console.page.get_by_label("Virtual host").first.select_option("sales")
    console.fill("Configure", "^anna")
    console.click("Set permissions")
    console.expect_notice("Permissions set.")

    expect(console.row("Permissions", "sales")).to_contain_text("^anna")
    assert api.get("permissions", "sales", "anna") == {
        "user": "anna", "vhost": "sales", "configure": "^anna", "write": ".*", "read": ".*",
    }  # fmt: skip

    console.click("Delete…")
    console.confirm("Delete user", typed="anna")
    console.expect_notice("User deleted.")
    console.open("vhosts", "sales")
    console.click("Delete…")
    console.confirm("Delete virtual host", typed="sales")
    expect(console.row("Virtual hosts", "sales")).to_have_count(0)


def test_a_queue_is_created_bound_filled_browsed_purged_and_deleted(
    console: Console, api: Api
) -> None:
    console.open("queues")
    console.click("New queue")
    console.fill("Name", "letters")
    console.page.get_by_label("Arguments: name 1").fill("x-max-length")
    console.page.get_by_label("Arguments: value 1").fill("500")
    console.click("Create queue")
    expect(console.heading("letters")).to_be_visible()

    console.page.get_by_role("link", name="Bindings", exact=True).click()
    console.fill("Exchange", "amq.topic")
    console.fill("Routing key", "post.#")
    console.click("Bind")
    console.expect_notice("Binding created.")
    expect(console.row("Incoming bindings", "amq.topic")).to_contain_text("post.#")

    console.open("exchanges", "/", "amq.topic")
    expect(console.page.get_by_label("Diagram of the bindings")).to_contain_text("letters")
    console.page.get_by_text("Publish a message").click()
    console.page.locator("details").get_by_label("Routing key").fill("post.today")
    console.fill("Payload", '{"greeting": "hello"}')
    console.page.get_by_label("Properties: name 1").fill("message_id")
    console.page.get_by_label("Properties: value 1").fill("17")
    console.click("Publish")
    console.expect_notice("Message published.")
    assert api.ready("letters") == 1

    console.open("queues", "/", "letters", tab="messages")
    console.page.get_by_text("post.today").click()
    console.sees("message_id")
    expect(console.page.locator("pre.payload")).to_contain_text('"greeting": "hello"')
    assert api.ready("letters") == 1, "browsing consumed it"

    console.click("Purge…")
    console.confirm("Purge", typed="letters")
    console.expect_notice("Queue purged.")
    wait_for(lambda: api.ready("letters") == 0)
    console.click("Delete…")
    console.confirm("Delete queue", typed="letters")
    expect(console.heading("Queues")).to_be_visible()


def test_a_queue_without_features_shows_none(console: Console, api: Api) -> None:
    api.put("queues", "/", "plain", durable=True)
    console.open("queues", "/", "plain")
    facts = console.page.locator("section, .card").filter(has_text="Details").last
    expect(facts).to_contain_text("Durabilitydurable")
    expect(facts).to_contain_text("Featuresnone")
    api.call("DELETE", "queues", "/", "plain")


def test_an_alarm_is_shown_on_every_page(browser: Browser, tmp_path: Path) -> None:
    broker = brokers.start(tmp_path, "--disk-free-limit", "1000TiB")
    context = browser.new_context()
    console = Console(context.new_page(), http_url(broker))
    console.login()
    alarm = console.page.get_by_role("alert").filter(has_text="Publishers are blocked: low on disk")
    for page in ("", "queues", "users"):
        console.open(page)
        expect(alarm).to_be_visible()
    alarm.get_by_role("link").click()
    expect(console.heading("Overview")).to_be_visible()

    console.open("queues")
    expect(console.heading("Queues")).to_be_visible()
    console.sees("No queues yet")
    broker.stop()
    console.sees("The broker is unreachable. The data below is out of date.")
    context.close()


def test_a_deleted_queue_is_reported_as_not_found(console: Console, api: Api) -> None:
    api.put("queues", "/", "fleeting", durable=True)
    console.open("queues", "/", "fleeting")
    console.sees("Details")
    api.call("DELETE", "queues", "/", "fleeting")
    console.sees("Not found. It may have been deleted. The data below is out of date.")
    console.problems.clear()  # browsers call a 404 an error


def test_messages_are_moved_from_one_queue_to_another(console: Console, api: Api) -> None:
    api.put("queues", "/", "here", durable=True)
    api.put("queues", "/", "there", durable=True)
    for number in range(3):
        api.publish("here", str(number))

    console.open("queues", "/", "here", tab="move")
    console.fill("Queue", "there")
    console.fill("Count", "2")
    console.click("Move…")
    console.confirm("Move")
    console.expect_notice("2 messages moved, 1 left.")

    assert (api.ready("here"), api.ready("there")) == (1, 2)


def test_the_routing_test_shows_queues_and_reasons(console: Console, api: Api) -> None:
    api.put("queues", "/", "asked", durable=True)
    api.bind("amq.topic", "asked", "who.*")

    console.open("route")
    console.fill("Exchange", "amq.topic")
    console.fill("Routing key", "who.knows")
    console.click("Test")
    way = console.page.get_by_role("list", name="Routing steps")
    expect(way).to_contain_text("asked")
    expect(way).to_contain_text("the key 'who.knows' matches the pattern 'who.*'")

    console.fill("Routing key", "nobody")
    console.click("Test")
    console.sees("Not routed")
    expect(way).to_contain_text("no binding matches")


def test_a_policy_and_a_limit_are_set_and_deleted(console: Console, api: Api) -> None:
    console.open("policies")
    console.click("New policy")
    console.fill("Name", "short")
    console.fill("Pattern", "^short")
    console.page.get_by_label("Definition: name 1").fill("message-ttl")
    console.page.get_by_label("Definition: value 1").fill("60000")
    console.click("Save policy")
    console.expect_notice("Policy saved.")
    expect(console.row("Policies", "^short")).to_be_visible()
    found = api.get("policies", "/", "short")
    assert isinstance(found, dict)
    assert found["definition"] == {"message-ttl": 60000}
    console.row("Policies", "^short").get_by_role("button", name="Delete").click()
    console.confirm("Delete policy", typed="short")
    console.sees("No policies")

    console.open("vhosts", "/")
    console.page.get_by_label("Limit", exact=True).select_option("max-queues")
    console.fill("Maximum", "1000")
    console.click("Set limit")
    console.expect_notice("Limit set.")
    console.row("Limits of virtual hosts", "max-queues").get_by_role(
        "button", name="Delete"
    ).click()
    console.confirm("Delete limit")
    console.expect_notice("Limit deleted.")


def test_a_connection_shows_its_channels_and_is_closed(console: Console, managed: Broker) -> None:
    parameters = pika.URLParameters(managed.url)
    parameters.client_properties = {"connection_name": "the till"}
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("till", exclusive=True)
    channel.basic_consume("till", lambda *_: None, consumer_tag="drawer")

    console.open("connections")
    console.page.get_by_role("link", name="the till").click()
    console.page.get_by_role("table", name="Channels").get_by_role("link", name="1").click()
    expect(console.row("Consumers", "drawer")).to_contain_text("till")
    console.open("connections")
    console.page.get_by_role("link", name="the till").click()
    console.click("Close…")
    console.confirm("Close connection")
    console.expect_notice("Connection closed.")

    def is_closed() -> bool:
        try:
            connection.process_data_events(0)
        except pika.exceptions.AMQPError:
            return True
        return bool(connection.is_closed)

    wait_for(is_closed)


def test_a_message_is_found_by_its_id_and_its_history_is_shown(console: Console, api: Api) -> None:
    api.put("queues", "/", "haystack", durable=True)
    for number in range(30):
        api.publish("haystack", "straw", message_id=f"straw-{number}")

    console.open("find")
    console.fill("Value", "straw-21")
    console.click("Find")

    life = console.page.get_by_role("list", name="Message history")
    expect(life).to_contain_text("Published to the default exchange")
    expect(life).to_contain_text("Stored in haystack")


def test_a_message_is_found_before_the_names_of_queues_are_suggested(
    console: Console, api: Api
) -> None:
    api.put("queues", "/", "pins", durable=True)
    api.publish("pins", "one pin", message_id="pin-1")
    held: list[Route] = []
    names = re.compile(r"/api/queues/%2F\?.*columns=name")
    console.page.route(names, lambda route: held.append(route))

    console.open("find")
    console.fill("Value", "pin-1")
    console.click("Find")
    expect(console.page.get_by_text(re.compile("^Search(ing|ed) "))).to_be_visible()
    while held:
        held.pop().continue_()

    life = console.page.get_by_role("list", name="Message history")
    expect(life).to_contain_text("Stored in pins")


def test_everything_can_be_reached_with_the_keyboard(console: Console, api: Api) -> None:
    api.put("queues", "/", "keyboard-queue", durable=True)
    keyboard = console.page.keyboard
    expect(console.heading("Overview")).to_be_visible()

    keyboard.press("/")
    keyboard.type("keyboard-q")
    expect(console.first_hit()).to_contain_text("keyboard-queue")
    keyboard.press("Enter")
    expect(console.heading("keyboard-queue")).to_be_visible()

    keyboard.press("g")
    keyboard.press("e")
    expect(console.heading("Exchanges")).to_be_visible()
    keyboard.press("?")
    expect(console.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    keyboard.press("Escape")
    expect(console.page.get_by_role("dialog")).to_have_count(0)


def test_a_dialog_is_open_before_the_next_key_arrives(console: Console) -> None:
    """What is typed right behind "/" is searched for, however busy the machine is."""
    expect(console.heading("Overview")).to_be_visible()

    is_open = console.page.evaluate(
        """async () => {
            document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true}));
            for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
            return document.querySelector("dialog[open] input:focus") !== null;
        }"""
    )

    assert is_open


def test_the_colours_are_those_of_the_system_until_chosen(console: Console) -> None:
    def ground() -> str:
        found: str = console.page.evaluate(
            "getComputedStyle(document.documentElement).backgroundColor"
        )
        return found

    console.page.emulate_media(color_scheme="light")
    light = ground()
    console.page.emulate_media(color_scheme="dark")
    assert ground() != light

    console.page.get_by_role("button", name="Theme: auto").click()
    assert ground() == light
    console.page.reload()
    expect(console.heading("Overview")).to_be_visible()
    assert ground() == light


def test_nothing_is_asked_while_the_tab_is_hidden(console: Console) -> None:
    console.open("queues")
    expect(console.heading("Queues")).to_be_visible()
    console.page.wait_for_load_state("networkidle")
    console.page.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", {value: true, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(request.url))
    # The page's own clock, so that a minute takes no time.
    console.page.clock.install()
    console.page.clock.run_for(60_000)
    assert asked == []

    with console.page.expect_request(lambda request: "/api/queues" in request.url):
        console.page.evaluate(
            """() => {
                Object.defineProperty(document, "hidden", {value: false, configurable: true});
                document.dispatchEvent(new Event("visibilitychange"));
            }"""
        )


def test_a_user_without_special_tags_is_offered_only_what_it_may_do(
    browser: Browser, managed: Broker, api: Api
) -> None:
    api.put("users", "ben", password="ben", tags="management")
    api.put("permissions", "/", "ben", configure="^ben", write="^ben", read="^ben")
    context = browser.new_context()
    console = Console(context.new_page(), http_url(managed))
    console.watch()
    console.login("ben", "ben")
    expect(console.page.get_by_role("link", name="Queues", exact=True).first).to_be_visible()
    for name in ("Users", "Limits", "Definitions"):
        expect(console.page.get_by_role("link", name=name, exact=True)).to_have_count(0)

    console.open("queues")
    console.click("New queue")
    console.fill("Name", "of-another-user")
    console.click("Create queue")
    console.expect_notice("refused")
    console.page.keyboard.press("Escape")
    context.close()
    assert [one for one in console.problems if "error:" in one] == []


def test_definitions_are_exported_and_imported(console: Console, api: Api, tmp_path: Path) -> None:
    api.put("queues", "/", "to-be-saved", durable=True)
    console.open("definitions")
    with console.page.expect_download() as download:
        console.page.get_by_role("link", name="Export definitions").click()
    saved = json.loads(Path(download.value.path()).read_text())
    assert "to-be-saved" in [one["name"] for one in saved["queues"]]

    loaded = tmp_path / "loaded.json"
    queue = {"name": "loaded", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    loaded.write_text(json.dumps({"queues": [queue]}))
    console.page.get_by_label("Definitions file of Headrace or RabbitMQ").set_input_files(loaded)
    expect(console.page.get_by_role("dialog")).to_contain_text("loaded.json: 1 queue.")
    console.confirm("Import")
    console.expect_notice("Definitions imported.")
    assert api.ready("loaded") == 0


def test_lists_show_one_vhost_when_it_is_chosen(console: Console, api: Api) -> None:
    api.put("vhosts", "chosen")
    api.put("queues", "chosen", "in-chosen", durable=True)
    api.put("queues", "/", "in-default", durable=True)
    console.page.reload()
    console.open("queues")
    expect(console.row("Queues", "in-default")).to_be_visible()

    console.page.get_by_label("Virtual host", exact=True).select_option("chosen")
    expect(console.row("Queues", "in-default")).to_have_count(0)
    expect(console.row("Queues", "in-chosen")).to_be_visible()
    console.page.get_by_label("Virtual host", exact=True).select_option("all vhosts")
    expect(console.row("Queues", "in-default")).to_be_visible()
    api.call("DELETE", "vhosts", "chosen")


def test_long_lists_are_filtered_sorted_and_cut_into_pages(console: Console, api: Api) -> None:
    for number in range(60):
        api.put("queues", "/", f"many.{number:02d}", durable=True)
    api.publish("many.37", "x")
    console.open("queues", name="many.")
    expect(console.row("Queues", "many.00")).to_be_visible()
    expect(console.row("Queues", "many.59")).to_have_count(0)
    console.click("Next →")
    expect(console.row("Queues", "many.59")).to_be_visible()

    console.click("Ready")
    first = console.page.get_by_role("table", name="Queues").get_by_role("row").nth(1)
    expect(first).to_contain_text("many.37")
    console.page.get_by_label("Filter queues by name").fill("many.1")
    expect(console.page.get_by_text("10 of ")).to_be_visible()
    for number in range(60):
        api.call("DELETE", "queues", "/", f"many.{number:02d}")


def test_the_page_comes_however_soon_the_broker_answers(browser: Browser, managed: Broker) -> None:
    context = browser.new_context()
    page = context.new_page()
    for _ in range(15):  # an answer between drawing and listening used to be missed
        page.goto(http_url(managed))
        expect(page.get_by_label("Password")).to_be_visible()
    context.close()
