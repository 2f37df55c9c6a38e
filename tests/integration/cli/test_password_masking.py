"""A password in a URL is not in the list of processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.cli.main import shown
from headrace.testing import wait_for

PLANTED = "planted-4711"


@pytest.mark.parametrize(
    ("word", "hidden"),
    [
        ("--engine=x=mysql://u:p%40w@h:3306/db", "--engine=x=mysql://u:***@h:3306/db"),
        ("headrace://guest:guest@127.0.0.1/", "headrace://guest:***@127.0.0.1/"),
        ("mysql://u:a/b:c@h/db", "mysql://u:***@h/db"),
        ("http://:p@h", "http://:***@h"),
        ("http://user@host:15672", "http://user@host:15672"),
        ("amqp://host:5672/a@b", "amqp://host:***@b"),  # rather too much than too little
        ("no url: at@all", "no url: at@all"),
    ],
)
def test_passwords_in_arguments_are_masked(word: str, hidden: str) -> None:
    assert shown([word]) == [hidden]


@pytest.mark.parametrize("how", [["-m", "headrace"], None])
def test_a_password_disappears_from_the_list_of_processes(how: list[str] | None) -> None:
    program = how or [str(Path(sys.executable).with_name("headrace"))]
    if how is None and not Path(program[0]).exists():
        pytest.skip("headrace is not installed as a command here")
    source = str(Path(headrace.__file__).parents[1])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"headrace://u:{PLANTED}@127.0.0.1:{silent.getsockname()[1]}/"
        process = subprocess.Popen(
            [sys.executable, *program, "consume", "q", "--url", url],
            env={**os.environ, "PYTHONPATH": source},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            peer, _ = silent.accept()  # it understood the address, and waits for an answer
            listed = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            peer.close()
            wait_for(lambda: process.poll() is not None, timeout=30)
        finally:
            process.kill()
            _, error = process.communicate()

    assert b"u:***@127.0.0.1" in listed
    assert PLANTED.encode() not in listed
    assert "127.0.0.1" in error and PLANTED not in error
