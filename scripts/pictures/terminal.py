"""What `headrace demo` prints, as a picture of a terminal (SVG by rich)."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from headrace.testing.broker_process import own_environment

LINES = 34


def record(place: Path) -> None:
    """The first and the last lines of a quick run."""
    lines = _on_a_terminal([sys.executable, "-m", "headrace", "demo", "--quick"]).splitlines()
    shown = ["$ headrace demo --quick", *lines[: LINES - 11], "   ...", *lines[-8:]]
    console = Console(record=True, width=88, file=StringIO(), force_terminal=True)
    for line in shown:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="ellipsis")
    svg = console.export_svg(title="headrace demo")
    # rich names a font on another host; the reader's monospaced font will do.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    (place / "demo.svg").write_text(svg, "utf-8")


def _on_a_terminal(command: list[str]) -> str:
    """What a program prints when it has a terminal: colours."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, env=own_environment(), stdout=theirs)
    os.close(theirs)
    printed = b""
    try:
        while chunk := os.read(ours, 65536):
            printed += chunk
    except OSError:  # the other side is closed: Linux says so with EIO
        pass
    finally:
        os.close(ours)
    if process.wait() != 0:
        raise SystemExit(f"pictures: {' '.join(command)} failed:\n{printed.decode()}")
    return printed.decode().replace("\r", "")
