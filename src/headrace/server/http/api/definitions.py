"""/api/definitions: everything declared, out and in, in RabbitMQ's JSON."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import islice
from operator import attrgetter
from typing import Any

from headrace.core.definitions import (
    export_definitions,
    export_vhost,
    hash_passwords,
    import_definitions,
)
from headrace.errors import BrokerError, HttpRefused
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.context import RABBITMQ_VERSION
from headrace.server.http.durability import until_durable
from headrace.server.http.json_body import read_object
from headrace.server.http.listing import SLICE
from headrace.server.http.router import ADMINISTRATOR, ApiRoutes

ROUTES = ApiRoutes()
_largest = attrgetter("http_max_body")  # bytes of a body

AT_ONCE = 200  # declarations; answers to all clients wait until what is declared is on disk
MAX_ENTRIES = 500_000


async def _attachment(call: ApiRequest, value: dict[str, Any]) -> replies.Reply:
    """Members of the object are texts and iterables of entries; one entry to a line."""
    body = [b"{"]
    for name, entries in value.items():
        body.append(b'%s\n"%s": ' % (b"," if len(body) > 1 else b"", name.encode("ascii")))
        if isinstance(entries, str):
            body.append(json.dumps(entries).encode("ascii"))
            continue
        body.append(b"[")
        stream = iter(entries)
        while part := list(islice(stream, SLICE)):
            lines = ",\n  ".join([json.dumps(one, default=str) for one in part])
            body.append((b",\n  " if body[-1] != b"[" else b"\n  ") + lines.encode("ascii"))
            await asyncio.sleep(0)
        body.append(b"]")
    body.append(b"\n}\n")
    name = "".join(
        char for char in call.query.get("download", "") if char.isalnum() or char in "-_."
    )
    headers = {"content-disposition": f'attachment; filename="{name}"'} if name else {}
    return replies.Reply(200, body, replies.JSON, headers)


@ROUTES.get(
    "/api/definitions", ADMINISTRATOR, "Export all definitions", query={"download": "string"}
)
@ROUTES.get("/api/all-configuration", ADMINISTRATOR, "Former path of /api/definitions")
async def _export(call: ApiRequest) -> replies.Reply:
    return await _attachment(call, export_definitions(call.broker, RABBITMQ_VERSION))


@ROUTES.get("/api/definitions/{vhost}", ADMINISTRATOR, "Export the definitions of a vhost",
    query={"download": "string"})  # fmt: skip
async def _export_vhost(call: ApiRequest) -> replies.Reply:
    return await _attachment(call, export_vhost(call.broker, call.vhost, RABBITMQ_VERSION))


def _uploaded(call: ApiRequest) -> bytes:
    """The body, or the field `file` of a form."""
    kind = call.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        return call.body
    boundary = (
        kind.partition("boundary=")[2].partition(";")[0].strip('"').encode("latin-1", "replace")
    )
    for part in (b"\r\n" + call.body).split(b"\r\n--" + boundary) if boundary else ():
        head, _, content = part.partition(b"\r\n\r\n")
        if re.search(rb'[; ]name="?file"?(;|\s|$)', head):
            return content
    raise replies.bad_request("the form has no field 'file'")


@ROUTES.post("/api/definitions", ADMINISTRATOR, "Import definitions; idempotent",
    {"vhosts": "array", "users": "array", "permissions": "array", "policies": "array",
     "exchanges": "array", "queues": "array", "bindings": "array"}, largest=_largest)  # fmt: skip
@ROUTES.post("/api/definitions/{vhost}", ADMINISTRATOR, "Import definitions into a vhost",
    {"policies": "array", "exchanges": "array", "queues": "array", "bindings": "array"},
    largest=_largest)  # fmt: skip
@ROUTES.post(
    "/api/all-configuration", ADMINISTRATOR, "Former path of /api/definitions", largest=_largest
)
async def _import(call: ApiRequest) -> None:
    data: Any = await read_object(_uploaded(call), entries=MAX_ENTRIES)
    if "vhost" in call.params:
        data = _into(data, call.vhost.name)
    try:
        prepared = await hash_passwords(call.broker.users, data)
        for count, _ in enumerate(import_definitions(call.broker, prepared), 1):
            if not count % AT_ONCE:
                await until_durable(call.broker)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise HttpRefused(f"malformed entry: {error!r}") from None
    except HttpRefused:
        raise
    except BrokerError as error:
        raise HttpRefused(str(error)) from None


def _into(data: dict[str, Any], vhost: str) -> dict[str, Any]:
    """Only what a vhost holds, and all of it into this one."""
    kept = {}
    for kind in ("parameters", "policies", "exchanges", "queues", "bindings"):
        entries = data.get(kind, [])
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise replies.bad_request(f"'{kind}' must be an array of objects")
        for one in entries:
            one["vhost"] = vhost
        kept[kind] = entries
    return kept
