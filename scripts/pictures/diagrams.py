"""docs/diagrams/NAME.mmd to NAME-light.svg and NAME-dark.svg, by Mermaid in Chromium.

Mermaid is taken from npm once, into build/mermaid. The SVG files are committed, so that neither
the site nor its readers need Mermaid.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from pictures.screens import chromium

VERSION = "12.3.0"
BUNDLE = Path("build") / "mermaid"
THEMES = {
    "light": {
        "primaryColor": "#d9efed",
        "primaryBorderColor": "#0b6e6a",
        "primaryTextColor": "#17212a",
        "lineColor": "#56646f",
        "secondaryColor": "#deeafa",
        "tertiaryColor": "#f4f6f7",
        "tertiaryBorderColor": "#b9c4ca",
        "noteBkgColor": "#fbeccd",
        "noteTextColor": "#17212a",
        "fontSize": "14px",
    },
    "dark": {
        "darkMode": True,
        "background": "#161e24",
        "primaryColor": "#12393a",
        "primaryBorderColor": "#4cc2bb",
        "primaryTextColor": "#e4eaee",
        "lineColor": "#9aa9b4",
        "secondaryColor": "#1b2f4a",
        "tertiaryColor": "#1e282f",
        "tertiaryBorderColor": "#3b4953",
        "noteBkgColor": "#3a2c0d",
        "noteTextColor": "#e4eaee",
        "fontSize": "14px",
    },
}
RENDER = """async ([source, theme]) => {
  mermaid.initialize({
    startOnLoad: false, theme: "base", themeVariables: theme, securityLevel: "strict",
    deterministicIds: true, fontFamily: "system-ui, sans-serif", htmlLabels: false,
    flowchart: {htmlLabels: false, wrappingWidth: 260}, sequence: {mirrorActors: false},
  });
  return (await mermaid.render("diagram", source)).svg;
}"""


def render(folder: Path) -> None:
    bundle = _bundle()
    with chromium() as browser:
        page = browser.new_page()
        page.set_content("<!doctype html><body></body>")
        page.add_script_tag(path=bundle)
        for source in sorted(folder.glob("*.mmd")):
            for scheme, theme in THEMES.items():
                svg = page.evaluate(RENDER, [source.read_text("utf-8"), theme])
                (folder / f"{source.stem}-{scheme}.svg").write_text(svg + "\n", "utf-8")


def _bundle() -> Path:
    script = BUNDLE / "package" / "dist" / "mermaid.min.js"
    if not script.exists():
        BUNDLE.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", f"mermaid@{VERSION}", "--silent"]
        name = subprocess.run(command, cwd=BUNDLE, check=True, capture_output=True, text=True)
        archive = name.stdout.strip().splitlines()[-1]
        subprocess.run(["tar", "xzf", archive], cwd=BUNDLE, check=True)
    return script
