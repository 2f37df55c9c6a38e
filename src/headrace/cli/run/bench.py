"""`headrace bench`: measure Headrace beside RabbitMQ, or any AMQP broker, and print the ratios."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

from headrace.bench import cases as bench_cases
from headrace.bench import report
from headrace.bench.brokers import HeadraceBroker, RabbitMqBroker, RemoteBroker, find_rabbitmq
from headrace.bench.cases import CASES, GROUPS, Case
from headrace.bench.chart import bar_chart
from headrace.bench.report import describe
from headrace.bench.runner import BenchRunner, CaseResult, estimate
from headrace.bench.target import AmqpAddress, Target, Timing
from headrace.cli.run.bench_compare import (
    bench_client,
    bench_rocketmq,
    bench_topics,
    directory_option,
    file_option,
)
from headrace.cli.support.options import number_option
from headrace.cli.support.signals import handled_signals, interrupt

_URL = "amqp://user:password@host:port/vhost"


class _BenchGroup(click.Group):
    """A first word with `://` is the address of the only broker to measure."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and "://" in args[0]:
            args = ["--no-headrace", "--against", *args]
        return super().parse_args(ctx, args)


def _addresses(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> list[AmqpAddress]:
    return [_address(value) for value in values]


def _address(text: str) -> AmqpAddress:
    try:
        url = urlsplit(text if "://" in text else f"amqp://{text}")
        port = url.port
    except ValueError:
        port = None
    if "://" in text and url.scheme != "amqp":
        raise click.BadParameter(f"invalid scheme {url.scheme!r}: expected amqp:// (without TLS)")
    if port is None and "://" in text:
        port = 5672
    if port is None or not url.hostname:
        raise click.BadParameter(f"invalid address: expected HOST:PORT or {_URL}")
    vhost = unquote(url.path[1:]) or "/"
    login = (unquote(url.username or "guest"), unquote(url.password or "guest"))
    return AmqpAddress(url.hostname, port, *login, vhost)


def _cases(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[Case]:
    try:
        return bench_cases.select(values)
    except KeyError as error:
        known = ", ".join([*GROUPS, "sizes", *CASES])
        raise click.BadParameter(f"unknown case {error}; available: {known}") from None


@click.group(cls=_BenchGroup, invoke_without_command=True)
@click.option(
    "--case",
    "chosen",
    multiple=True,
    callback=_cases,
    metavar="NAME",
    help="A case or a group (speed, durable, memory, sizes); repeatable. [all]",
)
@number_option("--rounds", 3, 1, "Measurements per case and broker, the brokers in turn.")
@number_option("--seconds", 4.0, 0.2, "Length of one measurement, after the warm-up.")
@click.option(
    "--python",
    default=sys.executable,
    metavar="PATH",
    help="Interpreter that runs Headrace. [this one]",
)
@click.option(
    "--against",
    multiple=True,
    callback=_addresses,
    metavar="ADDRESS",
    help=f"Measure a running broker: HOST:PORT (as guest) or {_URL}; repeatable. "
    "Takes the place of RabbitMQ unless --rabbitmq is given.",
)
@click.option(
    "--headrace/--no-headrace",
    "with_headrace",
    default=True,
    show_default=True,
    help="Start and measure Headrace.",
)
@click.option(
    "--rabbitmq/--no-rabbitmq",
    "with_rabbitmq",
    default=None,
    help="Start and measure a private RabbitMQ. [when installed and no --against]",
)
@click.option(
    "--pin/--no-pin",
    default=True,
    show_default=True,
    help="Headrace on the first core, its load on the last; RabbitMQ always has all.",
)
@directory_option(
    "Data directory of the brokers during the run. [the system's temporary directory]"
)
@file_option("--json", "FILE", "Write every figure of every round.")
@file_option("--chart", "FILE.svg", "Draw the ratios.")
@click.option("--list", "list_only", is_flag=True, help="Show the cases and stop.")
@click.pass_context
def bench(
    ctx: click.Context,
    chosen: list[Case],
    rounds: int,
    seconds: float,
    python: str,
    against: list[AmqpAddress],
    with_headrace: bool,
    with_rabbitmq: bool | None,
    pin: bool,
    directory: str,
    json_file: str | None,
    chart_file: str | None,
    list_only: bool,
) -> int:
    """Measure Headrace beside RabbitMQ and print the ratios.

    `headrace bench amqp://...` measures the broker at that address, and no other. Exit code 1 when
    a case could not be measured.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if list_only:
        for case in chosen:
            click.echo(f"{case.group:8} {case.name:22} {case.about}")
        return 0
    targets: list[Target] = []
    if with_headrace:
        targets.append(HeadraceBroker(Path(directory), python, pin=pin))
    targets += [RemoteBroker(address) for address in against]
    if rabbitmq := _rabbitmq(with_rabbitmq, bool(against), Path(directory)):
        targets.append(rabbitmq)
    if not targets:
        raise click.UsageError("nothing to measure: no Headrace, no RabbitMQ, no --against")
    timing = Timing(seconds=seconds)
    header = describe(python if with_headrace else None, timing, rounds, pin, Path(directory))
    outcomes = _run(targets, chosen, rounds, timing, header)
    names = [target.name for target in targets]
    click.echo("\n" + report.tables(outcomes, names))
    _write(json_file, chart_file, outcomes, names, header)
    return 1 if any(outcome.failed for outcome in outcomes) else 0


bench.add_command(bench_client)
bench.add_command(bench_topics)
bench.add_command(bench_rocketmq)


def _rabbitmq(wanted: bool | None, against: bool, directory: Path) -> RabbitMqBroker | None:
    program = find_rabbitmq()
    if wanted and not program:
        raise click.UsageError("RabbitMQ is not installed (Debian package rabbitmq-server)")
    if wanted or (wanted is None and not against and program):
        return RabbitMqBroker(directory, str(program))
    return None


def _run(
    targets: list[Target],
    chosen: list[Case],
    rounds: int,
    timing: Timing,
    header: dict[str, object],
) -> list[CaseResult]:
    minutes = estimate(chosen, rounds, len(targets), timing) / 60
    outcomes = []
    runner = BenchRunner(targets, timing, _progress)
    with handled_signals(interrupt, signal.SIGTERM), runner:
        header["servers"] = runner.servers()
        for name, value in header.items():
            click.echo(f"{name}: {value}")
        _progress(f"about {minutes:.0f} minutes")
        for case in chosen:
            outcomes.append(runner.run(case, rounds))
    return outcomes


def _progress(text: str) -> None:
    click.echo(text, err=True)


def _write(
    json_file: str | None,
    chart_file: str | None,
    outcomes: list[CaseResult],
    names: list[str],
    header: dict[str, object],
) -> None:
    if json_file:
        text = json.dumps(report.document(outcomes, names, header), indent=1)
        Path(json_file).write_text(text + "\n")
    if chart_file and len(names) > 1:
        found = [(o.case.name, o.ratio(names[0], names[1])) for o in outcomes]
        ratios = [(name, ratio) for name, ratio in found if ratio is not None]
        title = f"{names[0]} in multiples of {names[1]} (more is better)"
        subtitle = f"{header['headrace']}; {header['machine']}; {header['date']}"
        Path(chart_file).write_text(bar_chart(title, subtitle, ratios))
