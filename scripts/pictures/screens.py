"""Screenshots of the management page under load, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
WIDTHS = {1440: 900, 390: 844}
# name of the picture, address, widths that are committed
SCREENS: dict[str, tuple[str, tuple[int, ...]]] = {
    "overview": ("", (1440, 390)),
    "map": ("map", (1440,)),
    "queues": ("queues", (1440, 390)),
    "queue": (f"queues/{quote('/', safe='')}/orders", (1440,)),
    "message": (f"queues/{quote('/', safe='')}/celery?tab=messages", (1440,)),
    "dead-letters": ("deadletters", ()),
    "redrive": (f"deadletters/{quote('/', safe='')}/dead-letters", (1440,)),
    "connections": ("connections", ()),
    "exchanges": ("exchanges", ()),
    "exchange": (f"exchanges/{quote('/', safe='')}/shop", ()),
    "groups": ("groups", (1440,)),
    "topics": ("topics", ()),
    "pipelines": ("pipelines", (1440,)),
    "route": ("route", ()),
    "find": ("find", ()),
    "reports": ("reports", ()),
    "policies": ("policies", ()),
    "users": ("users", ()),
    "limits": ("limits", ()),
    "definitions": ("definitions", ()),
}


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def take(url: str, everything: Path, committed: Path, names: list[str]) -> None:
    """Every screen into `everything`, those of README and site into `committed` as well."""
    with chromium() as browser:
        for scheme in ("light", "dark"):
            for width, height in WIDTHS.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                page = context.new_page()
                _login(page, url)
                for name in names or SCREENS:
                    address, kept = SCREENS[name]
                    shot = _shoot(page, f"{url}#/{address}", name)
                    file = f"{name}{'' if width == 1440 else '-narrow'}-{scheme}.png"
                    (everything / file).write_bytes(shot)
                    if width in kept:
                        (committed / file).write_bytes(shot)
                context.close()


def _login(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_label("User").fill("guest")
    page.get_by_label("Password").fill("guest")
    page.get_by_role("button", name="Log in").click()
    page.locator("nav.menu").wait_for(state="attached")


def _shoot(page: Page, url: str, name: str) -> bytes:
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.mouse.move(1, 1)  # nothing is highlighted
    # Charts are drawn, rates are there; those of groups on the map need three polls.
    page.wait_for_timeout(12_000 if name == "map" else 1500)
    if name == "message":
        page.locator("button.message-line").first.click()
        page.wait_for_timeout(300)
    return page.screenshot()
