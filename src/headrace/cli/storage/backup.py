"""`headrace backup` and `headrace restore`: copy a data directory, running or not, and back."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from headrace.cli.support.output import counted, progress_bar
from headrace.store.tools.backup import backup as copy_directory
from headrace.store.tools.backup import restore as restore_directory


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
def backup(directory: Path, target: Path) -> int:
    """Copy the data directory DIR to the new directory TARGET.

    The broker may be running. Everything that was confirmed before the start and is not
    acknowledged is in the copy. TARGET appears when it is complete; `headrace restore` restores it.
    """
    with progress_bar("copying", "files") as progress:
        copied = copy_directory(directory, target, progress)
    click.echo(f"copied {counted(copied.segments, 'segment')}, {copied.bytes:,} bytes, to {target}")
    return 0


@click.command()
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def restore(source: Path, directory: Path) -> int:
    """Copy BACKUP to DIR, which must be empty or absent.

    The backup is checked first, as `headrace fsck` does.
    """
    logging.getLogger("headrace.store").addHandler(logging.NullHandler())
    with progress_bar("copying", "files") as progress:
        copied = restore_directory(source, directory, progress)
    click.echo(
        f"copied {counted(copied.segments, 'segment')}, {copied.bytes:,} bytes, to {directory}"
    )
    return 0
