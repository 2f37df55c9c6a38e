"""AMQP messages as entries of topics, and entries as AMQP messages. No I/O.

    routing key          tags            message_id   message id
    priority             the priority: 0-3 low, none or 4-5 middle, 6 and more high
    timestamp            born            body         body
    headers of text      properties of the same names
    the first of the     key; `KEYS` is what RocketMQ clients call their keys, with blanks between
    header KEYS
    the other properties properties `amqp.<name>`, as text

What has no such form (headers that are no text, names that begin with `amqp.`, bytes that are no
UTF-8, names that only the broker gives) is kept beside it, whole, in the property `amqp.raw`, and
taken from there on the way back.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Final

from headrace.errors import MalformedError, UnexpectedFrame
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.entry import EntryFields
from headrace.store.topics.types import Entry
from headrace.wire.amqp.content import body_of, make_content, properties_of
from headrace.wire.amqp.properties import HeaderTable, Properties

PREFIX: Final = "amqp."
RAW: Final = "amqp.raw"
KEYS: Final = "KEYS"
# What others note in entries for themselves: neither shown as a header nor taken from one.
_OTHERS: Final = "$rocketmq."
_NOT_HEADERS: Final = (PREFIX, _OTHERS)
PERSISTENT: Final = 2
_NO_MODE: Final = "none"
_TEXTS: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
_PRIORITIES: Final = {Priority.LOW: 2, Priority.HIGH: 8}
_MAX_SHORT: Final = 255


def topic_priority(priority: int | None) -> Priority:
    if priority is None or 4 <= priority <= 5:
        return Priority.MIDDLE
    return Priority.LOW if priority < 4 else Priority.HIGH


# -- to a topic ---------------------------------------------------------------------------------


def entry_of(content: bytes, key: str) -> Entry:
    """An AMQP message, published with that routing key, as an entry."""
    properties = properties_of(content)
    shown, whole = _shown(properties)
    if not whole:
        shown[RAW] = b64encode(properties.encode(0)).decode()
    name = properties.message_id
    return Entry(
        body_of(content),
        topic_priority(properties.priority),
        key=shown.get(KEYS, "").split(" ", 1)[0] or None,
        tags=_tags(key),
        message_id=name if name is not None and _is_text(name) else None,
        born=None if properties.timestamp is None else _born(properties.timestamp),
        properties=shown,
    )


def _shown(properties: Properties) -> tuple[dict[str, str], bool]:
    """The properties as text, and whether that is all of them."""
    shown: dict[str, str] = {}
    whole = _born_is_exact(properties.timestamp) and _is_text(properties.message_id or "")
    for name in _TEXTS:
        value = getattr(properties, name)
        if value is None:
            continue
        if _is_text(value):
            shown[PREFIX + name] = value
        else:
            whole = False
    if properties.priority is not None:
        shown[PREFIX + "priority"] = str(properties.priority)
    mode = properties.delivery_mode
    if mode != PERSISTENT:
        shown[PREFIX + "delivery_mode"] = _NO_MODE if mode is None else str(mode)
    if properties.headers is not None:
        texts = _texts(properties.headers)
        shown |= texts
        # An empty table, and one with a name twice, are not what comes back from the texts.
        whole = whole and bool(texts) and HeaderTable.of(texts) == properties.headers
    return shown, whole


def _texts(headers: HeaderTable) -> dict[str, str]:
    try:
        values = headers.as_dict()
    except MalformedError:
        return {}
    return {
        name: value
        for name, value in values.items()
        if type(value) is str
        and _is_text(value)
        and _is_text(name)
        and not name.startswith(_NOT_HEADERS)
    }


def _tags(key: str) -> str:
    return key if _is_text(key) else key.encode("utf-8", "replace").decode()


def _is_text(text: str) -> bool:
    """Bytes from the wire that are no UTF-8 are surrogates here, which msgpack cannot keep."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _born(timestamp: int) -> int:
    return min(timestamp * 1000, (1 << 63) - 1)


def _born_is_exact(timestamp: int | None) -> bool:
    return timestamp is None or timestamp * 1000 < 1 << 63


# -- from a topic -------------------------------------------------------------------------------


def content_of(parts: EntryFields, priority: Priority, frame_max: int) -> bytes:
    """An entry as the content of an AMQP message."""
    properties = _kept(parts.properties.get(RAW)) or _made(parts, priority)
    return make_content(properties, parts.body, frame_max=frame_max)


def _kept(raw: str | None) -> Properties | None:
    """Anybody can append a property of that name: whatever it is, it must do no harm."""
    if raw is None:
        return None
    try:
        return Properties.decode(b64decode(raw, validate=True))[0]
    except (MalformedError, UnexpectedFrame, Base64Error, ValueError):
        return None


def _made(parts: EntryFields, priority: Priority) -> Properties:
    given = parts.properties
    headers = {name: one for name, one in given.items() if not name.startswith(_NOT_HEADERS)}
    if parts.key:
        headers.setdefault(KEYS, parts.key)
    properties = Properties(
        headers=HeaderTable.of(_fitting(headers)) if headers else None,
        delivery_mode=_number(given.get(PREFIX + "delivery_mode"), PERSISTENT),
        priority=_number(given.get(PREFIX + "priority"), _PRIORITIES.get(priority)),
        message_id=_short(parts.message_id),
        timestamp=None if parts.born is None else max(0, parts.born // 1000),
    )
    for name in _TEXTS:
        setattr(properties, name, _short(given.get(PREFIX + name)))
    return properties


def _fitting(headers: dict[str, str]) -> dict[str, str]:
    """Names of AMQP headers have at most 255 bytes; longer ones cannot be shown."""
    return {name: one for name, one in headers.items() if len(name.encode()) <= _MAX_SHORT}


def _short(text: str | None) -> str | None:
    return text if text is None or len(text.encode()) <= _MAX_SHORT else None


def _number(text: str | None, default: int | None) -> int | None:
    if text is None:
        return default
    if text == _NO_MODE:
        return None
    return int(text) if text.isascii() and text.isdigit() and int(text[:4]) < 256 else default
