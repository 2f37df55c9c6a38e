"""Where the archive lies when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.main import main


@pytest.mark.parametrize(
    ("variable", "named"), [(None, "headrace-lake"), ("elsewhere", "elsewhere")]
)
def test_a_query_without_a_lake_uses_the_default_directory(
    variable: str | None,
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if variable:
        monkeypatch.setenv("HEADRACE_LAKE", variable)
    else:
        monkeypatch.delenv("HEADRACE_LAKE", raising=False)

    assert main(["sql", "SELECT 1"]) == 1
    assert f"no archive in {named}" in capsys.readouterr().err
