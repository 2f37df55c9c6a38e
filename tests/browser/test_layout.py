"""How the page looks: light and dark, wide and narrow.

With HEADRACE_SHOTS set to a directory, a picture of each page is saved there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from playwright.sync_api import Browser, expect

from headrace import topics
from support.brokers import Broker
from support.console_page import Api, Console, http_url

PAGES: dict[str, tuple[list[str], dict[str, str]]] = {
    "overview": ([], {}),
    "connections": (["connections"], {}),
    "channels": (["channels"], {}),
    "exchanges": (["exchanges"], {}),
    "exchange": (["exchanges", "/", "shop"], {}),
    "new-exchange": (["exchanges"], {"new": "1"}),
    "queues": (["queues"], {}),
    "queue": (["queues", "/", "shop.orders.germany"], {}),
    "messages": (["queues", "/", "shop.dead"], {"tab": "messages"}),
    "bindings": (["queues", "/", "shop.orders.germany"], {"tab": "bindings"}),
    "publish": (["queues", "/", "shop.orders.germany"], {"tab": "publish"}),
    "move": (["queues", "/", "shop.dead"], {"tab": "move"}),
    "deadletters": (["deadletters"], {}),
    "redrive": (["deadletters", "/", "shop.dead"], {}),
    "topics": (["topics"], {}),
    "topic": (["topics", "/", "clicks"], {}),
    "groups": (["groups"], {}),
    "group": (["groups", "/", "clicks", "dashboard"], {}),
    "pipelines": (["pipelines"], {}),
    "route": (["route"], {}),
    "find": (["find"], {}),
    "reports": (["reports"], {}),
    "report": (["reports", "/", "daily"], {}),
    "vhosts": (["vhosts"], {}),
    "vhost": (["vhosts", "/"], {}),
    "users": (["users"], {}),
    "user": (["users", "guest"], {}),
    "policies": (["policies"], {}),
    "limits": (["limits"], {}),
    "definitions": (["definitions"], {}),
}
WITH_CHARTS = {"overview", "queue", "group", "report"}

# Things to click that lie on each other, other than a thing inside another.
OVERLAPS = """() => {
  const dialog = document.querySelector("dialog[open]");
  const all = [...(dialog ?? document).querySelectorAll("a, button, input, select, textarea")];
  const boxes = all.map((one) => [one, one.getBoundingClientRect()]).filter(([one, box]) =>
    box.width > 0 && box.height > 0 && !one.closest(".skip, svg, .table-box, .tabs")
    && !one.matches(".skip"));
  const found = [];
  boxes.forEach(([a, p], at) => boxes.slice(at + 1).forEach(([b, q]) => {
    const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    const fixed = a.closest(".topbar, .menu") !== null || b.closest(".topbar, .menu") !== null;
    const bar = a.closest(".topbar") && b.closest(".topbar");
    if (across > 1 && down > 1 && !a.contains(b) && !b.contains(a) && (!fixed || bar)) {
      found.push(`${a.outerHTML.slice(0, 80)} / ${b.outerHTML.slice(0, 80)}`);
    }
  }));
  return found;
}"""

# Texts with less contrast than WCAG's AA asks for: 4.5, or 3 for large ones.
PALE = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const part = (value) => {
      const share = value / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const one of document.querySelectorAll("body *")) {
    const text = [...one.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
    if (text.length === 0 || one.closest("svg, :disabled, noscript, datalist, option")) continue;
    const box = one.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) continue;
    const style = getComputedStyle(one);
    const [front, back] = [light(parse(style.color)), light(ground(one))];
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const least = parseFloat(style.fontSize) >= 18.6 ? 3 : 4.5;
    const sample = text[0].data.slice(0, 30);
    if (ratio < least) found.add(`${ratio.toFixed(2)} ${one.className} ${sample}`);
  }
  return [...found];
}"""


