"""A shared broker on MySQL Group Replication: the primary and active nodes die under load."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace.testing import wait_for
from support.mysql_server import is_primary, run_group
from support.nodes import nodes
from support.shared_ledger import SharedLedger

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),
    # What clients leave behind when their connection ends is no verdict.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


def test_nothing_confirmed_is_lost_on_a_group(tmp_path: Path) -> None:
    """With a list of hosts and no router; the group elects its next primary in about 20 s."""
    with run_group() as group:
        group.nodes[0].create_database("shared")
        url = group.url("shared", timeout=10, connect_timeout=50)
        with nodes(tmp_path, url, "abc", lease=5) as shared:
            for node in shared.all:
                node.start()
            shared.active()
            ledger = SharedLedger(shared)
            with ledger.load():
                for accident in ("active node", "primary", "active node"):
                    time.sleep(5)
                    ledger.take_longest_gap()
                    before = len(ledger.confirmed)
                    if accident == "primary":
                        group.nodes[0].kill()
                        wait_for(lambda: any(map(is_primary, group.nodes[1:])), timeout=120)
                    else:
                        node = shared.active()
                        node.kill()
                    wait_for(
                        lambda before=before: len(ledger.confirmed) > before + 500,  # type: ignore[misc]
                        timeout=120,
                    )
                    for one in shared.all:
                        if one.process is None or one.process.poll() is not None:
                            one.start()
                    print(accident, round(ledger.take_longest_gap(), 1), "s")  # noqa: T201
            shared.active()
            ledger.drain()
            print(len(ledger.confirmed), "confirmed")  # noqa: T201
            assert (ledger.lost(), ledger.ghosts()) == (set(), set())
            assert len(ledger.unflagged()) <= 3  # one of each node that was replaced
