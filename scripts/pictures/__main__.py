"""Make pictures: diagrams from docs/diagrams, the page under load, the demo in a terminal.

    python -m pictures                      everything, about five minutes
    python -m pictures --only diagrams      one kind: diagrams, screens, terminal
    python -m pictures --screen overview    some screens

Needs Chromium, the built page (make console), and Java for the pipeline in the pictures. All
screens are written to build/pictures; those that README and site show also to docs/pictures.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from headrace import topics
from headrace.demo.broker import DemoBroker
from headrace.testing.broker_process import own_environment
from pictures import diagrams, screens, terminal

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING, COMMITTED = ROOT / "build" / "pictures", ROOT / "docs" / "pictures"
KINDS = ("diagrams", "screens", "terminal")
LIMIT = 3_000_000  # bytes in the repository


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the pictures of README and docs.")
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--screen", choices=screens.SCREENS, action="append", default=[])
    parser.add_argument("--seconds", type=float, default=150, help="of load before the first shot")
    given = parser.parse_args()
    kinds = given.only or (["screens"] if given.screen else KINDS)
    for place in (EVERYTHING, COMMITTED):
        place.mkdir(parents=True, exist_ok=True)
    if "diagrams" in kinds:
        diagrams.render(ROOT / "docs" / "diagrams")
    if "terminal" in kinds:
        terminal.record(COMMITTED)
    if "screens" in kinds:
        take_screens(given.seconds, given.screen)
    size = sum(file.stat().st_size for file in COMMITTED.iterdir())
    print(f"pictures: {size / 1e6:.1f} MB in docs/pictures")
    return 0 if size < LIMIT else 1


def take_screens(seconds: float, names: list[str]) -> None:
    broker = DemoBroker()
    started: list[subprocess.Popen[bytes]] = []
    try:
        with topics.open(broker.native_url) as store:
            for name in ("visits", "page_totals"):
                store.create(name)
        started = [start(command, broker) for command in programs(broker)]
        time.sleep(seconds)
        screens.take(broker.page_url, EVERYTHING, COMMITTED, names)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)
        broker.end()


def programs(broker: DemoBroker) -> list[list[str]]:
    headrace = [sys.executable, "-m", "headrace"]
    file = broker.directory / "revenue.toml"
    file.write_text(PIPELINE)
    return [
        [sys.executable, "-m", "pictures.traffic", broker.url, broker.native_url],
        [*headrace, "pipeline", "run", str(file), "--state-dir", str(broker.directory / "state")],
    ]


PIPELINE = """\
name = "visits-per-page"

[sources.visits]
topic = "visits"
decode = "json"
schema = "page STRING NOT NULL"

[[steps]]
name = "per_page"
sql = '''
SELECT to_json(struct(page, count(*) AS visits)) AS body, page AS key FROM visits GROUP BY page
'''

[sinks.totals]
type = "topic"
topic = "page_totals"
mode = "update"
"""


def start(command: list[str], broker: DemoBroker) -> subprocess.Popen[bytes]:
    here = own_environment()
    here["PYTHONPATH"] += f":{ROOT / 'scripts'}"
    here["HEADRACE_URL"] = broker.native_url
    with (broker.directory / "programs.txt").open("ab") as output:
        return subprocess.Popen(command, env=here, stdout=output, stderr=output)


if __name__ == "__main__":
    sys.exit(main())