def report() -> dict[str, object]:
    """As `headrace report --keep-as daily` sends it."""
    hours = [f"2026-03-{day:02}T{hour:02}:00:00+00:00" for day in (1, 2) for hour in range(24)]
    queues = ("shop.orders.germany", "shop.orders.france")
    lines = {
        queue: [[at, 40 + (index * 7 + number * 29) % 60] for index, at in enumerate(hours)]
        for number, queue in enumerate(queues)
    }
    rows = [["shop.orders.germany", 41_234, 1.25, 4.5, 9.75], ["shop.orders.france", 7, 0.5, 1, 2]]
    return {
        "from": hours[0],
        "to": hours[-1],
        "window": "1 hour",
        "notes": ["From the archive; waits are known since events are on."],
        "tables": [
            {"title": "Latency", "note": "seconds from storing to acknowledgement",
             "columns": ["queue", "messages", "p50", "p95", "p99"], "rows": rows},
            {"title": "Dead letters", "columns": ["queue", "reason"], "rows": []},
        ],
        "charts": [
            {"title": "Messages in", "unit": "per hour", "lines": lines},
            {"title": "Queue wait (p95)", "unit": "s", "lines": {queues[0]: lines[queues[0]]}},
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def shop(managed: Broker, api: Api) -> Iterator[None]:
    """Enough of everything to look at."""
    api.put("exchanges", "/", "shop", type="topic", durable=True)
    api.put("exchanges", "/", "shop.audit", type="fanout", durable=True)
    grave = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "shop.dead"}
    for country in ("germany", "france", "a-country-with-quite-a-long-name-for-a-queue"):
        queue = f"shop.orders.{country}"
        api.put("queues", "/", queue, durable=True, arguments={**grave, "x-max-length": 5000})
        api.bind("shop", queue, f"order.{country}.#")
        api.bind("shop", queue, f"return.{country}.#")
    api.put("queues", "/", "shop.dead", durable=True)
    api.put("queues", "/", "shop.audit", durable=True)
    api.bind("shop.audit", "shop.audit")
    path = ("bindings", "/", "e", "shop", "e", "shop.audit")
    api.call("POST", *path, body={"routing_key": "#"})
    definition = {"message-ttl": 3_600_000, "max-length": 100_000}
    policy = {"pattern": "^shop", "definition": definition, "apply-to": "queues"}
    api.call("PUT", "policies", "/", "short-lived", body=policy)
    api.put("vhosts", "staging", description="before it is real")
    api.put("reports", "/", "daily", **report())
    api.put("vhost-limits", "staging", "max-queues", value=100)
    parameters = pika.URLParameters(managed.url)
    parameters.client_properties = {"connection_name": "web shop, first of two"}
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(40):
        properties = pika.BasicProperties(
            message_id=f"order-{number}", content_type="application/json", delivery_mode=2
        )
        body = json.dumps({"order": number, "items": [{"sku": "A-17", "count": 2}]})
        channel.basic_publish("shop", "order.germany.new", body.encode(), properties)
    for _ in range(10):
        method, _, _ = channel.basic_get("shop.orders.germany")
        channel.basic_reject(method.delivery_tag, requeue=False)
    channel.basic_consume("shop.orders.germany", lambda *_: None, consumer_tag="packing")
    with topics.open(f"headrace://guest:guest@{managed.host}:{managed.native_port}/") as store:
        store.create("clicks")
        producer = store.producer("clicks", token="appid-1;sid-1")
        for number in range(30):
            producer.append(b"click", priority=("low", "middle", "high")[number % 3])
        store.consumer("clicks", token="appid-1;sid-2", group="dashboard").read(5)
        yield
    connection.close()


def save_picture(console: Console, name: str, *, full_page: bool = False) -> None:
    if directory := os.environ.get("HEADRACE_SHOTS"):
        console.page.screenshot(path=Path(directory) / f"{name}.png", full_page=full_page)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_too_wide_overlaps_is_pale_or_has_an_empty_chart(
    browser: Browser, managed: Broker, scheme: str, width: int
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="light" if scheme == "light" else "dark",
        reduced_motion="reduce",
    )
    console = Console(context.new_page(), http_url(managed))
    console.watch()
    console.page.goto(console.url)
    expect(console.page.get_by_label("Password")).to_be_visible()
    save_picture(console, f"login-{width}-{scheme}")
    console.login()
    faults: list[str] = []
    for name, (parts, query) in PAGES.items():
        console.open(*parts, **query)
        expect(console.page.locator("main h1")).to_be_visible()
        expect(console.page.locator(".loading")).to_have_count(0)
        if name in WITH_CHARTS:
            expect(console.page.locator(".plot.nothing")).to_have_count(0)
            expect(console.page.locator("canvas").first).to_be_visible()
        wider = console.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        faults += [f"{name}: {wider} pixels too wide"] if wider else []
        faults += [f"{name}: on each other: {one}" for one in console.page.evaluate(OVERLAPS)]
        faults += [f"{name}: pale: {one}" for one in console.page.evaluate(PALE)]
        save_picture(console, f"{name}-{width}-{scheme}", full_page=True)
    context.close()
    assert faults == []
    assert console.problems == []


def test_the_menu_opens_on_a_phone(browser: Browser, managed: Broker) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    console = Console(context.new_page(), http_url(managed))
    console.login()
    menu = console.page.get_by_role("navigation", name="Pages")
    expect(menu).to_be_hidden()
    console.click("Menu")
    menu.get_by_role("link", name="Queues").click()
    expect(console.heading("Queues")).to_be_visible()
    expect(menu).to_be_hidden()
    context.close()


def test_on_a_phone_long_names_fit_and_every_tab_is_seen(
    browser: Browser, managed: Broker, api: Api
) -> None:
    queue = "one-word." + "that.goes.on.without.a.place.to.break.it." * 2
    api.put("queues", "/", queue, durable=True)
    with pika.BlockingConnection(pika.URLParameters(managed.url)) as connection:
        channel = connection.channel()
        for _ in range(2_100):  # more than the page looks at, so that it says so
            channel.basic_publish("", queue, b"x")
    context = browser.new_context(viewport={"width": 390, "height": 800})
    console = Console(context.new_page(), http_url(managed))
    console.login()
    console.open("deadletters")
    expect(console.page.locator(".note-box").filter(has_text="were scanned")).to_be_visible()
    assert console.page.evaluate("document.documentElement.scrollWidth") <= 390
    console.open("queues", "/", queue)
    last = console.page.locator(".tabs a").last
    expect(last).to_be_visible()
    box = last.bounding_box()
    assert box is not None and box["x"] + box["width"] <= 390
    context.close()
    api.call("DELETE", "queues", "/", queue)
