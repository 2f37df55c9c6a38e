"""The page at /: files that were built from the console's sources and are part of the package."""

from __future__ import annotations

import hashlib
import mimetypes
from functools import lru_cache
from pathlib import Path

import headrace
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.router import ANYBODY, ApiRoutes

ROUTES = ApiRoutes()

DIST = Path(headrace.__file__).parent / "console" / "dist"
_FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}  # names have a hash in them
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_ABSENT = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Headrace</title></head><body>
<h1>Headrace is running</h1>
<p>The management page is not built. Install Node.js, run <code>make console</code> in the source
tree and reload this page. Released packages include it.</p>
<p>The API is available: <a href="/api/openapi.json">/api/openapi.json</a>,
<a href="/metrics">/metrics</a>.</p>
</body></html>
"""


@lru_cache(maxsize=256)
def _loaded(path: Path, changed_ns: int) -> tuple[bytes, str]:
    """A file and its ETag; read again when it has changed."""
    content = path.read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _file(call: ApiRequest, path: Path, cache: dict[str, str]) -> replies.Reply:
    try:
        changed = path.stat().st_mtime_ns
        content, etag = _loaded(path, changed)
    except OSError:
        raise replies.not_found() from None
    headers = {"etag": etag, **cache}
    if etag in call.headers.get("if-none-match", ""):
        return replies.Reply(304, headers=headers)
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return replies.Reply(200, content, kind or "application/octet-stream", headers)


def _inside(folder: Path, name: str) -> Path:
    """A file directly in the folder; nothing else can be named."""
    if not name or name.startswith(".") or "/" in name or "\\" in name or "\0" in name:
        raise replies.not_found()
    return folder / name


@ROUTES.get("/", ANYBODY, "The management page")
async def _index(call: ApiRequest) -> replies.Reply:
    index = DIST / "index.html"
    if not index.is_file():
        return replies.Reply(200, _ABSENT, _TYPES[".html"])
    return _file(call, index, {})


@ROUTES.get("/{name}", ANYBODY, "Files of the management page")
async def _top(call: ApiRequest) -> replies.Reply:
    return _file(call, _inside(DIST, call.name), {})


@ROUTES.get("/assets/{name}", ANYBODY, "Immutable files of the management page")
async def _asset(call: ApiRequest) -> replies.Reply:
    return _file(call, _inside(DIST / "assets", call.name), _FOR_EVER)
