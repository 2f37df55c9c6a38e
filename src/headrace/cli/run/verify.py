"""`headrace verify`: kill a broker on your disk repeatedly, and check that nothing is lost."""

from __future__ import annotations

import secrets
import shutil
import time
from pathlib import Path

import click

from headrace.cli.support.output import DONE, FAILED

_WHAT = (
    "This killed the broker's process (SIGKILL); the machine and its disk kept running. Whether "
    "the disk keeps what it has acknowledged when the power fails was not tested."
)


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--rounds", type=click.IntRange(min=1), default=10, help="Number of kills. [10]")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=2.0,
    help="Seconds of load before each kill. [2]",
)
@click.option("--seed", type=int, help="Repeat an earlier run. [random]")
def verify(directory: Path, rounds: int, seconds: float, seed: int | None) -> int:
    """Crash a broker in DIR and check that nothing is lost.

    A broker is started in DIR/headrace-verify, loaded with publishers, consumers and transactions,
    killed with SIGKILL, and started again. In the end every message is accounted for. The
    directory is removed unless something was wrong.
    """
    from headrace.testing.broker_process import BrokerProcess
    from headrace.verify import crash_test

    place = directory / "headrace-verify"
    if place.exists():
        raise click.UsageError(f"{place} exists: remove it or choose another directory")
    seed = secrets.randbelow(2**32) if seed is None else seed
    click.echo(f"{rounds} kills in {place}, seed {seed}")

    def on_round(one: crash_test.CrashRound) -> None:
        click.echo(f"  kill {one.number:>3}: {one.sent} sent so far, {one.confirmed} confirmed")

    started = time.monotonic()
    verdict = crash_test.run(
        BrokerProcess(place), rounds=rounds, seconds=seconds, seed=seed, on_round=on_round
    )
    click.echo(f"{verdict}\nafter {time.monotonic() - started:.0f} s. {_WHAT}")
    if not verdict.is_good:
        click.echo(f"The data is left in {place}.")
        return FAILED
    shutil.rmtree(place)
    click.echo("Nothing confirmed was lost.")
    return DONE
