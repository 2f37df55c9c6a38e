"""Markdown pages as tests see them: blocks of code with their outputs, headings, links.

A ```python or ```sh block directly followed by an ```output block is run, and what it prints (sh:
also on stderr, as on a terminal) must be that output; `...` in an output stands for anything.
Comments, invisible to readers, steer it:

    <!-- file: NAME -->     the next block is written to that file first
    <!-- setup -->          the next ```sh block is run first
    <!-- serve: FLAGS -->   the page's broker gets these flags (NAME of a file: its path)
    <!-- run -->            the `python FILE ...` lines of the next ```sh block are run one after
                            the other, beside those that were started
    <!-- start -->          its one line is started and goes on in the background until the next
                            section; by then it has printed the ```output block
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
DOCS = ROOT / "docs"
GENERATED = "<!-- Written by scripts/gen_docs.py"

# In tabs of the site (`=== "pika"`) blocks are indented.
_FENCE = re.compile(
    r"^(?: *<!-- (?P<note>[^\n]*?) -->\n)?^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.M | re.S,
)
_SERVE = re.compile(r"^<!-- serve: (.*?) -->$", re.M)
_HEADING = re.compile(r"^(#+) (.+)$", re.M)
_IN_TERMINALS = ("run", "start")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is where its text begins."""

    language: str
    text: str
    note: str
    line: int


@dataclass(frozen=True)
class Example:
    """A program and what it prints."""

    code: str
    output: str
    line: int
    is_shell: bool = False


@dataclass(frozen=True)
class Command:
    """What a reader types into a terminal, and what is seen there."""

    lines: list[list[str]]
    output: str
    stays: bool
    line: int


def all_pages() -> list[Path]:
    return [README, CHINESE, *sorted(DOCS.rglob("*.md"))]


def title(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(
            match["language"],
            textwrap.dedent(match["text"]),
            match["note"] or "",
            text.count("\n", 0, match.start("text")) + 1,
        )
        for match in _FENCE.finditer(text)
    ]


def examples(page: Path) -> Iterator[Example]:
    found = blocks(page)
    for block, following in pairwise(found):
        if block.note in _IN_TERMINALS:
            continue
        if block.language in ("python", "sh") and following.language == "output":
            yield Example(block.text, following.text, block.line, block.language == "sh")


def scenes(page: Path) -> list[list[Command]]:
    """The commands of each section that has some."""
    text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text("utf-8"))
    starts = [text.count("\n", 0, match.start()) for match in _HEADING.finditer(text)]
    by_section: dict[int, list[Command]] = {}
    for block, following in pairwise(blocks(page)):
        if block.note not in _IN_TERMINALS:
            continue
        assert following.language == "output", f"{title(page)}:{block.line}: what does it print?"
        lines = [shlex.split(line) for line in block.text.splitlines()]
        section = sum(start < block.line for start in starts)
        command = Command(lines, following.text, block.note == "start", block.line)
        by_section.setdefault(section, []).append(command)
    return list(by_section.values())


def flags(page: Path) -> list[str]:
    match = _SERVE.search(page.read_text("utf-8"))
    return match[1].split() if match else []


def headings(page: Path) -> list[tuple[int, str]]:
    prose = _FENCE.sub("", page.read_text("utf-8"))
    return [(len(signs), text) for signs, text in _HEADING.findall(prose)]


def links(page: Path) -> list[str]:
    return _LINK.findall(_FENCE.sub("", page.read_text("utf-8")))


def anchor(heading: str) -> str:
    """The fragment by which a heading is linked."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def pattern(output: str) -> re.Pattern[str]:
    return re.compile(re.escape(output.strip()).replace(r"\.\.\.", ".*?"), re.S)
