"""`headrace report`, killed in the middle: it leaves nothing that is in the way of the next."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.client import ConnectionFactory
from headrace.testing import RunningBroker, run_broker, wait_for
from support.spark_lab.processes import java_of

SECONDS = 240.0
COUNT = 300


def report(broker: RunningBroker, place: Path) -> subprocess.Popen[str]:
    source = str(Path(__file__).parents[2] / "src")
    url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
    command = [sys.executable, "-m", "headrace", "report", "--url", url, "--json",
               "--html", str(place / "page.html"), "--keep-as", "daily",
               "--http-url", str(broker.http_url), "--master", "local[2]",
               "--state-dir", str(place / "state")]  # fmt: skip
    return subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_a_little(process: subprocess.Popen[str], seconds: float) -> None:
    """A random moment of its work comes."""
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(seconds)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_report_that_was_killed_is_made_by_the_next_run(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("CHAOS_SEED", "2")))
    with run_broker(events=True) as broker:
        assert broker.native_port is not None
        with ConnectionFactory("127.0.0.1", broker.native_port).new_connection() as connection:
            channel = connection.create_channel()
            channel.queue_declare("work", durable=True)
            channel.publish_batch(
                ("", "work", {"delivery_mode": 2}, b"%d" % n) for n in range(COUNT)
            )
        for longest in (0.5, 5.0, 9.0):  # while Java starts, then while it reads
            with report(broker, tmp_path) as process:
                wait_for(lambda process=process: java_of(process.pid), SECONDS)  # type: ignore[misc]
                wait_a_little(process, chance.uniform(0, longest))
                os.killpg(process.pid, signal.SIGKILL)
        with report(broker, tmp_path) as process:
            out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, err

    volume = json.loads(out)["tables"]["Throughput"]
    assert [row["messages"] for row in volume if "work" in row.values()] == [COUNT]
    assert (tmp_path / "page.html").read_text("utf-8").rstrip().endswith("</html>")
    assert "kept as daily" in err
