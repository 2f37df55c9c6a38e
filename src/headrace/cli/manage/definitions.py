"""`headrace definitions`: export and import what is declared, in RabbitMQ's JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from headrace.cli.support.http_api import ManagementClient, http_options
from headrace.cli.support.output import DONE, escaped, print_result
from headrace.errors import CommandFailed, ConfigError

_vhost_option = click.option("--vhost", default=None, help="Only this vhost. [all of them]")


@click.group()
def definitions() -> None:
    """Export and import everything that is declared.

    Vhosts, users, permissions, policies, exchanges, queues and bindings.
    """


@definitions.command("export")
@click.argument("file", type=click.Path(path_type=Path), default="-")
@_vhost_option
@http_options
def export_definitions(client: ManagementClient, file: Path, vhost: str | None) -> int:
    """Write everything declared to FILE, or to standard output. It holds password hashes."""
    path = ("definitions",) if vhost is None else ("definitions", vhost)
    text = json.dumps(client.get(*path), indent=1) + "\n"
    if str(file) == "-":
        click.echo(text, nl=False)
        return DONE
    try:
        # Only the owner may read the hashes, even while they are being written.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as output:
            output.write(text)
    except OSError as error:
        raise CommandFailed(f"cannot write {escaped(str(file))}: {error.strerror}") from error
    return print_result(f"wrote {escaped(str(file))}", {"file": str(file)})


@definitions.command("import")
@click.argument("file", type=click.File("r"))
@_vhost_option
@http_options
def import_definitions(client: ManagementClient, file: click.File, vhost: str | None) -> int:
    """Declare everything in FILE (- is standard input). Existing objects must be equivalent."""
    try:
        data = json.load(file)  # type: ignore[arg-type]
    except (ValueError, UnicodeDecodeError) as error:
        raise ConfigError(f"{escaped(str(file.name))} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{escaped(str(file.name))}: expected a JSON object")
    path = ("definitions",) if vhost is None else ("definitions", vhost)
    client.request("POST", path, data)
    counts = {
        kind: len(entries)
        for kind, entries in data.items()
        if isinstance(entries, list) and entries
    }
    shown = ", ".join(_counted(count, kind) for kind, count in counts.items())
    return print_result(f"imported {shown or 'nothing'}", counts)


def _counted(count: int, kind: str) -> str:
    name = kind.replace("_", " ")
    if count == 1:
        name = name[:-3] + "y" if name.endswith("ies") else name.removesuffix("s")
    return f"{count} {name}"
