"""`headrace policy`: list, set, clear."""

from __future__ import annotations

import json

import click

from headrace.cli.support.http_api import ManagementClient, http_options, vhost_option
from headrace.cli.support.output import Column, escaped, print_result, show
from headrace.errors import ConfigError

COLUMNS = (
    Column("vhost", "vhost"),
    Column("name", "policy"),
    Column("pattern", "pattern"),
    Column("apply-to", "applies to"),
    Column("priority", "priority", is_number=True),
    Column("definition", "definition"),
)


operator_option = click.option(
    "--operator",
    "kind",
    flag_value="operator-policies",
    default="policies",
    help="Operator policies: limits that policies cannot exceed.",
)


@click.group()
def policy() -> None:
    """List, set and clear policies."""


@policy.command("list")
@operator_option
@http_options
def list_policies(client: ManagementClient, kind: str) -> int:
    """Show the policies of all vhosts."""
    return show(COLUMNS, client.get(kind), nothing="no policies")


@policy.command("set")
@click.argument("name")
@click.argument("pattern")
@click.argument("definition")
@click.option(
    "--priority", default=0, help="If several policies match, the highest priority applies. [0]"
)
@click.option("--apply-to", default="all", help="all, queues or exchanges. [all]")
@operator_option
@vhost_option
@http_options
def set_policy(
    client: ManagementClient,
    name: str,
    pattern: str,
    definition: str,
    priority: int,
    apply_to: str,
    kind: str,
    vhost: str,
) -> int:
    """Apply DEFINITION to names that match PATTERN.

    For example '{"max-length": 1000}'."""
    try:
        settings = json.loads(definition)
    except ValueError as error:
        raise ConfigError(f"the definition is not JSON: {error}") from None
    body = {
        "pattern": pattern,
        "definition": settings,
        "priority": priority,
        "apply-to": apply_to,
    }
    client.request("PUT", (kind, vhost, name), body)
    text = f"policy {escaped(name)} is set in vhost {escaped(vhost)}"
    return print_result(text, {"vhost": vhost, "name": name, **body})


@policy.command()
@click.argument("name")
@operator_option
@vhost_option
@http_options
def clear(client: ManagementClient, name: str, kind: str, vhost: str) -> int:
    """Remove the policy NAME."""
    client.request("DELETE", (kind, vhost, name))
    text = f"cleared policy {escaped(name)} of vhost {escaped(vhost)}"
    return print_result(text, {"vhost": vhost, "name": name})


policy.add_command(set_policy, "add")
policy.add_command(clear, "delete")
