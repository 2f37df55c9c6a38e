"""Headers as JSON. Foreign clients mix types in the named fields; here they are all text."""

from __future__ import annotations

from json import JSONDecoder, JSONEncoder
from typing import Any

from headrace.errors import MalformedError
from headrace.wire.remoting.codes import VERSION, Language
from headrace.wire.remoting.command import RESPONSE, Command
from headrace.wire.remoting.json_values import sayable

_dumps = JSONEncoder(separators=(",", ":")).encode  # ASCII; no blanks: one client splits by hand
_loads = JSONDecoder().decode
_LANGUAGES = Language.__members__
_INT32 = range(-(1 << 31), 1 << 31)


def encode(command: Command) -> bytes:
    """Strict: every named field is text, in an object which answers always have."""
    ext, remark = command.ext, command.remark
    fields = f'"extFields":{_dumps(ext)},' if ext or command.flag & RESPONSE else ""
    said = f'"remark":{_dumps(remark)},' if remark is not None else ""
    return (
        f'{{"code":{command.code:d},{fields}"flag":{command.flag:d},'
        f'"language":"{command.language.name}","opaque":{command.opaque:d},{said}'
        f'"serializeTypeCurrentRPC":"JSON","version":{command.version:d}}}'
    ).encode("ascii")


def decode(header: bytes, body: bytes) -> Command:
    """Tolerant; MalformedError when it is no header at all."""
    try:
        found = _loads(header.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"a header that is no JSON: {error!s:.200}") from None
    if type(found) is not dict:
        raise MalformedError("a header that is no JSON object")
    ext = found.get("extFields")
    remark = found.get("remark")
    command = Command(
        _number(found, "code"),
        {} if ext is None else _texts(ext),
        body,
        None if remark is None else _text("remark", remark),
        _number(found, "opaque", 0),
        _number(found, "flag", 0),
        _language(found.get("language")),
        _number(found, "version", VERSION),
    )
    # An escaped half of a character pair would be text that nobody can write again.
    return _mended(command) if b"\\ud" in header or b"\\uD" in header else command


def _number(found: dict[str, Any], name: str, default: int | None = None) -> int:
    value = found.get(name, default)
    if type(value) is str:
        try:
            value = int(value)
        except ValueError:
            value = None
    if type(value) is not int or value not in _INT32:
        raise MalformedError(f"'{name}' of a header is no 32-bit number: {value!r:.64}")
    return value


def _language(value: object) -> Language:
    if type(value) is str:
        return _LANGUAGES.get(value, Language.OTHER)
    if type(value) is int and 0 <= value < len(Language):
        return Language(value)
    return Language.OTHER


def _texts(ext: object) -> dict[str, str]:
    if type(ext) is not dict:
        raise MalformedError("'extFields' of a header is no JSON object")
    for name, value in ext.items():
        if type(value) is not str:
            return {
                name: value if type(value) is str else _text(name, value)
                for name, value in ext.items()
                if value is not None
            }
    return ext


def _text(name: str, value: object) -> str:
    if value is True or value is False:
        return "true" if value else "false"
    if type(value) in (str, int, float):
        return str(value)
    raise MalformedError(f"the field '{name:.64}' of a header is neither text nor a number")


def _mended(command: Command) -> Command:
    ext = {sayable(name): sayable(value) for name, value in command.ext.items()}
    remark = command.remark
    return Command(
        command.code,
        ext,
        command.body,
        None if remark is None else sayable(remark),
        command.opaque,
        command.flag,
        command.language,
        command.version,
    )
