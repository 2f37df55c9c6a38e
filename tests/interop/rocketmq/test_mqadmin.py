"""Apache's own tool for administrators, against our broker: it must find what is there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.rocketmq import ConcurrentConsumer, Message
from headrace.testing import wait_for
from support.remoting_broker import Ours
from support.rocketmq.apache import LOGBACK, OLD_VERSION, VERSION, libraries
from support.rocketmq.sdk_scenarios import Collector, Scene

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

Admin = Callable[..., str]


@pytest.fixture
def scene(ours: Ours) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(ours.name_address, stack)


@pytest.fixture(params=[VERSION, OLD_VERSION])
def admin(request: pytest.FixtureRequest, ours: Ours, tmp_path: Path) -> Admin:
    """Runs one command; it signs as an administrator."""
    name, secret = ours.secret()
    (tmp_path / "conf").mkdir()
    keys = f"accessKey: {name}\nsecretKey: {secret}\n"
    (tmp_path / "conf" / "tools.yml").write_text(keys)
    (tmp_path / "conf" / "logback_tools.xml").write_text(LOGBACK)  # that of 4.9 insists
    java = ["java", "-XX:TieredStopAtLevel=1", f"-Drocketmq.home.dir={tmp_path}"]
    java += [f"-Duser.home={tmp_path}", "-cp", libraries(request.param)]
    java += ["org.apache.rocketmq.tools.command.MQAdminStartup"]

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [*java, *arguments, "-n", ours.name_address],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            cwd=tmp_path,
        )
        assert "Exception" not in done.stdout, done.stdout
        return done.stdout

    return run


def test_mqadmin_shows_cluster_topics_and_consumers(
    request: pytest.FixtureRequest, ours: Ours, scene: Scene, admin: Admin
) -> None:
    topic, got = scene.topic(), Collector()
    in_topic = () if "4.9" in request.node.name else ("-t", topic)  # the new one wants it
    producer = scene.producer()
    consumer = scene.consumer(ConcurrentConsumer, topic, got)
    sent = producer.send(Message(topic, b"hello", keys="k1", tags="t"))
    got.wait(1)
    wait_for(lambda: "1" in admin("consumerProgress", "-g", scene.group), 30)

    assert ours.broker_address in admin("clusterList")
    listed = admin("topicList").split()
    assert topic in listed and f"%RETRY%{scene.group}" in listed
    assert ours.broker_address in admin("topicRoute", "-t", topic)
    assert admin("topicStatus", "-t", topic).count("headrace ") == 4
    assert scene.group in admin("consumerProgress")
    assert consumer.client_id in admin("consumerConnection", "-g", scene.group)
    assert producer.client_id in admin("producerConnection", "-g", f"P{scene.group}", "-t", topic)
    assert "k1" in admin("queryMsgById", "-i", sent.offset_msg_id, *in_topic)
    assert sent.msg_id in admin("queryMsgByKey", "-t", topic, "-k", "k1")
    assert "k1" in admin("queryMsgByUniqueKey", "-t", topic, "-i", sent.msg_id)
    state = admin("consumerStatus", "-g", scene.group, "-i", consumer.client_id)
    assert "PROP_NAMESERVER_ADDR" in state and topic in state
    assert "brokerVersionDesc" in admin("brokerStatus", "-b", ours.broker_address)


def test_an_administrator_changes_things(ours: Ours, scene: Scene, admin: Admin) -> None:
    topic, got, broker = f"A{scene.group}", Collector(), ours.broker_address
    assert "success" in admin("updateTopic", "-t", topic, "-b", broker, "-r", "2", "-w", "2")
    consumer = scene.consumer(ConcurrentConsumer, topic, got)
    scene.producer().send(Message(topic, b"once more"))
    got.wait(1)
    admin("resetOffsetByTime", "-g", scene.group, "-t", topic, "-s", "0")
    wait_for(lambda: got.times()["once more"] >= 2, 30)
    consumer.shutdown()
    assert "success" in admin("updateSubGroup", "-g", f"{scene.group}x", "-b", broker, "-r", "3")
    assert "success" in admin("deleteSubGroup", "-g", f"{scene.group}x", "-b", broker)
    assert "success" in admin("deleteTopic", "-t", topic, "-c", "DefaultCluster")
    assert topic not in admin("topicList").split()
