"""Why a body is not the JSON it should be. Runs on bad records only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

LONGEST = 80
_NO_FIT = "it does not fit the schema"


def why_not(schema: str) -> Callable[[bytes], str]:
    """A function from a body to the reason; ``schema`` is a StructType as JSON."""

    def reason(body: bytes | None) -> str:
        try:
            text = bytes(body or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            return f"the body is not UTF-8: byte {error.start}"
        if not text.strip():
            return "the body is empty"
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            return f"not JSON: {error}"
        if not isinstance(value, dict):
            return f"not an object but {_shown(value)}"
        wanted = StructType.fromJson(json.loads(schema))
        return _missing(value, wanted) or _misfit("", value, wanted) or _NO_FIT

    return reason


def _missing(value: Mapping[str, object], wanted: StructType) -> str:
    for field in wanted.fields:
        if not field.nullable and value.get(field.name) is None:
            return f"field '{field.name}' is missing"
    return ""


def _misfit(where: str, value: object, wanted: DataType) -> str:
    """The first value that is of another type than the schema says."""
    if value is None:
        return ""
    if isinstance(wanted, StructType) and isinstance(value, dict):
        inner = (
            _misfit(f"{where}.{field.name}".lstrip("."), value.get(field.name), field.dataType)
            for field in wanted.fields
        )
        return next((one for one in inner if one), "")
    if isinstance(wanted, ArrayType) and isinstance(value, list):
        parts = (_misfit(f"{where}[{i}]", one, wanted.elementType) for i, one in enumerate(value))
        return next((one for one in parts if one), "")
    if isinstance(wanted, MapType) and isinstance(value, dict):
        items = (_misfit(f"{where}.{key}", one, wanted.valueType) for key, one in value.items())
        return next((one for one in items if one), "")
    if _fits(value, wanted):
        return ""
    return f"field '{where}': {_shown(value)} is no {wanted.simpleString()}"


def _fits(value: object, wanted: DataType) -> bool:
    if isinstance(wanted, StringType):
        return True
    if isinstance(wanted, BooleanType):
        return isinstance(value, bool)
    if isinstance(wanted, IntegralType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(wanted, FractionalType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    # Of times and the like only Spark knows whether it could read them: assume it could not.
    return False


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
