#!/usr/bin/env python
"""Names and texts: one class name for one thing, and none of the words that were replaced.

    scripts/check_names.py

Words are looked for in src/headrace, phrases in what users read: documentation, examples, the
management page, texts and docstrings of commands, settings and the public packages, and errors.
The lists are in names.toml beside this file.
Run by `make check`.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "headrace"
RULES = tomllib.loads((ROOT / "scripts" / "names.toml").read_text("utf-8"))
PHRASES = re.compile(rf"\b(?:{'|'.join(RULES['phrases'])})\b", re.IGNORECASE)
# Of src/headrace; docstrings of the public packages are on the site.
USER_TEXTS = ("cli/", "client/", "config.py", "demo/", "errors.py", "rocketmq/", "server/http/",
              "spark/", "testing/", "topics/", "urls.py")  # fmt: skip
CODE = re.compile(r"`[^`\n]*`")
WORDS = re.compile(rf"\b(?:{'|'.join(RULES['words'])})\b", re.IGNORECASE)


def main() -> int:
    classes: dict[str, list[str]] = defaultdict(list)
    problems: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(where)
        problems += replaced_words(where, text)
        problems += phrases(f"src/headrace/{where}", texts(tree, where.startswith(USER_TEXTS)))
    problems += repeated_classes(classes)
    for path in pages():
        where, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        found = texts(ast.parse(text), True) if path.suffix == ".py" else prose(text)
        problems += phrases(where, found)
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


def pages() -> Iterator[Path]:
    """Documentation with its diagrams, examples, and the sources of the management page."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.mmd")]
    found += [*(ROOT / "examples").rglob("*.py"), *(ROOT / "console" / "src").rglob("*.ts*")]
    yield from sorted(found)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines outside of fenced blocks, without what is quoted as code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, CODE.sub("``", line)


def texts(tree: ast.Module, all_of_them: bool) -> Iterator[tuple[int, str]]:
    """Text of `raise` statements; in modules of commands all text that has several words."""
    roots = [tree] if all_of_them else [n for n in ast.walk(tree) if isinstance(n, ast.Raise)]
    for root in roots:
        for node in ast.walk(root):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.lineno, CODE.sub("``", node.value)


def phrases(where: str, lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    for number, line in lines:
        if found := PHRASES.search(line):
            yield f"{where}:{number}: {found[0]!r}: write plain English, see scripts/names.toml"


def replaced_words(where: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := WORDS.search(line):
            yield f"{where}:{number}: {found[0]!r} was replaced, see docs/glossary.md"


def repeated_classes(classes: Mapping[str, list[str]]) -> Iterator[str]:
    allowed = set(RULES["classes"]["repeated"])
    repeated = {name for name, files in classes.items() if len(files) > 1}
    for name in sorted(repeated - allowed):
        yield f"class {name} stands for several things: {', '.join(classes[name])}"
    for name in sorted(allowed - repeated):
        yield f"class {name} is not repeated any more: remove it from scripts/names.toml"


if __name__ == "__main__":
    sys.exit(main())
