"""Opens every page of build/site in Chromium: no error in the console, nothing from other hosts.

PYTHONPATH=scripts .venv/bin/python -m pictures.site [SHOTS]     pictures of ten pages into SHOTS
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import ConsoleMessage, Error, Request

from pictures.screens import chromium

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
SHOTS = ("index", "getting-started", "architecture", "management-page", "clients", "topics",
         "storage-format", "spark-pipelines", "api/client", "errors")  # fmt: skip


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing: only problems are printed."""


def main(shots: Path | None) -> int:
    problems: list[str] = []
    here = ""

    def on_error(error: Error) -> None:
        problems.append(f"{here}: {error}")

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(f"{here}: {message.text}")

    def on_request(request: Request) -> None:
        if not request.url.startswith((root, "data:", "blob:")):
            problems.append(f"{here} loads {request.url}")

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}/"
    pages = sorted(SITE.rglob("*.html"))
    with chromium() as browser:
        for scheme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": 1280, "height": 900}, color_scheme=scheme
            )
            page = context.new_page()
            page.on("console", on_console)
            page.on("pageerror", on_error)
            page.on("request", on_request)
            for file in pages if scheme == "light" else []:
                here = file.relative_to(SITE).as_posix()
                page.goto(root + here)
            for name in SHOTS if shots else ():
                here = name
                page.goto(f"{root}{name}.html")
                page.screenshot(path=f"{shots}/{name.replace('/', '-')}-{scheme}.png")
            context.close()
    print(*problems, sep="\n")
    print(f"site: {len(pages)} pages opened, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
