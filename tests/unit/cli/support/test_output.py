"""Names from elsewhere on a terminal: harmless, on one line, and still told apart."""

from __future__ import annotations

import inspect
import io
import json
import re
import sys
import unicodedata
from importlib import import_module

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.storage.data_directory import backup, compact, fsck, restore
from headrace.cli.support.output import escaped, escaped_body, json_safe, progress_bar

# Control, format, surrogate, line and paragraph separators: Unicode's own names for trouble.
TROUBLE = ("Cc", "Cs", "Zl", "Zp")
ANY = st.text(st.characters(categories=None))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("tab\t", "tab\\t"),
        ("line\r\n", "line\\r\\n"),
        ("back\\slash", "back\\\\slash"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b", "\\x9b"),
        ("\u202eabc", "\\u202eabc"),
        ("中文 <b>", "中文 <b>"),
        ("\udcff", "\\udcff"),
        ("", ""),
    ],
)
def test_examples(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(ANY)
def test_nothing_harmful_is_left(text: str) -> None:
    shown = escaped(text)
    assert not [one for one in shown if unicodedata.category(one) in TROUBLE]
    assert len(shown.splitlines()) <= 1
    shown.encode()


@given(ANY, ANY)
def test_different_names_are_shown_differently(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)


@given(st.binary())
def test_bodies_are_shown_on_one_line(body: bytes) -> None:
    shown = escaped_body(body)
    assert len(shown.splitlines()) <= 1
    assert not [one for one in shown if unicodedata.category(one) in TROUBLE]


@given(st.text())
def test_a_body_of_text_is_shown_like_a_name(text: str) -> None:
    assert escaped_body(text.encode()) == escaped(text)


@given(st.text())
def test_json_says_the_same_after_it_was_made_safe(text: str) -> None:
    safe = json_safe(json.dumps({text: text}, ensure_ascii=False))
    assert json.loads(safe) == {text: text}
    assert not [one for one in safe if unicodedata.category(one) in TROUBLE]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar("checking", "segments") as progress:
            progress(3, 7)
        drawn = stream.getvalue()
        assert ("checking" in drawn and "3/7" in drawn) == stream.isatty()
        assert bool(drawn) == stream.isatty()


@pytest.mark.parametrize(
    "module",
    ["storage.share", "spark.archive", "spark.replay", "spark.report", "spark.sql",
     "messages.export", "messages.publish", "inspect.doctor"],
)  # fmt: skip
def test_commands_that_can_take_long_show_progress(module: str) -> None:
    assert re.search(
        r"progress_bar\(\s*\"", inspect.getsource(import_module(f"headrace.cli.{module}"))
    )


@pytest.mark.parametrize("command", [fsck, compact, backup, restore], ids=lambda one: one.name)
def test_commands_on_data_directories_show_progress(command: click.Command) -> None:
    assert re.search(r"progress_bar\(\s*\"", inspect.getsource(command.callback))
