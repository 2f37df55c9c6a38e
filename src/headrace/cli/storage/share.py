"""`headrace share` and `headrace node`: shards of shared brokers, straight in their database."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.support.broker_options import json_option
from headrace.cli.support.output import Column, counted, progress_bar, show
from headrace.errors import CommandFailed

if TYPE_CHECKING:  # the driver is an extra
    from headrace.store.shared.database import ShardDatabase

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
def list_nodes(database: ShardDatabase, shard: str, *, as_json: bool) -> int:
    """List the nodes of a shard: which one is active, how far the copies of the others are."""
    status = database.status()
    rows: list[dict[str, object]] = []
    for one in database.nodes():
        is_active = one.name == status.node and status.row.owner is not None
        rows.append(
            {
                "node": one.name,
                "state": "active" if is_active else "standby",
                "address": one.address,
                "version": one.version,
                "commits_behind": 0 if is_active else max(0, status.row.seq - one.cached),
            }
        )
    show(_NODE_COLUMNS, rows, as_json=as_json, nothing="no node is running")
    if not as_json:
        click.echo(f"epoch {status.row.epoch}, commit {status.row.seq}")
        for taken in database.take_overs(5):
            click.echo(f"  epoch {taken.epoch}: {taken.node}, {taken.began} UTC: {taken.reason}")
    return 0


@click.group()
def share() -> None:
    """Shards of shared brokers. URL is that of a database, as in `serve --engine NAME=URL`."""


@share.command("init")
@_shard_options
def init(database: ShardDatabase, shard: str) -> int:
    """Make the tables and an empty shard; `headrace serve --share` does that, too."""
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
    """Copy a shard into the new data directory DIR, also while a node serves it: a backup."""
    from headrace.store.tools.shard_copy import export

    seq = export(database, shard, directory)
    click.echo(f"shard '{shard}' at commit {seq} is in {directory}")
    return 0
