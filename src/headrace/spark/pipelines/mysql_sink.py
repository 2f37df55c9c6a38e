"""Rows into a table of MySQL or MariaDB, replacing those of the same key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from headrace.spark.errors import BadOption, SinkRefused, SparkMissing
from headrace.spark.foreach_batch import need

if TYPE_CHECKING:
    from pymysql import Connection

BATCHES = "headrace_batches"  # which batch of which query is in the database
CHUNK = 500
_TYPES = {
    "bigint": "BIGINT",
    "int": "INT",
    "smallint": "SMALLINT",
    "tinyint": "TINYINT",
    "double": "DOUBLE",
    "float": "FLOAT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "DATETIME(6)",
    "string": "VARCHAR(255)",
    "binary": "LONGBLOB",
}


@dataclass(frozen=True, slots=True)
class MySqlTableSink:
    """One transaction holds the rows of a batch and the note that the batch is in."""

    url: str
    table: str
    keys: tuple[str, ...]

    def check(self, frame: DataFrame) -> None:
        need(frame, self.keys, "mysql")
        for name, kind in frame.dtypes:
            if kind not in _TYPES and not kind.startswith("decimal"):
                raise BadOption(f"mysql: column '{name}' is {kind}: cast it, or use to_json()")

    def write(self, frame: DataFrame, query: str, batch: int) -> None:
        connection = connect(self.url)
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {BATCHES} (query VARCHAR(64) PRIMARY KEY, "
                    "batch BIGINT NOT NULL) ENGINE=InnoDB"
                )
                self._check_table(cursor, frame)
                connection.begin()
                if self._is_in(cursor, query, batch):
                    connection.rollback()
                    return
                self._insert(cursor, frame)
                cursor.execute(
                    f"INSERT INTO {BATCHES} (query, batch) VALUES (%s, %s) "
                    "ON DUPLICATE KEY UPDATE batch = VALUES(batch)",
                    (query, batch),
                )
            connection.commit()
        except Exception as error:
            raise _refused(self.table, error) from error
        finally:
            connection.close()

    def _is_in(self, cursor: Any, query: str, batch: int) -> bool:  # noqa: ANN401 - PyMySQL's
        cursor.execute(f"SELECT batch FROM {BATCHES} WHERE query = %s FOR UPDATE", (query,))
        row = cursor.fetchone()
        return row is not None and row[0] >= batch

    def _insert(self, cursor: Any, frame: DataFrame) -> None:  # noqa: ANN401 - PyMySQL's
        columns = ", ".join(_quoted(name) for name in frame.columns)
        places = ", ".join(["%s"] * len(frame.columns))
        changed = [name for name in frame.columns if name not in self.keys] or list(self.keys[:1])
        updates = ", ".join(f"{_quoted(name)} = VALUES({_quoted(name)})" for name in changed)
        statement = (
            f"INSERT INTO {_quoted(self.table)} ({columns}) VALUES ({places}) "
            f"ON DUPLICATE KEY UPDATE {updates}"
        )
        rows = (tuple(map(_plain, row)) for row in frame.toLocalIterator())
        for chunk in _chunks(rows):
            cursor.executemany(statement, chunk)

    def _check_table(self, cursor: Any, frame: DataFrame) -> None:  # noqa: ANN401 - PyMySQL's
        """The table is there and unique by the keys, or rows would be doubled."""
        cursor.execute("SHOW TABLES LIKE %s", (_like(self.table),))
        if cursor.fetchone() is None:
            raise SinkRefused(f"no table {self.table}; create it: {self._ddl(frame)}")
        cursor.execute(
            "SELECT index_name, GROUP_CONCAT(column_name) FROM information_schema.statistics "
            "WHERE table_schema = DATABASE() AND table_name = %s AND non_unique = 0 "
            "GROUP BY index_name",
            (self.table,),
        )
        found = [set(str(columns).split(",")) for _, columns in cursor.fetchall()]
        if set(self.keys) not in found:
            keys = ", ".join(self.keys)
            raise SinkRefused(
                f"table {self.table} has no unique index on ({keys}): a row could not replace the "
                f"one of the same key. ALTER TABLE {_quoted(self.table)} ADD UNIQUE ({keys})"
            )

    def _ddl(self, frame: DataFrame) -> str:
        columns = [f"{_quoted(field.name)} {_type(field.dataType)}" for field in frame.schema]
        keys = ", ".join(_quoted(name) for name in self.keys)
        return f"CREATE TABLE {_quoted(self.table)} ({', '.join(columns)}, PRIMARY KEY ({keys}))"


def connect(url: str) -> Connection[Any]:
    """To mysql://user:password@host:port/database."""
    try:
        import pymysql
    except ImportError:
        raise SparkMissing(
            "MySQL needs the package PyMySQL: pip install 'headrace[mysql]'"
        ) from None
    parts = urlsplit(url)
    try:
        return pymysql.connect(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 3306,
            user=unquote(parts.username or "root"),
            password=unquote(parts.password or ""),
            database=unquote(parts.path.removeprefix("/")) or None,
            charset="utf8mb4",
            init_command="SET time_zone = '+00:00'",
        )
    except pymysql.MySQLError as error:
        where = f"{parts.hostname or '127.0.0.1'}:{parts.port or 3306}"
        raise SinkRefused(f"cannot use the database at {where}: {_said(error)}") from None


def _refused(table: str, error: Exception) -> Exception:
    import pymysql

    if isinstance(error, pymysql.MySQLError):
        return SinkRefused(f"table {table}: {_said(error)}; nothing of the batch was written")
    return error


def _said(error: Exception) -> str:
    return str(error.args[1]) if len(error.args) > 1 else str(error)


def _chunks(rows: Iterator[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, bytearray) else value


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _like(name: str) -> str:
    return name.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")


def _type(kind: DataType) -> str:
    name = kind.simpleString()
    return _TYPES.get(name, name.upper())
