"""Hooks of mkdocs.yml: navigation from docs/index.md, pictures for light and dark, tabs of clients.

The list items of docs/index.md that begin with a link are the navigation: `##` headings are its
tabs, `###` headings their sections. A page that the index does not link stops the build.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_LINE = re.compile(r"^(?P<signs>##+) (?P<heading>.+)$|^ *- \[(?P<title>[^]]+)\]\((?P<path>[^)]+)\)")
_FENCED = r"```python\n.*?^```\n"
_TWINS = re.compile(
    rf"^<!-- file: (?P<name>\w+)\.py -->\n(?P<native>{_FENCED})\n"
    rf"<!-- file: pika_(?P=name)\.py -->\n(?P<pika>{_FENCED})",
    re.DOTALL | re.MULTILINE,
)
_PICTURE = re.compile(r"!\[(?P<text>[^]]*)\]\((?P<path>[^)]+)-light\.(?P<kind>svg|png)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    docs = Path(config.docs_dir)
    config.nav = navigation((docs / "index.md").read_text("utf-8"))
    listed = set(_paths(config.nav))
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    if missing := sorted(pages - listed):
        raise PluginError(
            f"docs/index.md does not link {', '.join(missing)}: add a list item "
            "`- [Title](page.md): what it is about` to the section where readers will look for it"
        )
    _check_pictures(docs)
    return config


def navigation(index: str) -> list[Any]:
    """What mkdocs expects as `nav`: titles with paths, or with lists of the same."""
    nav: list[Any] = [{"Home": "index.md"}]
    here: list[Any] = nav
    tab: list[Any] = nav
    for line in index.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        if match["heading"]:
            here = []
            if match["signs"] == "##":
                tab = here
                nav.append({match["heading"]: tab})
            else:
                tab.append({match["heading"]: here})
        elif not match["path"].startswith("http"):
            here.append({match["title"]: match["path"]})
    return nav


def _paths(nav: list[Any]) -> list[str]:
    found: list[str] = []
    for item in nav:
        for value in item.values():
            found += [value] if isinstance(value, str) else _paths(value)
    return found


def _check_pictures(docs: Path) -> None:
    """Every picture is used: by a page, the README, or as the dark twin of one that is."""
    root = docs.parent
    text = "".join(page.read_text("utf-8") for page in (*docs.rglob("*.md"), *root.glob("*.md")))
    unused = [
        picture.relative_to(root).as_posix()
        for folder in ("pictures", "diagrams")
        for picture in sorted((docs / folder).glob("*.[sp][vn]g"))
        if picture.name not in text and picture.name.replace("-dark.", "-light.") not in text
    ]
    if unused:
        raise PluginError(f"no page shows {', '.join(unused)}: use them or delete them")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """`![text](x-light.png)` shows x-dark.png where the page is dark; twins become tabs."""
    markdown = _PICTURE.sub(
        r"![\g<text>](\g<path>-light.\g<kind>#only-light)"
        r"![\g<text>](\g<path>-dark.\g<kind>#only-dark)",
        markdown,
    )
    return _TWINS.sub(_tabs, markdown)


def _tabs(twins: re.Match[str]) -> str:
    """A program with the native client, and the same with pika, as two tabs."""
    programs = (("headrace.client", twins["native"]), ("pika", twins["pika"]))
    return "".join(f'=== "{client}"\n\n{indent(code, "    ")}\n' for client, code in programs)
