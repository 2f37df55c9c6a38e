"""Selectors: which messages of a topic a consumer wants, by tag or by SQL92."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from headrace.errors import SelectorError
from headrace.model.selectors import SqlSelector
from headrace.rocketmq.enums import SelectorType
from headrace.rocketmq.errors import InvalidSelectorError

ALL = "*"


@dataclass(frozen=True, slots=True)
class MessageSelector:
    """An expression and the language it is written in."""

    type: SelectorType = SelectorType.TAG
    expression: str = ALL

    @classmethod
    def by_tag(cls, expression: str = ALL) -> Self:
        """`*` for all, or tags separated by `||`."""
        return cls(SelectorType.TAG, ALL if expression is None else expression)

    @classmethod
    def by_sql(cls, expression: str) -> Self:
        """A condition over message properties, for example `colour = 'red' AND price > 100`."""
        return cls(SelectorType.SQL92, expression)

    @classmethod
    def from_dict(cls, data: Mapping[str, str]) -> Self:
        try:
            return cls(_type_of(data.get("type", "TAG")), data["expression"])
        except (KeyError, AttributeError, TypeError) as error:
            raise InvalidSelectorError(
                f"a selector is a mapping with 'type' and 'expression', not {data!r}"
            ) from error

    def to_dict(self) -> dict[str, str]:
        return {"type": self.type.value, "expression": self.expression}

    def validate(self) -> None:
        """InvalidSelectorError, with the reason, when no broker could use it."""
        if not isinstance(self.type, SelectorType):
            raise InvalidSelectorError(f"selector type {self.type!r} is neither TAG nor SQL92")
        if not isinstance(self.expression, str):
            raise InvalidSelectorError(f"expression {self.expression!r} is no text")
        if self.type is SelectorType.TAG:
            _check_tags(self.expression)
        else:
            _check_sql(self.expression)

    @property
    def tags(self) -> frozenset[str]:
        """The tags wanted; empty means all, or that tags do not decide."""
        if self.type is not SelectorType.TAG or self.expression.strip() in ("", ALL):
            return frozenset()
        return frozenset(tags_in(self.expression))

    def accepts_tag(self, tag: str | None) -> bool:
        """The client checks the tag of a message itself: brokers compare only a hash of the tag."""
        wanted = self.tags
        return not wanted or tag in wanted


def tags_in(expression: str) -> list[str]:
    """The tags of an expression in their order, each once."""
    parts = (part.strip() for part in expression.split("||"))
    return list(dict.fromkeys(part for part in parts if part))


def selector_of(value: MessageSelector | str | None) -> MessageSelector:
    """A selector as it is; a text is a tag expression; None wants everything."""
    if value is None:
        return MessageSelector.by_tag(ALL)
    if isinstance(value, str):
        return MessageSelector.by_tag(value)
    return value


def is_tag_type(text: str | None) -> bool:
    """True when the *name of a selector type* means tags: empty, or TAG in any case."""
    return not text or text.upper() == SelectorType.TAG


create_tag_selector = MessageSelector.by_tag
create_sql_selector = MessageSelector.by_sql


def _type_of(name: str) -> SelectorType:
    if is_tag_type(name):
        return SelectorType.TAG
    try:
        return SelectorType(name.upper())
    except ValueError:
        raise InvalidSelectorError(f"selector type {name!r} is neither TAG nor SQL92") from None


def _check_tags(expression: str) -> None:
    if expression.strip() in ("", ALL):
        return
    tags = tags_in(expression)
    if not tags:
        raise InvalidSelectorError(f"tag expression {expression!r} names no tag")
    if ALL in tags:
        raise InvalidSelectorError(f"tag expression {expression!r}: * cannot stand beside tags")
    for tag in tags:
        if "|" in tag or any(ord(sign) < 32 for sign in tag):
            raise InvalidSelectorError(f"tag {tag!r}: tags are separated by || and hold no |")


def _check_sql(expression: str) -> None:
    if not expression.strip():
        raise InvalidSelectorError(
            "empty SQL92 expression; to receive all messages, select by the tag '*'"
        )
    try:
        SqlSelector.parse(expression)
    except SelectorError as error:
        raise InvalidSelectorError(f"SQL92 expression {expression!r}: {error}") from error
