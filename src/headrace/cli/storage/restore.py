"""`headrace restore`: make a data directory from a backup."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from headrace.cli.support.output import counted
from headrace.cli.support.progress import progress_bar
from headrace.store.tools.backup import restore as restore_directory


@click.command()
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def restore(source: Path, directory: Path) -> int:
    """Copy BACKUP into the data directory DIR, which must be empty or absent.

    The backup is checked first, as `headrace fsck` does.
    """
    logging.getLogger("headrace.store").addHandler(logging.NullHandler())
    with progress_bar("copying", "files") as progress:
        copied = restore_directory(source, directory, progress)
    click.echo(
        f"copied {counted(copied.segments, 'segment')}, {copied.bytes:,} bytes, to {directory}"
    )
    return 0
