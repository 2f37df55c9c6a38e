"""`headrace serve`: flags, variables and a file become the settings the server is run with."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from headrace.cli.main import main
from headrace.config import Config, options


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """What the server was run with; the server itself is replaced."""
    runs: list[Config] = []

    def run(config: Config) -> int:
        runs.append(config)
        return 0

    server = ModuleType("headrace.server.app")
    server.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, server.__name__, server)
    for name in ("CONFIG", *map(str.upper, options())):
        monkeypatch.delenv(f"HEADRACE_{name}", raising=False)
    return runs


def test_without_flags_the_defaults_are_served(served: list[Config]) -> None:
    assert main(["serve"]) == 0
    assert served == [Config()]


def test_flags_become_settings(served: list[Config]) -> None:
    flags = ["--data-dir", "/srv/mq", "--amqp-port", "0", "--max-message-size", "1MiB"]

    assert main(["serve", *flags]) == 0
    assert served == [Config(data_dir=Path("/srv/mq"), amqp_port=0, max_message_size=2**20)]


def test_a_switch_can_be_turned_off_and_back_on(
    served: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ["--amqps-port", "0", "--tls-cert", __file__, "--tls-key", __file__]
    monkeypatch.setenv("HEADRACE_AMQP", "no")

    assert main(["serve", *tls]) == 0
    assert main(["serve", "--amqp"]) == 0
    assert main(["serve", "--no-amqp", *tls]) == 0
    assert [config.amqp for config in served] == [False, True, False]


@pytest.mark.parametrize("by_flag", [True, False])
def test_the_file_is_named_by_flag_or_variable(
    by_flag: bool, served: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text("heartbeat = 7")
    if not by_flag:
        monkeypatch.setenv("HEADRACE_CONFIG", str(file))

    assert main(["serve", *(["--config", str(file)] if by_flag else [])]) == 0
    assert served == [Config(heartbeat=7)]


def test_a_bad_flag_is_one_line_and_nothing_is_served(
    served: list[Config], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--heartbeat", "soon"]) == 2

    expected = (
        "headrace: --heartbeat: invalid value 'soon': expected a whole number from 0 to 65535\n"
    )
    assert capsys.readouterr().err == expected
    assert served == []


def test_every_setting_but_a_secret_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    main(["serve", "--help"])

    shown = capsys.readouterr().out
    assert [o.name for o in options().values() if f"{o.flag} " not in shown] == ["default_password"]
    assert "default-password" not in shown


def test_what_this_machine_cannot_do_is_printed_before_the_start(
    served: list[Config],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "index.html").write_text("the page")
    monkeypatch.setattr("headrace.server.http.page.DIST", tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/java")
    assert main(["serve"]) == 0
    assert capsys.readouterr().err == ""

    monkeypatch.setattr("headrace.server.http.page.DIST", tmp_path / "missing")
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["serve"]) == 0
    page, java = capsys.readouterr().err.splitlines()
    assert page.startswith("note: no management page: install Node.js")
    assert java.startswith("note: no Java, so no pipelines")
