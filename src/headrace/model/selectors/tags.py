"""Tag expressions: `*` for everything, or tags separated by `||`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import unpack

from headrace.errors import SelectorError

TAGS = "TAGS"  # the property that holds the one tag of a message
ALL = "*"
SEPARATOR = "||"
LENGTH_MAX = 16384


@lru_cache(4096)
def tag_code(tag: str) -> int:
    """Java's hash of a text: what RocketMQ brokers compare instead of tags."""
    raw = tag.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in unpack(f">{len(raw) // 2}H", raw):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


@dataclass(frozen=True, slots=True)
class TagSelector:
    """Messages with one of these tags; no tags mean every message."""

    tags: tuple[str, ...] = ()  # as they were written, each once

    @classmethod
    def parse(cls, expression: str) -> TagSelector:
        """SelectorError when there is something, but no tag."""
        text = expression.strip()
        if len(text) > LENGTH_MAX:
            raise SelectorError(
                f"a tag expression of {len(text)} characters; {LENGTH_MAX} are allowed"
            )
        if text in ("", ALL):
            return EVERYTHING
        tags = [tag for part in text.split(SEPARATOR) if (tag := part.strip())]
        if not tags:
            raise SelectorError(f"'{text:.64}' names no tag; write '*', or 'a || b'")
        return cls(tuple(dict.fromkeys(tags)))

    @property
    def expression(self) -> str:
        return f" {SEPARATOR} ".join(self.tags) or ALL

    @property
    def codes(self) -> tuple[int, ...]:
        """The hashes of the tags, each once."""
        return tuple(dict.fromkeys([tag_code(tag) for tag in self.tags]))

    def matches_tag(self, tag: str | None) -> bool:
        """Whether a message with this tag is chosen."""
        return not self.tags or tag in self.tags

    def matches(self, properties: Mapping[str, str]) -> bool:
        """The same for its properties."""
        return not self.tags or properties.get(TAGS) in self.tags


EVERYTHING = TagSelector()
