"""Every file and function named in docs/architecture.md and docs/threads.md exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "headrace"
STEP = re.compile(r"^(?P<name>[\w.]+) +(?P<file>[\w/]+\.py)(?: |$)", re.MULTILINE)
FILE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*\.py)`")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


@cache
def names_in(file: str) -> frozenset[str]:
    """Functions, classes, and methods as `Class.method`."""
    found = set()
    for node in ast.parse((SOURCE / file).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (ast.FunctionDef, ast.AsyncFunctionDef)
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, methods)}
    return frozenset(found)


def inherited(name: str, file: str) -> bool:
    """Whether a class of the file inherits the method from a class of another file."""
    kind, _, method = name.rpartition(".")
    for node in ast.parse((SOURCE / file).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == kind:
            bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
            return any(
                f"{base}.{method}" in names_in(path.relative_to(SOURCE).as_posix())
                for path in SOURCE.rglob("*.py")
                for base in bases
                if f"class {base}" in path.read_text("utf-8")
            )
    return False


STEPS = [(match["name"], match["file"]) for match in STEP.finditer(page("architecture.md"))]
JAVA = ROOT / "spark-jvm" / "src" / "headrace" / "spark"
JAVA_STEPS = re.findall(r"^(\w+)\.(\w+) +spark-jvm, (\w+)\.java", page("architecture.md"), re.M)


def test_the_five_paths_are_described() -> None:
    assert len(STEPS) + len(JAVA_STEPS) >= 35


@pytest.mark.parametrize(("kind", "method", "file"), JAVA_STEPS)
def test_a_step_in_java_names_a_method_that_exists(kind: str, method: str, file: str) -> None:
    text = (JAVA / f"{file}.java").read_text("utf-8")
    assert re.search(rf"\b(class|record|interface) {kind}\b", text)
    assert re.search(rf"\b{method}\(", text)


@pytest.mark.parametrize(("name", "file"), STEPS)
def test_a_step_of_a_path_names_code_that_exists(name: str, file: str) -> None:
    assert (SOURCE / file).is_file()
    assert name in names_in(file) or inherited(name, file)


@pytest.mark.parametrize("file", sorted({*FILE.findall(page("threads.md"))}))
def test_a_module_with_threads_exists(file: str) -> None:
    assert (SOURCE / file).is_file()
