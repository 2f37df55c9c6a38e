"""`headrace group`: consumer groups of a topic, their lag, and offset reset."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import click

from headrace.cli.support.options import flag, repeatable, yes_option
from headrace.cli.support.output import DONE, Column, escaped, json_option, print_result, show
from headrace.cli.support.topic_store import confirmed, fields_of, store_options
from headrace.errors import CommandFailed, ConfigError
from headrace.topics import Consumer, Store

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
_COUNTS = (
    Column("messages", "behind", is_number=True),
    Column("claimed", "claimed", is_number=True),
    Column("retrying", "retrying", is_number=True),
    Column("dead", "dead", is_number=True),
)
COLUMNS = (
    Column("group", "group"),
    Column("token", "alone"),
    Column("members", "members"),
    *_COUNTS,
)
LAG_COLUMNS = (
    Column("priority", "priority"),
    Column("position", "position", is_number=True),
    Column("end", "end", is_number=True),
    *_COUNTS,
    Column("oldest", "oldest"),
)
_alone = flag("--alone", "GROUP is the token of a consumer without a group.")


@click.group()
def group() -> None:
    """Consumer groups: list, lag, offset reset."""


@group.command("list")
@click.argument("topic")
@json_option
@store_options
def list_groups(store: Store, topic: str) -> int:
    """List the groups and single consumers of TOPIC with their lag."""
    rows = [fields_of(one) for one in store.groups(topic)]
    return show(COLUMNS, rows, nothing="no groups")


@group.command()
@click.argument("topic")
@click.argument("group")
@_alone
@json_option
@store_options
def lag(store: Store, topic: str, group: str, alone: bool) -> int:
    """Show the lag of GROUP for each priority of TOPIC."""
    found = _known(store, topic, group, alone).lag().values()
    rows = [{**asdict(one), "oldest": one.oldest and one.oldest.isoformat()} for one in found]
    return show(LAG_COLUMNS, rows, nothing="")


@group.command()
@click.argument("topic")
@click.argument("group")
@_alone
@click.option(
    "--to", type=click.Choice(["earliest", "latest"]), help="The first message, or the end."
)
@click.option(
    "--time",
    metavar="TIME",
    help="Stored at TIME or later, for example 2026-11-16T08:00:00+00:00; default zone: local.",
)
@repeatable("--offset", "offsets", "PRIORITY=ID", "Continue after this id; repeatable.")
@yes_option
@json_option
@store_options
def reset(
    store: Store,
    topic: str,
    group: str,
    alone: bool,
    to: str | None,
    time: str | None,
    offsets: tuple[str, ...],
    yes: bool,
) -> int:
    """Reset the offsets of GROUP in TOPIC. Claims of its members become invalid."""
    if (to is not None) + (time is not None) + bool(offsets) != 1:
        raise click.UsageError("pass one of --to, --time and --offset")
    at = None if time is None else _time(time)
    positions = None if not offsets else dict(map(_offset, offsets))
    if to is not None:  # by time, because that moves all queues of a topic
        at = _EARLIEST if to == "earliest" else _LATEST
    consumer = _known(store, topic, group, alone)
    where = to or time or ", ".join(offsets)
    confirmed(f"Set {group} of topic {topic} to {where}?", yes)
    consumer.seek(positions, time=at)
    behind = sum(one.messages for one in consumer.lag().values())
    text = f"{escaped(group)} has {behind:,} messages of topic {topic} before it now"
    return print_result(text, {"topic": topic, "group": group, "messages": behind})


@group.command()
@click.argument("topic")
@click.argument("group")
@_alone
@yes_option
@store_options
def delete(store: Store, topic: str, group: str, alone: bool, yes: bool) -> int:
    """Delete GROUP and its positions in TOPIC.

    If it returns, it starts as a new group.
    """
    reader = _known(store, topic, group, alone).reader
    confirmed(f"Forget the position of {group} in topic {topic}?", yes)
    store.engine.forget_group(topic, reader)
    click.echo(f"forgot {escaped(group)}")
    return DONE


def _known(store: Store, topic: str, name: str, alone: bool) -> Consumer:
    """The group, which must exist: a misspelt name does not create one."""
    for one in store.groups(topic):
        if name == (one.token if alone else one.group) and bool(one.group) != alone:
            token = name if alone else "headrace-cli"
            return store.consumer(topic, token, None if alone else name)
    kind = "consumer" if alone else "group"
    raise CommandFailed(
        f"topic '{topic}' has no {kind} '{escaped(name)}'; `headrace group list {topic}` shows them"
    )


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--time: {escaped(text)!r} is not a time; expected for example 2026-11-16T08:00"
        ) from None


def _offset(text: str) -> tuple[str, int]:
    name, sign, number = text.partition("=")
    if not sign or name not in ("high", "middle", "low") or not number.isdecimal():
        raise ConfigError(
            f"--offset: {escaped(text)!r} is not PRIORITY=ID; expected for example high=17"
        )
    return name, int(number)
