"""Checks shared by the configurations: each failure is one line that names the setting."""

from __future__ import annotations

import re
import ssl
from enum import StrEnum
from typing import TypeVar

from headrace.rocketmq.errors import ConfigurationError
from headrace.rocketmq.net.names import group_problem

Member = TypeVar("Member", bound=StrEnum)
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:;/\[\]]+):(?P<port>\d{1,5})")


def check_group(name: str, value: object) -> None:
    problem = group_problem(value)
    if problem:
        raise ConfigurationError(f"{name}: {problem}")


def check_int(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{name} is {value!r}; a whole number is needed")
    if not low <= value <= high:
        raise ConfigurationError(f"{name} is {value}; allowed: {low} to {high}")


def check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} is {value!r}; allowed: True or False")


def tls_context(value: object) -> ssl.SSLContext | None:
    """None = plain text."""
    if isinstance(value, ssl.SSLContext):
        return value
    if not isinstance(value, bool):
        raise ConfigurationError(f"tls is {value!r}; allowed: True, False or an ssl.SSLContext")
    return ssl.create_default_context() if value else None


def member_of(name: str, kind: type[Member], value: object) -> Member:
    """A member of an enumeration, given as such or by its value."""
    try:
        return kind(value)  # type: ignore[arg-type]  # anything else is refused here
    except ValueError:
        names = ", ".join(one.value for one in kind)
        raise ConfigurationError(f"{name} is {value!r}; allowed: {names}") from None


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`; IPv6 hosts stand in brackets."""
    found = _ADDRESS.fullmatch(address.strip())
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ConfigurationError(f"address {address!r} is not of the form host:port")
    return found["host"].strip("[]"), int(found["port"])


def addresses_of(name: str, text: object) -> tuple[str, ...]:
    """The addresses in a list separated by semicolons."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError(
            f"{name} is {text!r}; give host:port, several separated by semicolons"
        )
    addresses = tuple(part.strip() for part in text.split(";") if part.strip())
    for address in addresses:
        try:
            split_address(address)
        except ConfigurationError as error:
            raise ConfigurationError(f"{name}: {error}") from None
    return addresses
