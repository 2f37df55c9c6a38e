"""One example for the `--help` of each command. A test parses every line."""

from __future__ import annotations

from copy import copy
from typing import Final

import click

LINES: Final = """\
headrace serve --data-dir /var/lib/headrace --amqp-port 5673
headrace demo --quick
headrace top --sort unacked
headrace doctor --url http://admin@broker.example:15672
headrace explain 406
headrace migrate check definitions.json
headrace publish -q orders --persistent '{"id": 1}'
headrace consume orders --count 10
headrace get orders --requeue
headrace purge orders --yes
headrace export orders orders.parquet --columns offset,body
headrace queue add orders --argument x-max-length:=1000
headrace queue declare orders --argument x-max-length:=1000
headrace queue delete orders --if-empty
headrace queue list --vhost staging
headrace exchange add shop topic
headrace exchange declare shop topic
headrace exchange delete shop --if-unused
headrace exchange list --json
headrace binding add shop orders 'order.*'
headrace binding declare shop orders 'order.*'
headrace binding delete shop orders 'order.*'
headrace binding list --json
headrace topic create visits --retention 7d
headrace topic adopt orders --store mysql://user@127.0.0.1/shop
headrace topic append visits '{"page": "/"}' --priority high
headrace topic delete visits --yes
headrace topic describe visits
headrace topic list --store mysql://user@127.0.0.1/shop
headrace topic read visits --group stats --count 10
headrace group lag visits stats
headrace group delete visits stats --yes
headrace group list visits
headrace group reset visits stats --to earliest
headrace pin list --json
headrace pin delete nightly-report
headrace vhost add staging --description 'before production'
headrace vhost delete staging --yes
headrace vhost list
headrace vhost set staging --description 'before production'
headrace vhost set-limits staging --max-queues 100
headrace user add alice --tags monitoring
headrace user delete alice
headrace user list
headrace user set alice monitoring
headrace user set-limits alice --max-connections 10
headrace user set-password alice --new-password-file secret.txt
headrace user set-secret alice --secret-file secret.txt
headrace user set-tags alice administrator
headrace permission add alice --read '^orders' --write '' --configure ''
headrace permission clear alice --vhost staging
headrace permission delete alice --vhost staging
headrace permission list
headrace permission set alice --read '^orders' --write '' --configure ''
headrace policy add short '^tmp' '{"message-ttl": 60000}'
headrace policy clear short
headrace policy delete short
headrace policy list --operator
headrace policy set short '^tmp' '{"message-ttl": 60000}'
headrace connection list
headrace connection close '127.0.0.1:51838 -> 127.0.0.1:5672' --reason maintenance
headrace connection delete '127.0.0.1:51838 -> 127.0.0.1:5672'
headrace definitions export definitions.json
headrace definitions import definitions.json
headrace pipeline run revenue.toml --once
headrace pipeline list
headrace pipeline validate revenue.toml
headrace archive --lake /data/lake --queue orders --once
headrace sql 'SELECT count(*) FROM messages' --lake /data/lake
headrace replay --queue orders --from 2026-01-31T12:00:00 --into shop
headrace report --lake /data/lake --html report.html
headrace bench amqp://user:secret@127.0.0.1:5672/vhost --case manual-ack
headrace bench client --seconds 1
headrace bench rocketmq --list
headrace bench topics --list
headrace verify /var/lib --rounds 5
headrace fsck /var/lib/headrace
headrace compact /var/lib/headrace
headrace backup /var/lib/headrace /backup/monday
headrace restore /backup/monday /var/lib/headrace
headrace share init mysql://user@db.example/headrace
headrace share adopt /var/lib/headrace mysql://user@db.example/headrace
headrace share export /backup/headrace mysql://user@db.example/headrace
headrace node list mysql://user@db.example/headrace
"""


def of(path: str) -> str | None:
    """The example of a command such as `queue list`; of a group, that of its first command."""
    start = f"headrace {path} "
    return next((line for line in LINES.splitlines() if f"{line} ".startswith(start)), None)


def add(command: click.Command, path: str) -> None:
    """Put the example of a command, and those of its subcommands, into their help."""
    example = of(path)
    if example is not None and "Example:" not in (command.epilog or ""):
        rest = f"\n\n{command.epilog}" if command.epilog else ""
        command.epilog = f"\b\nExample:\n  {example}{rest}"
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            command.commands[name] = copy(one)  # an alias has an example of its own
            add(command.commands[name], f"{path} {name}")
