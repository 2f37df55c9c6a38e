"""`headrace backup`: a consistent copy of a data directory, also of one that is in use."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.support.output import counted
from headrace.cli.support.progress import progress_bar
from headrace.store.tools.backup import backup as copy_directory


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
def backup(directory: Path, target: Path) -> int:
    """Copy the data directory DIR to the new directory TARGET, whether its broker runs or not.

    Everything that was confirmed before the start and is not acknowledged is in the copy. TARGET
    appears when it is complete; `headrace restore` brings it back.
    """
    with progress_bar("copying", "files") as progress:
        copied = copy_directory(directory, target, progress)
    click.echo(f"copied {counted(copied.segments, 'segment')}, {copied.bytes:,} bytes, to {target}")
    return 0
