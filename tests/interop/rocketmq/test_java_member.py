"""A group with a member in Java and one of ours: both share the queues in the same way."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headrace.rocketmq import ConcurrentConsumer
from headrace.testing import wait_for
from support.raw_remoting import Site
from support.rocketmq.apache import VERSION, libraries
from support.rocketmq.sdk_scenarios import Collector, Scene, numbered
from support.toolchain import cache_for, compile_program, need

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

HERE = Path(__file__).parent


@contextmanager
def java_member(scene: Scene, topic: str, strategy: str, output: Path) -> Iterator[None]:
    need("java", "javac")
    classpath, source = libraries(VERSION), HERE / "java" / "Member.java"
    target = cache_for(f"rocketmq-member-{VERSION}", source.read_bytes())
    if not (target / "Member.class").exists():
        compile_program(
            ["javac", "-nowarn", "-d", str(target), "-cp", classpath, str(source)], target
        )
    command = ["java", "-XX:TieredStopAtLevel=1", f"-Duser.home={output.parent}"]
    command += ["-cp", f"{target}:{classpath}", "Member"]
    command += [scene.namesrv, scene.group, topic, strategy]
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: "> started" in output.read_text(), 60, 0.05)
        yield
    finally:
        process.kill()
        process.wait()


def said(output: Path) -> list[str]:
    return [line[2:] for line in output.read_text().splitlines() if line.startswith("> m")]


@pytest.mark.parametrize("stage", ["apache", "ours"])
@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"])
def test_a_java_member_and_ours_share_a_topic(
    request: pytest.FixtureRequest, stage: str, strategy: str, tmp_path: Path
) -> None:
    site: Site = request.getfixturevalue(stage)
    output = tmp_path / "java"
    with ExitStack() as stack:
        scene = Scene(site.name_address, stack)
        count = 64 if strategy == "CONSISTENT_HASH" else 8  # shares on a ring are uneven
        topic = scene.topic(count)
        got = Collector()
        mine = scene.consumer(ConcurrentConsumer, topic, got, allocate_queue_strategy=strategy)
        assert len(mine.assigned_queues()) == count + 1
        with java_member(scene, topic, strategy, output):
            wait_for(lambda: len(mine.assigned_queues()) <= count, 30, 0.05)
            producer = scene.producer()
            for one in numbered(topic, 200):
                producer.send(one)
            wait_for(lambda: len(got.bodies()) + len(said(output)) >= 200, 60, 0.05)
            assert sorted(got.bodies() + said(output)) == sorted(f"m{n}" for n in range(200))
            queues = {one.queue_id for one in got.messages}
            assert queues == {one.queue_id for one in mine.assigned_queues() if one.topic == topic}
            assert said(output), "the member in Java has a share"
        wait_for(lambda: len(mine.assigned_queues()) == count + 1, 40, 0.05)
