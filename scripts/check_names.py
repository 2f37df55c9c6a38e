#!/usr/bin/env python
"""Names of src/headrace: one class name for one thing, and none of the words that were replaced.

    scripts/check_names.py

The lists are in names.toml beside this file. Run by `make check`.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "headrace"
RULES = tomllib.loads((ROOT / "scripts" / "names.toml").read_text("utf-8"))
WORDS = re.compile(rf"\b(?:{'|'.join(RULES['words'])})\b", re.IGNORECASE)


def main() -> int:
    classes: dict[str, list[str]] = defaultdict(list)
    problems: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(where)
        problems += replaced_words(where, text)
    problems += repeated_classes(classes)
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


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
