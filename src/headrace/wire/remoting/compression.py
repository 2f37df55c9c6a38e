"""Bodies of messages, smaller. A small body may not become a large one without limit."""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import Any

from headrace.errors import MalformedError, Unsupported
from headrace.wire.remoting.codes import COMPRESSION_MASK, SysFlag

LEVEL = 5
INFLATED_MAX = 64 << 20
ZSTD_WINDOW = 8 << 20  # bytes of memory before the first one is inflated; what zstd recommends

_COMPRESSED = int(SysFlag.COMPRESSED)
_DEFLATED = int(SysFlag.COMPRESSED | SysFlag.ZLIB)
_LZ4, _ZSTD = int(SysFlag.LZ4), int(SysFlag.ZSTD)
_KNOWN = (0, _LZ4, _ZSTD, int(SysFlag.ZLIB))


def deflate(body: bytes, level: int = LEVEL) -> tuple[bytes, int]:
    """The zlib stream, and the bits that a message with it has."""
    return zlib.compress(body, level), _DEFLATED


def inflate(body: bytes, sys_flag: int, limit: int = INFLATED_MAX) -> bytes:
    """The body as its producer gave it; as it is when it was not compressed.

    MalformedError when it is damaged or larger than ``limit``; Unsupported when the library for
    its kind of compression is not installed.
    """
    if not sys_flag & _COMPRESSED:
        return body
    kind = sys_flag & COMPRESSION_MASK
    if kind not in _KNOWN:
        raise MalformedError(f"compression {kind:#x} of a body is not known")
    try:
        if kind == _LZ4:
            found, complete = _inflate_lz4(body, limit)
        elif kind == _ZSTD:
            found, complete = _inflate_zstd(body, limit)
        else:
            found, complete = _inflate_zlib(body, limit)
    except (zlib.error, ValueError, RuntimeError, EOFError) as error:
        raise MalformedError(f"a compressed body that is damaged: {error!s:.200}") from None
    if len(found) > limit:
        raise MalformedError(f"a compressed body that has more than {limit} bytes")
    if not complete:
        raise MalformedError("a compressed body that ends too early")
    return found


def _inflate_zlib(body: bytes, limit: int) -> tuple[bytes, bool]:
    machine = zlib.decompressobj()
    return machine.decompress(body, limit + 1), machine.eof


def _inflate_lz4(body: bytes, limit: int) -> tuple[bytes, bool]:
    machine = _library("lz4.frame", "lz4", "lz4").LZ4FrameDecompressor()
    return bytes(machine.decompress(body, limit + 1)), bool(machine.eof)


def _inflate_zstd(body: bytes, limit: int) -> tuple[bytes, bool]:
    library = _library("zstandard", "Zstandard", "zstandard")
    try:
        machine = library.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        with machine.stream_reader(body) as stream:
            return bytes(stream.read(limit + 1)), True
    except library.ZstdError as error:
        raise ValueError(str(error)) from None


def _library(module: str, name: str, package: str) -> Any:  # noqa: ANN401 - it is optional
    try:
        return import_module(module)
    except ImportError:
        raise Unsupported(
            f"the body is compressed with {name}, and {package} is not installed; "
            "pip install 'headrace[rocketmq]', or let producers use zlib"
        ) from None
