"""Fixtures of the browser tests.

The browser lives as long as one module: its event loop runs in the thread of the tests, where
tests of other modules want to run loops of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from support import brokers, console_page
from support.brokers import Broker
from support.console_page import Api, Console


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with console_page.browser() as started:
        yield started


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = brokers.start(tmp_path_factory.mktemp("managed"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def api(managed: Broker) -> Iterator[Api]:
    client = Api(console_page.http_url(managed))
    yield client
    client.close()


@pytest.fixture
def console(browser: Browser, managed: Broker) -> Iterator[Console]:
    """A tab in which guest is logged in; the test fails when something fails in the page."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    opened = Console(context.new_page(), console_page.http_url(managed))
    opened.watch()
    opened.login()
    yield opened
    context.close()
    assert opened.problems == []
