"""`headrace compact`: free the disk space of all acknowledged messages at once."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from headrace.cli.support.output import progress_bar
from headrace.store.tools.compact import compact as compact_directory
from headrace.store.tools.offline import locked


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the sizes as JSON.")
def compact(directory: Path, as_json: bool) -> int:
    """Compact the log of a stopped broker.

    DIR is its data directory. A running broker compacts mostly dead segments by itself. This
    command rewrites every segment that has dead messages.
    """
    logging.getLogger("headrace.store").addHandler(logging.NullHandler())
    with locked(directory, create=True), progress_bar("compacting", "segments") as progress:
        before, after = compact_directory(directory, progress)
    if as_json:
        click.echo(json.dumps({"before": before.as_json(), "after": after.as_json()}))
        return 0
    for label, space in (("before", before), ("after", after)):
        click.echo(
            f"{label:<7} {space.bytes:>15,} bytes in {space.segments} segments, "
            f"{space.messages:,} messages alive"
        )
    return 0
