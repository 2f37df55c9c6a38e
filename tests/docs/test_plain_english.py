"""The check of names and phrases: its list, and what it looks at."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("check_names", ROOT / "scripts" / "check_names.py")
assert spec is not None and spec.loader is not None
check_names = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_names)


def test_there_are_at_least_forty_phrases() -> None:
    assert len(set(check_names.RULES["phrases"])) >= 40


@pytest.mark.parametrize(
    "sentence",
    [
        "A message that reaches nobody is dropped.",
        "Clients are told and reconnect.",
        "A database that is away does not keep the broker from starting.",
        "Queue X is there.",
        "retention '7x' is none: 7d",
        "copies, checks, space, moving house",
    ],
)
def test_phrases_of_the_old_house_are_found(sentence: str) -> None:
    found = list(check_names.phrases("page.md", check_names.prose(f"# T\n\n{sentence}\n")))
    assert [one.startswith("page.md:3: ") for one in found] == [True]


def test_code_is_not_prose() -> None:
    page = "```text\nnobody\n```\n`nobody` and plain text\n"
    assert list(check_names.phrases("page.md", check_names.prose(page))) == []


def test_errors_and_command_texts_are_looked_at() -> None:
    tree = ast.parse('raise ValueError("nobody is here")\nlog("nobody is there")\n')
    assert [text for _, text in check_names.texts(tree, False)] == ["nobody is here"]
    assert len(list(check_names.texts(tree, True))) == 2


def test_diagrams_examples_changes_and_public_docstrings_are_looked_at() -> None:
    looked_at = {path.relative_to(ROOT).as_posix() for path in check_names.pages()}
    expected = {"CHANGELOG.md", "docs/diagrams/architecture.mmd", "examples/producer.py"}
    assert expected | {"README.md", "README.zh-CN.md", "console/src/app.tsx"} <= looked_at
    assert {"client/", "rocketmq/", "spark/", "testing/", "topics/"} <= {*check_names.USER_TEXTS}
    quoted = ast.parse('"""`None`, or `is none`; nobody."""\n')
    assert [text for _, text in check_names.texts(quoted, True)] == ["``, or ``; nobody."]


def test_page_commands_errors_and_docs_have_none() -> None:
    assert check_names.main() == 0
