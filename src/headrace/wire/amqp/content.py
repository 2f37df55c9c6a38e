"""Contents: a header frame and its body frames, verbatim as on the wire, in one bytes object.

Nothing here decodes more than frame heads; a content that came from a checked reader passes
through untouched except for its channel numbers and, when a peer wants smaller frames, its cuts.

    02 channel size payload CE | 03 channel size payload CE | 03 ...
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

from headrace.errors import MalformedError
from headrace.wire.amqp.properties import HeaderTable, Properties
from headrace.wire.amqp.values import LongInt

OVERHEAD = 8  # frame head and end octet
_HEADER_KIND, _BODY_KIND = 2, 3
_END = b"\xce"

_FRAME_HEAD = Struct(">BHI")  # kind, channel, payload size
_SIZES = Struct(">3xI4xQ")  # of a header frame: payload size, body size
_U16 = Struct(">H")
_U32 = Struct(">I")


def make_content(
    properties: Properties, body: bytes, channel: int = 1, frame_max: int = 131072
) -> bytes:
    """Build the content of a message; ``frame_max`` 0 puts any body into one frame."""
    return make_frames(properties.encode(len(body)), body, channel, frame_max)


def make_frames(header: bytes, body: bytes, channel: int, frame_max: int) -> bytes:
    """The same from properties that are encoded already."""
    size = len(body)
    if 0 < size <= frame_max - OVERHEAD:  # one body frame: nearly all have
        head = _FRAME_HEAD.pack
        return b"".join(
            (
                head(_HEADER_KIND, channel, len(header)),
                header,
                _END,
                head(_BODY_KIND, channel, size),
                body,
                _END,
            )
        )
    return _frame(_HEADER_KIND, channel, header) + _body_frames(body, channel, frame_max)


def body_size(content: bytes) -> int:
    """The size of the body, as the header says."""
    try:
        size: int = _SIZES.unpack_from(content)[1]
    except StructError:
        raise MalformedError("a content without a header") from None
    return size


def body_of(content: bytes) -> bytes:
    """The body, put together; MalformedError if its size is not what the header says."""
    payloads = list(_payloads(content, _header_end(content)))
    body = b"".join([content[start:stop] for start, stop in payloads])
    if len(body) != body_size(content):
        raise MalformedError("a content whose body frames do not add up to its body size")
    return body


def properties_of(content: bytes) -> Properties:
    return Properties.decode(content[7 : _header_end(content) - 1])[0]


def with_properties(content: bytes, properties: Properties) -> bytes:
    """The same message with other properties; its body frames stay as they are."""
    end = _header_end(content)
    channel = _U16.unpack_from(content, 1)[0]
    header = _frame(_HEADER_KIND, channel, properties.encode(body_size(content)))
    return header + content[end:]


def with_delivery_count(contents: list[bytes], deliveries: int) -> list[bytes]:
    """The same messages with a header that says how often they were delivered before."""
    stamped = []
    for content in contents:
        properties = properties_of(content)
        headers = properties.headers or HeaderTable()
        headers.set("x-delivery-count", LongInt(deliveries))
        properties.headers = headers
        stamped.append(with_properties(content, properties))
    return stamped


def rechannel(content: bytes, channel: int) -> bytes:
    """The same content for another channel."""
    return rechannel_all([content], channel)[0]


def rechannel_all(contents: list[bytes], channel: int) -> list[bytes]:
    """The same contents for another channel, in order.

    Trusts the contents to be whole: their lengths alone give the number of frames.
    """
    number = _U16.pack(channel)
    header_start, body_start = b"\x02" + number, b"\x03" + number
    sizes, join, size_of = _SIZES.unpack_from, b"".join, len
    moved: list[bytes] = []
    add = moved.append
    for content in contents:
        try:
            header, body = sizes(content)
        except StructError:
            raise MalformedError("a content without a header") from None
        end = header + OVERHEAD
        extra = size_of(content) - end - body
        if extra == OVERHEAD:
            add(join((header_start, content[3:end], body_start, content[end + 3 :])))
        elif extra == 0 and not body:
            add(header_start + content[3:])
        else:
            add(_rechannel_frames(content, number))
    return moved


def fits(content: bytes, frame_max: int) -> bool:
    """Whether no frame is larger than ``frame_max``; 0 means that any size will do."""
    if not frame_max or len(content) <= frame_max:
        return True
    largest = frame_max - OVERHEAD
    return all(stop - start <= largest for start, stop in _payloads(content))


def reframe(content: bytes, channel: int, frame_max: int) -> bytes:
    """The same message for another channel, in frames no larger than ``frame_max``.

    A header frame cannot be split: it stays whole, whatever its size.
    """
    if fits(content, frame_max):
        return rechannel(content, channel)
    header = _frame(_HEADER_KIND, channel, content[7 : _header_end(content) - 1])
    return header + _body_frames(body_of(content), channel, frame_max)


def _body_frames(body: bytes, channel: int, frame_max: int) -> bytes:
    largest = max(frame_max - OVERHEAD, 1) if frame_max else max(len(body), 1)
    chunks = [body[at : at + largest] for at in range(0, len(body), largest)]
    return b"".join([_frame(_BODY_KIND, channel, chunk) for chunk in chunks])


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return b"%b%b%b" % (_FRAME_HEAD.pack(kind, channel, len(payload)), payload, _END)


def _header_end(content: bytes) -> int:
    """The offset behind the header frame."""
    if len(content) < _SIZES.size:
        raise MalformedError("a content without a header")
    end: int = OVERHEAD + _U32.unpack_from(content, 3)[0]
    if not _SIZES.size < end <= len(content):
        raise MalformedError("a content whose header is cut short")
    return end


def _payloads(content: bytes, offset: int = 0) -> Iterator[tuple[int, int]]:
    """Where the payload of each frame from ``offset`` on starts and stops."""
    while offset < len(content):
        start = offset + _FRAME_HEAD.size
        if start >= len(content):
            raise MalformedError("a content is cut short")
        stop = start + _U32.unpack_from(content, offset + 3)[0]
        if stop >= len(content):
            raise MalformedError("a content is cut short")
        yield start, stop
        offset = stop + 1


def _rechannel_frames(content: bytes, number: bytes) -> bytes:
    patched = bytearray(content)
    for start, _ in _payloads(content):
        patched[start - 6 : start - 4] = number
    return bytes(patched)
