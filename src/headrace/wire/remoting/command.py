"""A command: one request or one answer. A code, named fields, a body."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from headrace.wire.remoting.codes import VERSION, Language

RESPONSE = 1  # bits of the flag word
ONEWAY = 2
NO_FIELDS: Mapping[str, str] = MappingProxyType({})


class Serialization(IntEnum):
    """How the header is written; an answer uses what the request used."""

    JSON = 0
    BINARY = 1


class Command(NamedTuple):
    """One request or answer. ``code`` may be a number that we do not know."""

    code: int
    ext: Mapping[str, str] = NO_FIELDS
    body: bytes = b""
    remark: str | None = None
    opaque: int = 0
    flag: int = 0
    language: Language = Language.PYTHON
    version: int = VERSION
    serialization: Serialization = Serialization.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """The sender wants no answer, not even an error."""
        return bool(self.flag & ONEWAY)

    def answer(
        self,
        code: int,
        ext: Mapping[str, str] = NO_FIELDS,
        body: bytes = b"",
        remark: str | None = None,
    ) -> Command:
        """The answer to this request, to be written the way the request was."""
        return Command(
            code, ext, body, remark, self.opaque, RESPONSE, serialization=self.serialization
        )
