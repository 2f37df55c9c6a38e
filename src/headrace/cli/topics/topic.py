"""`headrace topic`: create, describe, append, read and delete topics, in a broker or in MySQL."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import click

from headrace.cli.support.name_values import arguments_of
from headrace.cli.support.options import file_option, flag, repeatable, yes_option
from headrace.cli.support.output import (
    DONE,
    Column,
    counted,
    escaped,
    json_option,
    print_json,
    print_result,
    show,
    wants_json,
)
from headrace.cli.support.sender import repeated
from headrace.cli.support.topic_store import confirmed, fields_of, lines_in, printer, store_options
from headrace.errors import CommandFailed
from headrace.store.mysql.engine import MySqlEngine
from headrace.topics import NewMessage, Store, Topic

_TOKEN = "headrace-cli"
COLUMNS = (
    Column("name", "topic"),
    Column("engine", "engine"),
    Column("high", "high", is_number=True),
    Column("middle", "middle", is_number=True),
    Column("low", "low", is_number=True),
    Column("queues", "queues", is_number=True),
    Column("retention", "retention"),
)
_priority = click.option(
    "--priority",
    default="middle",
    type=click.Choice(["high", "middle", "low"]),
    help="Priority. [middle]",
)


@click.group()
def topic() -> None:
    """Topics with priorities, in a broker or in MySQL (--store)."""


@topic.command()
@click.argument("name")
@click.option(
    "--queues",
    default=1,
    type=click.IntRange(1, 1024),
    help="Number of partitions per priority, for ordered reading. [1]",
)
@click.option("--retention", metavar="KEEP", help="7d, 500MB, or 7d,500MB. [unlimited]")
@click.option(
    "--engine", metavar="NAME", help="Engine of the broker: log, or a name given with --engine."
)
@repeatable(
    "--argument",
    "options",
    "NAME=VALUE",
    "Option of the engine, append_mode=counter for example; repeatable.",
)
@json_option
@store_options
def create(
    store: Store,
    name: str,
    queues: int,
    retention: str | None,
    engine: str | None,
    options: tuple[str, ...],
) -> int:
    """Create the topic NAME. Succeeds if it exists with the same settings."""
    given = arguments_of(options)
    if engine is not None:
        given["engine"] = engine
    found = store.create(name, queues=queues, retention=retention, **given)
    text = f"created topic {found.name} in engine {found.engine}"
    return print_result(text, _row(found))


@topic.command("list")
@json_option
@store_options
def list_topics(store: Store) -> int:
    """List the topics with the number of readable ids."""
    return show(COLUMNS, [_row(one) for one in store.list()], nothing="no topics")


@topic.command()
@click.argument("name")
@json_option
@store_options
def describe(store: Store, name: str) -> int:
    """Describe a topic: its settings and readable ranges."""
    found = store.describe(name)
    row = {
        "name": found.name,
        "uuid": found.uuid,
        "engine": found.engine,
        "queues": found.queues,
        "retention": _retention(found),
        "created_at": found.created_at.isoformat(),
        "ids": {name: {"first": first, "end": end} for name, (first, end) in found.ids.items()},
        "counts": found.counts,
    }
    if wants_json():
        print_json(row)
        return DONE
    for title, value in row.items():
        if title not in ("ids", "counts"):
            click.echo(f"{title:<11} {escaped(str(value or '-'))}")
    for priority, count in found.counts.items():
        click.echo(f"{priority:<11} {_contents(found, priority, count)}")
    return DONE


def _contents(found: Topic, priority: str, count: int) -> str:
    if not count:
        return "empty"
    first, end = found.ids.get(priority, (0, 0))
    if end - first == count:
        return f"ids {first} to {end - 1}"
    return f"{count:,} messages in {found.queues} queues"


@topic.command()
@click.argument("name")
@click.argument("body", required=False)
@file_option("-f", "--file", text="One message per line of FILE; - is standard input.")
@_priority
@click.option("--key", metavar="KEY", help="ref_key: business key, for example order-17.")
@click.option("--tags", metavar="TAGS", help="For selectors.")
@click.option("--token", default=_TOKEN, metavar="TOKEN", help=f"Token of the producer. [{_TOKEN}]")
@click.option("--source-ip", metavar="ADDRESS", help="IPv4 or IPv6.")
@click.option("--count", type=click.IntRange(min=1), help="Append BODY this many times. [1]")
@json_option
@store_options
def append(
    store: Store,
    name: str,
    body: str | None,
    file: Path | None,
    priority: str,
    key: str | None,
    tags: str | None,
    token: str,
    source_ip: str | None,
    count: int | None,
) -> int:
    """Append BODY, or the lines of --file or standard input.

    Returns when they are stored.
    """
    if body is not None and file is not None:
        raise click.UsageError("choose one of BODY and --file")
    producer = store.producer(name, token)
    chunks = lines_in(file) if body is None else repeated(os.fsencode(body), count or 1)
    stored = 0
    ids: list[int] = []
    for chunk in chunks:
        ids = producer.append_many(NewMessage(one, priority, key, source_ip, tags) for one in chunk)
        stored += len(ids)
    last = f", the last one has id {ids[-1]}" if ids else ""
    text = f"appended {counted(stored, 'message')} to {name} ({priority}){last}"
    return print_result(text, {"appended": stored, "last_id": ids[-1] if ids else None})


@topic.command()
@click.argument("name")
@click.option(
    "-n",
    "--count",
    default=10,
    type=click.IntRange(1, 100_000),
    help="Maximum number of messages. [10]",
)
@click.option("--token", default=_TOKEN, metavar="TOKEN", help=f"Token of the consumer. [{_TOKEN}]")
@click.option("--group", metavar="GROUP", help="As a member of this group. [single consumer]")
@click.option(
    "--wait", default=0.0, metavar="SECONDS", help="Seconds to wait for the first message. [0]"
)
@click.option(
    "--start",
    default="earliest",
    type=click.Choice(["earliest", "latest"]),
    help="Where a new group starts. [earliest]",
)
@flag("--peek", "Print them without committing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@flag("--lines", "Only the bodies, each followed by a newline.")
@store_options
def read(
    store: Store,
    name: str,
    count: int,
    token: str,
    group: str | None,
    wait: float,
    start: str,
    peek: bool,
    as_json: bool,
    lines: bool,
) -> int:
    """Print and commit messages of NAME, high priority first.

    They are committed after they were printed. With --peek nothing is committed (a
    group gets them again after a second), and no new group is left behind.
    """
    write = printer(as_json=as_json, lines=lines)
    lease = 1.0 if peek else 30.0
    passing = peek and not _has_reader(store, name, token, group)
    if passing:  # under another name: a reader that comes meanwhile must not be forgotten
        token, group = f"headrace-peek-{uuid4().hex}", None
    with store.consumer(name, token, group, start=start, lease=lease) as consumer:
        try:
            batch = consumer.read(count, wait)
            write(batch)
            if not peek:
                consumer.commit(batch)
        finally:
            if passing:
                store.engine.forget_group(name, consumer.reader)
    return DONE


def _has_reader(store: Store, topic: str, token: str, group: str | None) -> bool:
    found = store.groups(topic)
    return any(one.group == group if group else one.token == token for one in found)


@topic.command()
@click.argument("name")
@yes_option
@store_options
def delete(store: Store, name: str, yes: bool) -> int:
    """Delete the topic NAME with all its messages and positions."""
    found = store.describe(name)
    total = sum(found.counts.values())
    confirmed(f"Delete topic {name} with {total:,} messages?", yes)
    store.delete(name)
    click.echo(f"deleted topic {name}")
    return DONE


@topic.command()
@click.argument("name")
@yes_option
@json_option
@store_options
def adopt(store: Store, name: str, yes: bool) -> int:
    """Turn tables of the original layout into the topic NAME.

    In place, and only with --store. The tables msg_p_NAME_low, _middle, _high and msg_c_NAME keep
    their messages, ids and offsets. Stop the programs that use them and make a backup first.
    """
    engine = store.engine
    if not isinstance(engine, MySqlEngine):
        raise CommandFailed(
            "adopting tables needs --store mysql://...; it does not work through a broker"
        )
    confirmed(f"Change the tables of {name} in {engine.settings.place}?", yes)
    counts = {priority.label: count for priority, count in engine.adopt(name).items()}
    readers = [{**fields_of(one), "topic": name} for one in store.groups(name)]
    text = f"adopted topic {name}: {sum(counts.values()):,} messages, {len(readers)} readers"
    row = {**_row(store.describe(name)), **counts, "readers": readers}
    return print_result(text, row)


def _row(found: Topic) -> dict[str, object]:
    return {
        "name": found.name,
        "engine": found.engine,
        **found.counts,
        "queues": found.queues,
        "retention": _retention(found),
    }


def _retention(found: Topic) -> str | None:
    return None if found.retention is None else str(found.retention)
