"""`headrace doctor`: look for common problems of a running broker and say what to do."""

from __future__ import annotations

import time

import click

from headrace.cli.inspect.problems import CHECKS, Snapshot, find
from headrace.cli.support.http_api import ManagementClient, http_options
from headrace.cli.support.output import (
    DONE,
    FAILED,
    counted,
    escaped,
    print_json,
    progress_bar,
    wants_json,
)


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=5.0,
    show_default=True,
    help="Seconds between two measurements, to detect growth.",
)
@http_options
def doctor(client: ManagementClient, seconds: float) -> int:
    """Look for common problems and print what to do.

    For example no consumers, growing backlogs, alarms, stalled groups.

    Exit code 1 when a severe problem was found.
    """
    before = snapshot(client)
    with progress_bar("measuring"):
        time.sleep(seconds)
    problems = list(find(before, snapshot(client)))
    if wants_json():
        print_json(
            [
                {"name": p.name, "severe": p.is_severe, "text": p.text, "advice": p.advice}
                for p in problems
            ]
        )
    else:
        for one in problems:
            mark = click.style("problem", fg="red") if one.is_severe else "warning"
            click.echo(f"{mark}  {one.name}: {escaped(one.text)}\n         {escaped(one.advice)}")
        click.echo(f"{counted(len(CHECKS), 'check')}, {counted(len(problems), 'finding')}")
    return FAILED if any(one.is_severe for one in problems) else DONE


def snapshot(client: ManagementClient) -> Snapshot:
    node = client.get("nodes")[0]
    return Snapshot(
        node=node,
        overview=client.get("overview"),
        queues=client.get("queues"),
        consumers=client.get("consumers"),
        connections=client.get("connections"),
        exchanges=client.get("exchanges"),
        bindings=client.get("bindings"),
        groups=client.get("groups"),
        pipelines=client.get("pipelines"),
        clock_skew=client.clock_skew or 0.0,
        is_default_login=client.uses_default_login,
    )
