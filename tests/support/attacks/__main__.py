"""Print the table of attacks as markdown: ``python -m support.attacks [words of names]``.

    PYTHONPATH=src:tests python -m support.attacks --json before.json
    PYTHONPATH=src:tests python -m support.attacks --before before.json

``PYTHONPATH`` also chooses the broker that is attacked: that of another checkout comes first.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from support.attacks import load
from support.attacks.measure import Outcome, measure

HEAD = """\
| attack | loop CPU, s | grown, MiB | round trip p50 / p99 / max, ms | loop CPU in it, p99 ms |{}
|---|---|---|---|---|{}
"""


def row(outcome: Outcome, before: dict[str, float] | None) -> str:
    """One line of the table."""
    if not outcome.lives:
        cells = ["broker ended", "", "", ""]
    else:
        cells = [
            f"{outcome.loop_cpu:.1f}",
            f"{outcome.grown:,.0f}",
            f"{outcome.p50:.1f} / {outcome.p99:,.0f} / {outcome.longest:,.0f}",
            f"{outcome.loop_p99:,.0f}",
        ]
    if before is not None:
        cells.append(
            f"{before['loop_cpu']:.1f} / {before['grown']:,.0f} / {before['loop_p99']:,.0f}"
            if before["lives"]
            else "broker ended"
        )
    return "| " + " | ".join([outcome.name, *cells]) + " |\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="attacks")
    parser.add_argument("words", nargs="*", help="only attacks with one of these in their names")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--before", type=Path, help="figures of another version, as a column")
    chosen = parser.parse_args()
    before = json.loads(chosen.before.read_text()) if chosen.before else None
    extra = (" before: CPU s / MiB / loop CPU p99 ms |", "---|") if before is not None else ("", "")
    sys.stdout.write(HEAD.format(*extra))
    figures: dict[str, dict[str, object]] = {}
    for attack in load():
        if chosen.words and not any(word in attack.name for word in chosen.words):
            continue
        with tempfile.TemporaryDirectory() as directory:
            outcome = measure(attack, Path(directory))
        figures[attack.name] = asdict(outcome)
        old = None if before is None else before.get(attack.name, {"lives": False})
        sys.stdout.write(row(outcome, old))
        if outcome.ended:
            sys.stderr.write(f"{attack.name}: {outcome.ended}\n")
        sys.stdout.flush()
        if chosen.json:
            chosen.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
