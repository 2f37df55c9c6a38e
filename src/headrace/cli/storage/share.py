"""`headrace share` and `headrace node`: shards of shared brokers, straight in their database."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.support.output import Column, counted, json_option, progress_bar, show, wants_json
from headrace.errors import CommandFailed

if TYPE_CHECKING:  # the driver is an extra
    from headrace.store.shared.database import ShardDatabase

LOOK_S = 1.5  # an active node commits once a second, a standby is seen twice a second
_NODE_COLUMNS = (
    Column("node", "node"),
    Column("state", "state"),
    Column("address", "address"),
    Column("version", "version"),
    Column("commits_behind", "commits behind", is_number=True),
)
_directory = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))


def _shard_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds URL and --shard; the function gets the database and the shard's name."""

    @click.argument("url", metavar="URL")
    @click.option("--shard", default="main", show_default=True, help="Name of the shard.")
    @functools.wraps(function)
    def command(url: str, shard: str, **others: object) -> int:
        from headrace.store.shared.database import ShardDatabase
        from headrace.store.sql.faults import Fault
        from headrace.store.sql.url import parse_url

        database = ShardDatabase(parse_url(url), shard, lease=60)
        try:
            return function(database, shard, **others)
        except Fault as fault:
            raise CommandFailed(f"shard '{shard}': {fault}") from fault
        finally:
            database.close()

    return command


@click.group()
def node() -> None:
    """Nodes of a shared broker. URL is that of its database, as in `serve --engine NAME=URL`."""


@node.command("list")
@_shard_options
@json_option
def list_nodes(database: ShardDatabase, shard: str) -> int:
    """List the nodes of a shard.

    Shows which one is active and how far the copies of the others are.
    """
    from headrace.store.shared.status import node_row

    before, beats = database.status(), {one.name: one.beats for one in database.nodes()}
    time.sleep(LOOK_S)
    status = database.status()
    rows = [
        node_row(one, status, is_alive=one.beats != beats.get(one.name)) for one in database.nodes()
    ]
    show(_NODE_COLUMNS, rows, nothing="no node is running")
    if not wants_json():
        made = status.row.seq - before.row.seq
        age = f"{made} in the last {LOOK_S:g} s" if made else f"none in the last {LOOK_S:g} s"
        click.echo(f"epoch {status.row.epoch}, commit {status.row.seq}, {age}")
        for taken in database.take_overs(5):
            click.echo(f"  epoch {taken.epoch}: {taken.node}, {taken.began} UTC: {taken.reason}")
    return 0


@click.group()
def share() -> None:
    """Shards of shared brokers. URL is that of a database, as in `serve --engine NAME=URL`."""


@share.command("init")
@_shard_options
def init(database: ShardDatabase, shard: str) -> int:
    """Create the tables and an empty shard.

    `headrace serve --share` does the same.
    """
    database.create()
    click.echo(f"shard '{shard}' is ready")
    return 0


@share.command("adopt")
@_directory
@_shard_options
def adopt_directory(database: ShardDatabase, shard: str, directory: Path) -> int:
    """Copy the data directory DIR of a stopped broker into a new shard."""
    from headrace.store.tools.shard_copy import adopt

    with progress_bar("copying", "files") as progress:
        count = adopt(directory, database, progress)
    click.echo(f"copied {counted(count, 'file')} to shard '{shard}'")
    return 0


@share.command("export")
@_directory
@_shard_options
def export_shard(database: ShardDatabase, shard: str, directory: Path) -> int:
    """Copy a shard into the new data directory DIR.

    This makes a backup, also while a node serves the shard.
    """
    from headrace.store.tools.shard_copy import export

    with progress_bar("copying"):
        seq = export(database, shard, directory)
    click.echo(f"shard '{shard}' at commit {seq} is in {directory}")
    return 0
