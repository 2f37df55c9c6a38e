"""As a service: systemd is told when the broker is ready; what is in deploy/ fits the broker."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import config
from headrace.server import process
from support.brokers import Broker

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_systemd_is_notified_of_ready_and_stopping(
    tmp_path: Path, start_broker: Callable[..., Broker]
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(20)
        broker = start_broker(env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert listener.recv(100) == b"READY=1"
        assert broker.pid is not None

        os.kill(broker.pid, signal.SIGHUP)  # `systemctl reload`, with no certificate to read again
        with socket.create_connection((broker.host, broker.amqp_port)):
            pass
        broker.stop()
        assert listener.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("nohup", [False, True], ids=["terminal", "nohup"])
def test_the_end_of_the_terminal_is_a_clean_stop(
    start_broker: Callable[..., Broker], nohup: bool
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
    try:
        broker = start_broker()  # it inherits what is ignored
    finally:
        signal.signal(signal.SIGHUP, before)
    assert broker.process is not None

    broker.process.send_signal(signal.SIGHUP)

    if nohup:
        with socket.create_connection((broker.host, broker.amqp_port)):
            broker.stop()
    else:
        assert broker.process.wait(20) == 0
    assert "stopping" in broker.log()


def test_a_supervisor_that_is_gone_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    process.notify_systemd(process.READY)
    assert "cannot notify systemd of READY=1" in caplog.text

    monkeypatch.delenv("NOTIFY_SOCKET")
    assert not process.is_under_systemd()
    process.notify_systemd(process.READY)


def test_an_abstract_socket_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"headrace-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name)
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
        process.notify_systemd(process.STOPPING)
        assert listener.recv(100) == b"STOPPING=1"


def test_the_unit_uses_flags_that_there_are(tmp_path: Path) -> None:
    text = (DEPLOY / "headrace.service").read_text()
    [command] = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    known = {option.flag for option in config.options().values()} | {"--config"}
    assert set(re.findall(r"--[a-z-]+", command)) <= known
    if shutil.which("systemd-analyze") is None:
        return
    program = tmp_path / "headrace"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "headrace.service"
    unit.write_text(text.replace("/opt/headrace/bin/headrace", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=30
    )
    told = [line for line in done.stderr.splitlines() if "headrace.service" in line]
    assert (done.returncode, told) == (0, [])


def test_the_container_listens_where_it_says() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    options = config.options()
    [exposed] = re.findall(r"^EXPOSE (.*)$", text, re.MULTILINE)
    ports = [f"{name}_port" for name in ("amqp", "native", "namesrv", "remoting", "http")]
    assert exposed.split() == [options[name].default_text for name in ports]
    variables = set(re.findall(r"\b(HEADRACE_[A-Z_]+)=", text))
    assert variables == {"HEADRACE_HOST", "HEADRACE_DATA_DIR"}
    assert variables <= {option.env for option in options.values()}
