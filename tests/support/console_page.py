"""The management page in a browser, for tests that click."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

import headrace
from support.brokers import Broker

SOURCES = Path(headrace.__file__).parents[2] / "console"
DIST = Path(headrace.__file__).parent / "console" / "dist"
BROWSER = "/usr/bin/chromium"
PATIENCE_MS = 15_000

expect.set_options(timeout=PATIENCE_MS)


def need(there: bool, sentence: str) -> None:
    """Skip on a laptop that lacks it, fail where everything must be tested."""
    if not there:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(sentence)


def need_node() -> None:
    need(shutil.which("npm") is not None, "Node.js is not installed: apt-get install nodejs npm")


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium without a window. Its event loop runs in this thread until it is closed."""
    need(Path(BROWSER).exists(), f"{BROWSER} is not installed: apt-get install chromium")
    need((DIST / "index.html").exists(), "the page is not built: make console")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@dataclass
class Console:
    """One tab, and what went wrong in it."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        self.page.on("console", lambda said: self._said(said.type, said.text))

    def _said(self, kind: str, text: str) -> None:
        # Before the login GET /api/session is refused; browsers log that as an error.
        if kind == "error" and "401" not in text:
            self.problems.append(f"console: {text}")

    def login(self, user: str = "guest", password: str = "guest") -> None:
        self.page.goto(self.url)
        self.page.get_by_label("User").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        expect(self.page.locator("nav.menu")).to_be_attached()

    def open(self, *parts: str, **query: str) -> None:
        """Go to a page by its address: open("queues", "/", "orders", tab="messages")."""
        address = "/".join(quote(part, safe="") for part in parts)
        search = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        self.page.goto(f"{self.url}#/{address}" + (f"?{search}" if search else ""))

    def heading(self, text: str) -> Locator:
        return self.page.get_by_role("heading", level=1).get_by_text(text, exact=True)

    def click(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def fill(self, label: str, text: str) -> None:
        self.page.get_by_label(label, exact=True).fill(text)

    def confirm(self, button: str, typed: str | None = None) -> None:
        """Confirm a destructive action."""
        dialog = self.page.get_by_role("dialog")
        action = dialog.get_by_role("button", name=button, exact=True)
        if typed is not None:
            expect(action).to_be_disabled()
            dialog.get_by_label("Type").fill(typed)
        action.click()
        expect(dialog).to_have_count(0)

    def expect_notice(self, text: str) -> None:
        """A notification appears; it is closed so that the next one is not mistaken for it."""
        notice = self.page.locator(".notice").filter(has_text=text)
        expect(notice).to_be_visible()
        notice.get_by_label("Close").click()

    def sees(self, text: str) -> None:
        expect(self.page.get_by_text(text, exact=True).first).to_be_visible()

    def first_hit(self) -> Locator:
        """The first search result."""
        return self.page.get_by_role("listbox", name="Results").get_by_role("option").first

    def row(self, table: str, text: str) -> Locator:
        return self.page.get_by_role("table", name=table).get_by_role("row").filter(has_text=text)


class Api:
    """The management API, to arrange what the page shall show."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, auth=("guest", "guest"), timeout=30)

    def close(self) -> None:
        self._client.close()

    def call(self, method: str, *parts: str, body: object = None) -> httpx.Response:
        path = "/api/" + "/".join(quote(part, safe="") for part in parts)
        answer = self._client.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer

    def get(self, *parts: str) -> object:
        return self.call("GET", *parts).json()

    def put(self, *parts: str, **body: object) -> None:
        self.call("PUT", *parts, body=body)

    def bind(self, source: str, queue: str, key: str = "", vhost: str = "/") -> None:
        self.call("POST", "bindings", vhost, "e", source, "q", queue, body={"routing_key": key})

    def publish(
        self, key: str, payload: str, exchange: str = "amq.default", **more: object
    ) -> None:
        body = {"routing_key": key, "payload": payload, "payload_encoding": "string"}
        body["properties"] = {"delivery_mode": 2, **more}  # type: ignore[assignment]
        self.call("POST", "exchanges", "/", exchange, "publish", body=body)

    def ready(self, queue: str, vhost: str = "/") -> int:
        found = self.get("queues", vhost, queue)
        assert isinstance(found, dict)
        return int(found["messages_ready"])


def http_url(broker: Broker) -> str:
    return f"http://{broker.host}:{broker.ports['http']}/"
