"""The command-line tools of librabbitmq (amqp-publish and friends), where they are installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from support.endpoint import Address, Names

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(60),
    pytest.mark.skipif(shutil.which("amqp-publish") is None, reason="amqp-tools not installed"),
]


def tool(name: str, address: Address, *arguments: str, stdin: str = "") -> str:
    server = [f"--server={address.host}", f"--port={address.port}"]
    command = [f"amqp-{name}", *server, "--username=guest", "--password=guest", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


def test_a_message_is_published_and_fetched(amqp_address: Address, names: Names) -> None:
    queue = names.queue()

    assert tool("declare-queue", amqp_address, f"--queue={queue}") == queue
    tool("publish", amqp_address, f"--routing-key={queue}", "--body=hello", "--persistent")
    assert tool("get", amqp_address, f"--queue={queue}") == "hello"
    assert tool("delete-queue", amqp_address, f"--queue={queue}") == "0"


def test_each_input_line_is_consumed_by_a_command(amqp_address: Address, names: Names) -> None:
    queue = names.queue()
    tool("declare-queue", amqp_address, f"--queue={queue}")
    lines = "one\ntwo\nthree\n"
    tool("publish", amqp_address, f"--routing-key={queue}", "--line-buffered", stdin=lines)

    eaten = tool(
        "consume", amqp_address, f"--queue={queue}", "--count=3", "--prefetch-count=1", "cat"
    )

    assert eaten.split() == ["one", "two", "three"]
