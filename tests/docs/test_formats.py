"""The pages about formats: versions, files of a data directory, tables and columns of meta.db."""

from __future__ import annotations

import re
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path

import pika

from headrace.store.mysql import tables
from headrace.store.shared.cache import LABEL
from headrace.store.sqlite import schema
from headrace.store.sqlite.database import LOST_AND_FOUND
from support import doc_pages
from support.brokers import Broker

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "v1"
STORAGE = (doc_pages.DOCS / "storage-format.md").read_text("utf-8")


def cells(text: str, heading: str) -> list[list[str]]:
    """Rows of the first table below a heading, without the head."""
    rows = [
        row for row in text.partition(heading)[2].split("\n\n## ")[0].splitlines() if row[:1] == "|"
    ]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_upgrading_names_the_formats_of_each_version(tmp_path: Path) -> None:
    text = (doc_pages.DOCS / "upgrading.md").read_text("utf-8")
    old, new = cells(text, "## Formats")
    with tarfile.open(FIXTURES / "stopped.tar.xz") as archive:
        for name in ("format", "meta.db"):
            member = archive.extractfile(f"data/{name}")
            assert member is not None
            (tmp_path / name).write_bytes(member.read())
    assert quoted(old[1]) == [(tmp_path / "format").read_text().strip()]
    with closing(sqlite3.connect(tmp_path / "meta.db")) as connection:
        assert old[2] == str(schema.schema_version(connection))
    layout = re.search(
        r"INSERT INTO `msg_schema`.*?\((\d+)", (FIXTURES / "mysql.sql").read_text(), re.S
    )
    assert layout is not None
    assert old[3] == layout[1]

    assert quoted(new[1]) == ["headrace 2"]
    assert new[2].startswith(f"{len(schema.MIGRATIONS)}:")
    assert new[3] == str(tables.VERSION)


def test_every_file_of_a_data_directory_is_named(
    start_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    named = [name for row in cells(STORAGE, "## Files") for name in quoted(row[0])]
    patterns = [re.sub(r"<\w+>", "*", name).rstrip("/") for name in named]
    broker = start_broker("--data-dir", str(tmp_path / "data"))
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"one", pika.BasicProperties(delivery_mode=2))
    running = {str(path.relative_to(tmp_path / "data")) for path in (tmp_path / "data").rglob("*")}
    broker.stop()
    stopped = {str(path.relative_to(tmp_path / "data")) for path in (tmp_path / "data").rglob("*")}
    found = (running | stopped) - {"journal"}
    assert sorted(one for one in found if not any(fnmatch(one, name) for name in patterns)) == []
    elsewhere = {"*.new", "journal/*.idx", LOST_AND_FOUND, LABEL}  # not after a start
    unused = {name for name in patterns if not any(fnmatch(one, name) for one in found)}
    assert unused - elsewhere == set()
    assert {LOST_AND_FOUND, LABEL} <= set(patterns)


def test_every_table_and_column_of_the_metadata_is_named() -> None:
    rows = cells(STORAGE, "## meta.db")
    described = {name: row[1] for row in rows for name in quoted(row[0])}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        schema.migrate(connection)
        columns: dict[str, set[str]] = {}
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            info = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            columns[table] = {name for (name,) in info} - {"sum"}
    columns.pop("sqlite_sequence", None)
    assert set(described) == set(columns)
    missing = {t: names - set(quoted(described[t])) for t, names in columns.items()}
    assert {t: names for t, names in missing.items() if names} == {}
