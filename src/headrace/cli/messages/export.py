"""`headrace export`: stored messages of a queue or topic into a file."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.support.http_api import ManagementClient, login_options, vhost_option
from headrace.cli.support.options import flag
from headrace.cli.support.output import counted, escaped, json_option, print_result, progress_bar
from headrace.errors import CommandFailed, ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    Write = Callable[[pa.RecordBatch], object]

FORMATS = ("parquet", "arrow", "csv", "jsonl")


@click.command(short_help="Write the messages of a queue or topic to a file.")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--kind", type=click.Choice(["queue", "topic"]),
              help="What NAME is, if there are both.")  # fmt: skip
@click.option("--columns", metavar="NAMES", help="Only these, separated by commas. [all]")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of messages.")
@flag("--overwrite", "Replace FILE if it exists.")
@json_option
@vhost_option
@login_options
def export(
    client: ManagementClient,
    name: str,
    file: Path,
    kind: str | None,
    columns: str | None,
    limit: int | None,
    overwrite: bool,
    vhost: str,
) -> int:
    """Write the stored messages of NAME, a durable queue or a topic, to FILE.

    The end of FILE's name decides: .parquet, .arrow, .csv or .jsonl. The messages stay where they
    are. In .csv and .jsonl a body that is not UTF-8 is in `body_base64` instead of `body`.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise CommandFailed("export needs pyarrow: pip install 'headrace[spark]'") from None
    if file.suffix.removeprefix(".") not in FORMATS:
        raise ConfigError(f"FILE must end with .{', .'.join(FORMATS)}")
    if file.exists() and not overwrite:
        raise ConfigError(f"{escaped(str(file))} exists: --overwrite replaces it")
    query = {"kind": kind, "columns": columns, "limit": None if limit is None else str(limit)}
    part = file.with_name(f".{file.name}.part")
    done = 0
    try:
        with (
            client.stream("rows", vhost, name, query=query) as answer,
            progress_bar("exporting", "messages") as progress,
            pa.ipc.open_stream(answer) as stream,
            _writer(part, file.suffix, stream.schema) as write,
        ):
            total = int(answer.headers["x-headrace-offsets"])
            for batch in stream:
                write(batch)
                done += batch.num_rows
                progress(done, total if limit is None else min(total, limit))
        part.replace(file)
    except HTTPException:
        raise CommandFailed("the broker closed the connection: see its log; try again") from None
    except OSError as error:
        raise CommandFailed(f"{escaped(str(file))}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    text = f"{counted(done, 'message')} in {escaped(str(file))}"
    return print_result(text, {"messages": done, "file": str(file)})


@contextmanager
def _writer(file: Path, suffix: str, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    if suffix == ".parquet":
        with parquet.ParquetWriter(file, schema) as writer:
            yield writer.write_batch
    elif suffix == ".arrow":
        with pa.ipc.new_file(str(file), schema) as writer:
            yield writer.write_batch
    elif suffix == ".jsonl":
        with file.open("w", encoding="utf-8") as out:
            yield lambda batch: out.writelines(
                json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in _plain(batch)
            )
    else:
        names = [*schema.names, *(["body_base64"] if "body" in schema.names else [])]
        texts = pa.schema([(name, _csv_type(schema, name)) for name in names])
        with csv.CSVWriter(file, texts) as writer:
            yield lambda batch: writer.write_table(
                pa.Table.from_pylist([*map(_flat, _plain(batch))], schema=texts)
            )


def _csv_type(schema: pa.Schema, name: str) -> pa.DataType:
    import pyarrow as pa

    is_kept = name not in ("body", "properties", "body_base64", "timestamp", "born")
    return schema.field(name).type if is_kept else pa.string()


def _plain(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows with texts and numbers only."""
    for row in batch.to_pylist():
        if "properties" in row:
            row["properties"] = dict(row["properties"])
        for name in ("timestamp", "born"):
            if row.get(name) is not None:
                row[name] = row[name].isoformat()
        if "body" in row:
            try:
                row["body"] = row["body"].decode()
            except UnicodeDecodeError:
                row["body_base64"] = base64.b64encode(row.pop("body")).decode("ascii")
        yield row


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    if "properties" in row:
        row["properties"] = json.dumps(row["properties"], ensure_ascii=False)
    return row
