"""Bytes from an AMQP peer -> events: runs of publishes, ranges of acks, single methods.

No sockets, no clock. This is the hottest loop of the broker, so it works on whole chunks and
never builds an object per message: consecutive publishes with the same channel, route, property
flags and delivery mode become one PUBLISH event whose contents are slices of the chunk.

A *content* is the header frame and the body frames exactly as they came. Events are tuples whose
first item says what they are; they are listed in the order in which the peer sent them:

    (PUBLISH, channel, key, flags, mode, contents, size)   key = arguments of basic.publish, raw
    (ACK, channel, first, last)                            single acks of consecutive tags
    (ACK_UPTO, channel, tag)                               basic.ack with `multiple`
    (METHOD, channel, payload)                             anything else
    (TOO_LARGE, channel, error)                            a message above the limit was announced
    (FAULT, error)                                         always last; the reader is dead after it
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any

from headrace.errors import (
    FatalError,
    FrameError,
    MalformedError,
    PreconditionFailed,
    ResourceError,
    UnexpectedFrame,
)
from headrace.wire.amqp.values import check_table

PUBLISH, ACK, ACK_UPTO, METHOD, FAULT, TOO_LARGE = range(6)

Event = tuple[Any, ...]  # see the module's head; telling them apart would cost a cast per use

_FRAME = Struct(">BHI").unpack_from  # kind, channel, size
_METHOD = Struct(">BHII").unpack_from  # kind, channel, size, class and method
_HEADER = Struct(">BHIIQH").unpack_from  # kind, channel, size, class and weight, body size, flags
_FRAME_HEAD = Struct(">BHI").pack
_ACK = Struct(">BHIIQBB").unpack_from  # a whole basic.ack frame

_PUBLISH_ID = 60 << 16 | 40
_ACK_ID = 60 << 16 | 80
_BASIC_CLASS = 60 << 16  # class 60, weight 0
_END = 0xCE
_ACK_SIZE = 21
_HEADER_MIN = 22  # header frame without any property
_MAX_SEEN = 256
_OBJECT = 48  # what Python adds to each small frame that is kept

# How the fields behind the flags word are laid out, from bit 15 down to bit 2.
_SHORT, _TABLE, _MODE, _OCTET, _LONGLONG = range(5)
_KINDS = (
    _SHORT,  # content-type
    _SHORT,  # content-encoding
    _TABLE,  # headers
    _MODE,  # delivery-mode
    _OCTET,  # priority
    _SHORT,  # correlation-id
    _SHORT,  # reply-to
    _SHORT,  # expiration
    _SHORT,  # message-id
    _LONGLONG,  # timestamp
    _SHORT,  # type
    _SHORT,  # user-id
    _SHORT,  # app-id
    _SHORT,  # cluster-id
)
_layouts: dict[int, tuple[int, ...]] = {}  # flags -> kinds present; at most 2^14 entries


def _layout(flags: int) -> tuple[int, ...]:
    if flags & 3:
        raise MalformedError("unknown property flags in a content header")
    kinds = tuple(kind for bit, kind in enumerate(_KINDS) if flags & (0x8000 >> bit))
    _layouts[flags] = kinds
    return kinds


def scan_header(data: bytes, offset: int, end: int, flags: int) -> int:
    """Walk the property values between ``offset`` and ``end``; return the delivery mode.

    0 = none given, -1 = given as 0. Whatever passes can be decoded by those who receive it.
    """
    mode = 0
    kinds = _layouts.get(flags)
    if kinds is None:
        kinds = _layout(flags)
    try:
        for kind in kinds:
            if kind == _SHORT:
                offset += 1 + data[offset]
            elif kind == _TABLE:
                offset = check_table(data, offset, end)
            elif kind == _MODE:
                mode = data[offset] or -1
                offset += 1
            elif kind == _OCTET:
                offset += 1
            else:
                offset += 8
    except (IndexError, StructError):
        offset = -1
    if offset != end:
        raise MalformedError("content header does not match its property flags")
    return mode


class _PartialContent:
    """A content that is not complete: its frames did not come in one piece."""

    __slots__ = ("cost", "flags", "key", "missing", "mode", "parts", "too_large")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.parts: list[bytes] = []  # header frame first; empty until it came
        self.flags = 0
        self.mode = 0
        self.missing = 0
        self.cost = 0  # what its body frames occupy
        self.too_large = False


class Reader:
    """One peer's byte stream. Feed it chunks; it gives events and keeps what is incomplete."""

    __slots__ = (
        "_dead",
        "_have",
        "_need",
        "_partial",
        "_partial_bytes",
        "_parts",
        "_seen",
        "body_max",
        "frame_max",
        "max_message",
        "max_partial",
    )

    def __init__(self, frame_max: int, max_message: int, body_max: int = 131064) -> None:
        self.frame_max = frame_max
        self.body_max = body_max  # bytes of body in one of our frames
        self.max_message = max_message
        self.max_partial = 4 * max_message  # half-sent contents of all channels together
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 0
        self._partial: dict[int, _PartialContent] = {}
        self._partial_bytes = 0
        self._dead = False
        # By method frame: header and body head of the last publish, its length, key, flags, mode.
        self._seen: dict[bytes, tuple[bytes, int, bytes, int, int]] = {}

    @property
    def unfinished(self) -> int:
        """Bytes of frames and contents that are not complete."""
        return self._have + self._partial_bytes

    def feed(self, data: bytes) -> list[Event]:
        """Events completed by ``data``. After a FAULT everything else is ignored."""
        if self._dead:
            return []
        if self._parts:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return []
            data = b"".join(self._parts)
            self._parts = []
        events: list[Event] = []
        self._need = 0
        try:
            used = self._parse(data, events)
        except FatalError as error:
            self._dead = True
            self._partial.clear()
            events.append((FAULT, error))
            return events
        if used < len(data):
            rest = data[used:] if used else data
            self._parts = [rest]
            self._have = len(rest)
        return events

    def _parse(self, data: bytes, events: list[Event]) -> int:
        """Take every whole unit from ``data``; return how many bytes were used."""
        n = len(data)
        o = 0
        max_payload = self.frame_max - 8 if self.frame_max else 0xFFFFFFFF
        # The run being collected: messages equal in channel, key, flags and delivery mode.
        run: list[bytes] = []
        run_channel = -1
        run_key = b""
        run_flags = run_mode = -1
        # Bytes of the last publish up to its body: most publishers repeat them exactly, and then
        # nothing has to be decoded again.
        pattern = b""
        header_at = 0
        pattern_length = 1
        max_message = self.max_message
        partial = self._partial
        seen = self._seen
        while n - o >= 8:
            if pattern and data.startswith(pattern, o):
                end = o + pattern_length
                if end > n:
                    self._need = end - o
                    break
                if data[end - 1] != _END:
                    raise FrameError("frame does not end with 0xCE")
                run.append(data[o + header_at : end])
                o = end
                continue
            if n - o < 12:
                kind, channel, size = _FRAME(data, o)
                method = -1
            else:
                kind, channel, size, method = _METHOD(data, o)
            if size > max_payload and not self._bears(kind, size):
                raise FrameError(
                    f"frame of {size + 8} bytes exceeds the negotiated frame_max {self.frame_max}"
                )
            e = o + 8 + size
            if e > n:
                if kind not in (1, 2, 3, 8):
                    raise FrameError(f"unknown frame type {kind}")
                self._need = e - o
                break
            if data[e - 1] != _END:
                raise FrameError("frame does not end with 0xCE")

            if kind == 1 and method == _PUBLISH_ID and size >= 9 and channel not in partial:
                # A publisher that writes to several keys in turn repeats each of them.
                hit = seen.get(data[o:e])
                if hit is not None and data.startswith(hit[0], e):
                    head, length, key, flags, mode = hit
                    end = e + length
                    if end > n:
                        self._need = end - o
                        break
                    if data[end - 1] != _END:
                        raise FrameError("frame does not end with 0xCE")
                    if run and (
                        key != run_key
                        or channel != run_channel
                        or mode != run_mode
                        or flags != run_flags
                    ):
                        total = sum(map(len, run))
                        events.append(
                            (PUBLISH, run_channel, run_key, run_flags, run_mode, run, total)
                        )
                        run = []
                    # The same key twice: it will come again, so look for the whole of it first.
                    pattern = data[o:e] + head if run else b""
                    header_at = e - o
                    pattern_length = end - o
                    run_channel, run_key, run_flags, run_mode = channel, key, flags, mode
                    run.append(data[e:end])
                    o = end
                    continue
                if n - e < _HEADER_MIN:
                    # Wait for the next frame, but no longer: it may be short, or another one.
                    self._need = e - o + 7
                    if n - e < 7:
                        break
                    self._need += 1 + _FRAME(data, e)[2]
                    if self._need > n - o and self._need <= e - o + 8 + max_payload:
                        break
                else:
                    h_kind, h_channel, h_size, h_class, body, flags = _HEADER(data, e)
                    b = e + 8 + h_size
                    if (
                        h_kind == 2
                        and h_channel == channel
                        and h_class == _BASIC_CLASS
                        and 14 <= h_size <= max_payload
                        and body <= max_message
                    ):
                        if b > n:
                            self._need = b - o
                            break
                        if body == 0:
                            end = b
                        elif body > max_payload:
                            end = 0
                        else:
                            end = b + 8 + body
                            if end > n:
                                if n - b >= 7 and _FRAME(data, b) != (3, channel, body):
                                    end = 0
                                else:
                                    # Not to wait for more than the next frame: a peer may
                                    # let other channels go first.
                                    self._need = (end if n - b >= 7 else b + 7) - o
                                    break
                            elif _FRAME(data, b) != (3, channel, body):
                                end = 0
                        if end:
                            if data[b - 1] != _END or data[end - 1] != _END:
                                raise FrameError("frame does not end with 0xCE")
                            mode = scan_header(data, e + 21, b - 1, flags)
                            key = data[o + 11 : e - 1]
                            if run and (
                                channel != run_channel
                                or mode != run_mode
                                or flags != run_flags
                                or key != run_key
                            ):
                                events.append(
                                    (
                                        PUBLISH,
                                        run_channel,
                                        run_key,
                                        run_flags,
                                        run_mode,
                                        run,
                                        sum(map(len, run)),
                                    )
                                )
                                run = []
                            run_channel, run_key, run_flags, run_mode = channel, key, flags, mode
                            run.append(data[e:end])
                            header_at = e - o
                            pattern_length = end - o
                            pattern = data[o : b + 7] if body else data[o:b]
                            if len(seen) >= _MAX_SEEN:
                                seen.clear()
                            seen[data[o:e]] = (pattern[e - o :], end - e, key, flags, mode)
                            o = end
                            continue
                # Too big for one frame, or split by frames of other channels: frame by frame.

            if run:
                events.append(
                    (PUBLISH, run_channel, run_key, run_flags, run_mode, run, sum(map(len, run)))
                )
                run = []
            pattern = b""

            if kind == 1 and method == _ACK_ID and size == 13 and channel not in partial:
                o = self._acks(data, o, n, channel, events)
                continue
            self._frame(kind, channel, data, o, e, method, events)
            o = e
        else:
            if o < n:
                self._need = 8
                if n - o == 7:
                    kind, _, size = _FRAME(data, o)
                    if size > max_payload and not self._bears(kind, size):
                        raise FrameError("frame exceeds the negotiated frame_max")
        if run:
            events.append(
                (PUBLISH, run_channel, run_key, run_flags, run_mode, run, sum(map(len, run)))
            )
        return o

    def _bears(self, kind: int, size: int) -> bool:
        """Whether a frame above the limit is taken all the same.

        Some clients fill a body frame up to frame_max and forget the eight bytes around it.
        RabbitMQ accepts them, and so do we: bodies are split again before they are sent.
        """
        return kind == 3 and size <= self.frame_max

    def _acks(self, data: bytes, o: int, n: int, channel: int, events: list[Event]) -> int:
        """Take consecutive basic.ack frames of one channel, joining runs of rising tags."""
        first = last = -1
        while n - o >= _ACK_SIZE:
            kind, ch, size, method, tag, bits, end = _ACK(data, o)
            if method != _ACK_ID or ch != channel or kind != 1 or size != 13:
                break
            if end != _END:
                raise FrameError("frame does not end with 0xCE")
            o += _ACK_SIZE
            if bits & 1:
                if first >= 0:
                    events.append((ACK, channel, first, last))
                    first = -1
                events.append((ACK_UPTO, channel, tag))
            elif first < 0:
                first = last = tag
            elif tag == last + 1:
                last = tag
            else:
                events.append((ACK, channel, first, last))
                first = last = tag
        if first >= 0:
            events.append((ACK, channel, first, last))
        return o

    def _frame(
        self,
        kind: int,
        channel: int,
        data: bytes,
        o: int,
        e: int,
        method: int,
        events: list[Event],
    ) -> None:
        """One frame off the fast path: data[o:e] is whole and ends with 0xCE."""
        if kind == 8:
            if channel:
                raise UnexpectedFrame("a heartbeat must be on channel 0")
            if e - o != 8:
                raise FrameError("a heartbeat must be empty")
            return
        part = self._partial.get(channel)
        if kind == 1:
            if part is not None:
                raise UnexpectedFrame(
                    "expected content header or body frame, got a method frame instead"
                )
            if e - o < 12:
                raise MalformedError("method frame without class and method")
            if method == _PUBLISH_ID:
                self._partial[channel] = _PartialContent(data[o + 11 : e - 1])
            else:
                events.append((METHOD, channel, data[o + 7 : e - 1]))
        elif kind == 2:
            if part is None or part.parts:
                raise UnexpectedFrame("expected method frame, got non method frame instead")
            self._header(part, channel, data[o:e], events)
        elif kind == 3:
            if part is None or not part.parts:
                raise UnexpectedFrame("expected method frame, got non method frame instead")
            self._body(part, channel, data[o:e], events)
        else:
            raise FrameError(f"unknown frame type {kind}")

    def _header(
        self, part: _PartialContent, channel: int, frame: bytes, events: list[Event]
    ) -> None:
        if len(frame) < _HEADER_MIN:
            raise MalformedError("content header is too short")
        _, _, _, class_weight, body, flags = _HEADER(frame, 0)
        if class_weight != _BASIC_CLASS:
            raise UnexpectedFrame("content header of another class than its method")
        part.mode = scan_header(frame, 21, len(frame) - 1, flags)
        part.flags = flags
        part.missing = body
        part.too_large = body > self.max_message
        part.parts.append(frame)
        if part.too_large:
            # Reported at once, so that the client does not send all of it; bodies are dropped.
            error = PreconditionFailed(
                f"message size {body} is larger than configured max size {self.max_message} "
                "(setting max_message_size)"
            )
            events.append((TOO_LARGE, channel, error))
        if not body:
            self._complete(part, channel, events)

    def _body(self, part: _PartialContent, channel: int, frame: bytes, events: list[Event]) -> None:
        size = len(frame) - 8
        if size > part.missing:
            raise UnexpectedFrame("body frames are longer than the content header says")
        part.missing -= size
        if not part.too_large and size:
            part.parts.append(frame)
            cost = len(frame) + _OBJECT
            part.cost += cost
            self._partial_bytes += cost
            if self._partial_bytes > self.max_partial and part.missing:
                raise ResourceError("too many unfinished messages on this connection")
        if not part.missing:
            self._complete(part, channel, events)

    def _complete(self, part: _PartialContent, channel: int, events: list[Event]) -> None:
        del self._partial[channel]
        if part.too_large:
            return
        content = self._normal(part.parts, channel)
        self._partial_bytes -= part.cost
        events.append((PUBLISH, channel, part.key, part.flags, part.mode, [content], len(content)))

    def _normal(self, parts: list[bytes], channel: int) -> bytes:
        """Header and body in frames as large as we ever send, however small they came."""
        if len(parts) <= 2 and len(parts[-1]) <= self.body_max + 8:
            return b"".join(parts)
        body = b"".join([part[7:-1] for part in parts[1:]])
        size = self.body_max
        frames = parts[:1]
        for at in range(0, len(body), size):
            chunk = body[at : at + size]
            frames += (_FRAME_HEAD(3, channel, len(chunk)), chunk, b"\xce")
        return b"".join(frames)

    def forget(self, channel: int) -> None:
        """The channel is gone: what was half sent on it is dropped."""
        part = self._partial.pop(channel, None)
        if part is not None:
            self._partial_bytes -= part.cost
