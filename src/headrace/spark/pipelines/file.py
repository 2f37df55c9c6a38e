"""A pipeline file, TOML or YAML, to a Pipeline. Checked as far as that goes without Spark."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import yaml

from headrace.spark.errors import BadOption, BadPipeline
from headrace.spark.options import read_options, write_options
from headrace.spark.pipelines.document import (
    Document,
    Lines,
    TableFields,
    lines_of_toml,
    lines_of_yaml,
)
from headrace.spark.pipelines.model import (
    BAD_RECORDS,
    Decode,
    Pipeline,
    SinkSpec,
    SourceSpec,
    StepSpec,
    TableSpec,
    Watermark,
)

URL_VARIABLE = "HEADRACE_URL"
DECODERS = ("json", "avro", "text", "raw")
TABLE_FORMATS = ("csv", "json", "parquet", "orc", "delta")
MODES = ("append", "update", "complete")
# What a sink needs, and the modes it can take.
SINKS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "parquet": (("path",), ("append",)),
    "delta": (("path",), ("append", "update")),
    "mysql": (("url", "table"), MODES),
    "exchange": (("exchange",), ("append", "update")),
    "topic": (("topic",), ("append", "update")),
    "console": ((), MODES),
}
# The options of the data source, as they are written in a file.
SOURCE_OPTIONS = {
    "queue": "queue",
    "topic": "topic",
    "group": "group",
    "tags": "tags",
    "selector": "selector",
    "starting_offsets": "startingOffsets",
    "starting_timestamp": "startingTimestamp",
    "max_rows_per_trigger": "maxRowsPerTrigger",
    "rows_per_task": "rowsPerTask",
    "fail_on_data_loss": "failOnDataLoss",
    "pin_bytes": "pinBytes",
}
_DURATION = re.compile(r"\d+ (millisecond|second|minute|hour|day)s?")
_QUERY = re.compile(
    r"\s*(--[^\n]*\n\s*)*(select\b|with\b|from\b|table\b|values\b|\()", re.IGNORECASE
)
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def load(file: Path, environ: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline in the file; BadPipeline with the line when it cannot be used."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadPipeline(f"cannot read {file}: {reason}") from None
    value, lines = _parsed(file, text)
    document = Document(file, lines, os.environ if environ is None else environ)
    return _pipeline(TableFields(document, (), value))


def _parsed(file: Path, text: str) -> tuple[object, Lines]:
    if file.suffix in (".yaml", ".yml"):
        try:
            return yaml.safe_load(text), lines_of_yaml(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark is not None else 1
            problem = getattr(error, "problem", None) or str(error)
            raise BadPipeline(f"{file}:{line}: not YAML: {problem}") from None
    if file.suffix != ".toml":
        raise BadPipeline(f"{file}: unknown file type: expected .toml, .yaml or .yml")
    try:
        return tomllib.loads(text), lines_of_toml(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else len(text.splitlines()) or 1
        problem = re.sub(r"\s*\(at [^)]*\)", "", str(error))
        raise BadPipeline(f"{file}:{line}: not TOML: {problem}") from None


def _pipeline(top: TableFields) -> Pipeline:
    file = top.document.file
    url = top.text("url") or top.document.environ.get(URL_VARIABLE)
    sources = tuple(_source(name, fields, url) for name, fields in top.named("sources"))
    if not sources:
        top.fail(None, "no source: add [sources.NAME] with queue = '...' or topic = '...'")
    tables = tuple(_table(name, fields) for name, fields in top.named("tables"))
    steps = tuple(_step(fields) for fields in top.listed("steps"))
    lines = [(one.name, one.line) for one in sources]
    lines += [(one.name, one.line) for one in tables] + [(one.name, one.line) for one in steps]
    _check_views(top, lines)
    views = [name for name, _ in lines]
    last = steps[-1].name if steps else sources[-1].name
    sinks = tuple(_sink(name, fields, url, views, last) for name, fields in top.named("sinks"))
    if not sinks:
        top.fail(None, "no sink: add [sinks.NAME], for example with type = 'console'")
    found = Pipeline(
        name=top.text("name") or file.stem,
        file=file,
        every=_duration(top, "every", "1 second"),
        checkpoint=_path(top, "checkpoint"),
        bad_records=_path(top, "bad_records"),
        sources=sources,
        tables=tables,
        steps=steps,
        sinks=sinks,
    )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", found.name):
        top.fail(
            "name",
            f"'{found.name}' is not valid: use up to 100 letters, digits, _, - and .",
        )
    top.done()
    return found


def _check_views(top: TableFields, lines: list[tuple[str, int]]) -> None:
    seen: dict[str, int] = {}
    for name, line in lines:
        before = seen.setdefault(name.lower(), line)
        if before != line:
            raise BadPipeline(
                f"{top.document.file}:{line}: the name '{name}' is already used in line {before}"
            )


# -- sources and tables --------------------------------------------------------------------------


def _source(name: str, fields: TableFields, url: str | None) -> SourceSpec:
    given = {"url": fields.text("url") or url}
    given |= {option: fields.plain(key) for key, option in SOURCE_OPTIONS.items()}
    options = {option: value for option, value in given.items() if value is not None}
    spec = SourceSpec(name, options, _decode(fields), _watermark(fields), fields.line)
    fields.done()
    try:
        read_options(options)
    except BadOption as error:
        fields.fail(_key_of(str(error)), str(error))
    return spec


def _key_of(text: str) -> str | None:
    """The field that an error of the options begins with."""
    word = text.partition(":")[0].lower()
    return next((key for key, one in SOURCE_OPTIONS.items() if one.lower() == word), None)


def _decode(fields: TableFields) -> Decode:
    form = fields.choice("decode", DECODERS, "raw")
    schema, file = fields.text("schema"), _path(fields, "schema_file")
    framing = fields.choice("framing", ("plain", "confluent"), "plain")
    if schema is not None and file is not None:
        fields.fail("schema_file", "give 'schema' or 'schema_file', not both")
    if file is not None:
        try:
            schema = Path(file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            fields.fail("schema_file", f"cannot read {file}: {error}")
    if form in ("json", "avro") and schema is None:
        fields.fail("decode", f"decode = '{form}' needs a 'schema' or a 'schema_file'")
    if form in ("text", "raw") and schema is not None:
        fields.fail("schema", f"decode = '{form}' has no schema")
    if framing == "confluent" and form != "avro":
        fields.fail("framing", f"'framing' is only for decode = 'avro', not '{form}'")
    return Decode(form, schema, framing)


def _watermark(fields: TableFields) -> Watermark | None:
    inner = fields.table("watermark")
    if inner is None:
        return None
    column = inner.required("column", "the column with the time of the event")
    found = Watermark(column, _duration(inner, "delay", None))
    inner.done()
    return found


def _duration(fields: TableFields, key: str, default: str | None) -> str:
    value = fields.text(key) or default
    if value is None:
        fields.missing(key, ", for example '10 seconds'")
    if not _DURATION.fullmatch(value):
        fields.fail(key, f"'{key}' is {value!r}; expected a duration, for example '10 seconds'")
    return value


def _path(fields: TableFields, key: str) -> str | None:
    """A path; relative ones begin where the file is."""
    value = fields.text(key)
    if value is None or "://" in value:
        return value
    return str((fields.document.file.parent / value).resolve())


def _table(name: str, fields: TableFields) -> TableSpec:
    form = fields.choice("format", TABLE_FORMATS, "parquet")
    path = _path(fields, "path")
    if path is None:
        fields.missing("path", ": where the table lies")
    if "://" not in path and not Path(path).exists():
        fields.fail("path", f"{path} does not exist")
    schema, line = fields.text("schema"), fields.line
    return TableSpec(name, form, path, schema, fields.rest(), line)


# -- steps ----------------------------------------------------------------------------------------


def _step(fields: TableFields) -> StepSpec:
    name = fields.required("name", "each step is a view with a name")
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        fields.fail("name", f"'{name}' is not a valid name of a view: use letters, digits and _")
    sql, python = fields.text("sql"), fields.text("python")
    if (sql is None) == (python is None):
        fields.fail(None, f"step '{name}' needs either 'sql' or 'python'")
    if sql is not None and not _QUERY.match(sql):
        fields.fail("sql", "'sql' must be a query that begins with SELECT or WITH")
    if python is not None and not _FUNCTION.fullmatch(python):
        fields.fail("python", f"'python' is {python!r}; expected module:function")
    sql_line = fields.document.lines.of_text((*fields.path, "sql"))
    found = StepSpec(name, sql, python, _watermark(fields), fields.line, sql_line)
    fields.done()
    return found


# -- sinks ----------------------------------------------------------------------------------------


def _sink(name: str, fields: TableFields, url: str | None, views: list[str], last: str) -> SinkSpec:
    if name == BAD_RECORDS:
        fields.fail(None, f"'{BAD_RECORDS}' is reserved for the table of bad records")
    if fields.text("type") is None:
        fields.missing("type", f"; expected one of {', '.join(SINKS)}")
    kind = fields.choice("type", SINKS, "")
    needed, modes = SINKS[kind]
    view = fields.text("from") or last
    if view not in views:
        fields.fail("from", f"unknown view '{view}'; expected one of {', '.join(views)}")
    mode = fields.choice("mode", MODES, "append")
    if mode not in modes:
        fields.fail("mode", f"a sink of type {kind} supports {', '.join(modes)}, not '{mode}'")
    settings = _settings(kind, needed, fields, url)
    keys, partition_by = fields.texts("keys"), fields.texts("partition_by")
    if not keys and (kind == "mysql" or (kind == "delta" and mode == "update")):
        fields.missing("keys", f": the columns by which a row of {kind} is replaced")
    if keys and kind not in ("mysql", "delta"):
        fields.fail("keys", f"a sink of type {kind} has no keys")
    if partition_by and kind not in ("parquet", "delta"):
        fields.fail("partition_by", f"a sink of type {kind} has no partitions")
    fields.done()
    return SinkSpec(name, kind, view, mode, keys, partition_by, settings, fields.line)


def _settings(
    kind: str, needed: tuple[str, ...], fields: TableFields, url: str | None
) -> dict[str, str]:
    settings: dict[str, str] = {}
    for key in needed:
        if key == "exchange":
            value = fields.plain(key)  # the default exchange has an empty name
        else:
            value = _path(fields, key) if key == "path" else fields.text(key)
        if value is None:
            fields.missing(key, f": a sink of type {kind} needs it")
        settings[key] = value
    if kind == "mysql" and not settings["url"].startswith("mysql://"):
        fields.fail("url", "'url' must be mysql://user:password@host:port/database")
    if kind in ("exchange", "topic"):
        found = fields.text("url") or url
        if found is not None:
            settings["url"] = found
        try:
            write_options(settings)
        except BadOption as error:
            fields.fail("url", str(error))
    return settings
