"""Starting, stopping, forking, worker threads."""

from __future__ import annotations

import os
import sys
from threading import Event, Lock

import pytest

from headrace.rocketmq import (
    ConcurrentConsumer,
    ConfigurationError,
    ConsumerConfig,
    ConsumeResult,
    ForkError,
    Health,
    ListenerError,
    NameServerError,
    Producer,
    ProducerConfig,
    State,
    StateError,
    TransactionConsumer,
    TransactionProducer,
)
from headrace.rocketmq.consuming.runners import ThreadPool
from headrace.rocketmq.metrics import HealthProblems
from headrace.rocketmq.net.lifecycle import Lifecycle
from headrace.testing import wait_for

CONFIG = ConsumerConfig(consumer_group="g", namesrv_addr="127.0.0.1:1", request_timeout=200)


def consumer() -> ConcurrentConsumer:
    made = ConcurrentConsumer(CONFIG)
    made.subscribe("T")
    made.register_message_listener(lambda messages: ConsumeResult.SUCCESS)
    return made


def test_starting_without_a_listener_or_a_subscription() -> None:
    with pytest.raises(StateError, match="register_message_listener"):
        ConcurrentConsumer(CONFIG).start()
    made = ConcurrentConsumer(CONFIG)
    made.register_message_listener(lambda messages: None)
    with pytest.raises(StateError, match="subscribe"):
        made.start()


def test_starting_without_a_name_server_is_an_error_and_can_be_tried_again() -> None:
    made = consumer()
    for _ in range(2):
        with pytest.raises(NameServerError, match=r"127\.0\.0\.1:1"):
            made.start()
    assert made.state is State.CREATED
    producer = Producer(ProducerConfig(producer_group="p", namesrv_addr="127.0.0.1:1"))
    with pytest.raises(NameServerError):
        producer.start()


def test_shutting_down_what_never_ran() -> None:
    made = consumer()
    made.shutdown()
    made.shutdown()
    with pytest.raises(StateError, match="shut down"):
        made.start()
    assert made.health() == Health(State.STOPPED, False, ("the consumer is STOPPED",))


def test_a_producer_that_does_not_run_sends_nothing() -> None:
    producer = Producer(ProducerConfig(producer_group="p", namesrv_addr="127.0.0.1:1"))
    with pytest.raises(StateError, match=r"start\(\)"):
        producer.send_batch([])
    assert not producer.health().ok


def test_what_is_no_configuration() -> None:
    for kind in (ConcurrentConsumer, Producer):
        with pytest.raises(ConfigurationError):
            kind("localhost:9876")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="enable_auto_commit"):
        TransactionConsumer(CONFIG)
    with pytest.raises(ListenerError, match="execute_local_transaction"):
        TransactionProducer(
            ProducerConfig(producer_group="p", namesrv_addr="a:1"),
            object(),  # type: ignore[arg-type]
        )


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_use_in_a_forked_child_raises_an_error(recwarn: pytest.WarningsRecorder) -> None:
    life = Lifecycle("Producer of group 'g'", "rocketmq-g")
    assert life.begin()
    life.state = State.RUNNING
    told = Lifecycle("never started", "rocketmq-g")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                life.check_running()
                text = "no error"
            except ForkError as error:
                text = str(error)
            told.refuse_fork()
            os.write(writing, text.encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    assert "which was forked from it" in text
    assert str(os.getpid()) in text
    life.check_running()


def test_problems_are_logged_once() -> None:
    problems = HealthProblems()
    assert problems.set("a", "first")
    assert not problems.set("a", "again")
    assert problems.texts() == ("again",)
    assert problems.clear("a")
    assert not problems.clear("a")


# -- workers -------------------------------------------------------------------------------------


def test_workers_grow_up_to_the_limit() -> None:
    workers, release, started = ThreadPool("w", 1, 4), Event(), []
    lock = Lock()

    def job() -> None:
        with lock:
            started.append(1)
        release.wait(10)

    for _ in range(10):
        workers.submit(job)
    wait_for(lambda: len(started) == 4)
    assert workers.size == 4
    release.set()
    wait_for(lambda: len(started) == 10)
    assert workers.stop(5)
    workers.submit(lambda: started.append(1))
    assert workers.size == 0


def test_no_job_waits_behind_a_busy_thread_while_more_are_allowed() -> None:
    for _ in range(100):
        workers, release, done = ThreadPool("w", 1, 3), Event(), []
        workers.submit(lambda done=done: done.append(1))  # type: ignore[misc]
        workers.submit(lambda release=release: release.wait(10))  # type: ignore[misc]
        workers.submit(lambda done=done: done.append(2))  # type: ignore[misc]
        wait_for(lambda done=done: len(done) == 2)  # type: ignore[misc]
        release.set()
        assert workers.stop(5)


def test_stopping_forgets_what_has_not_begun() -> None:
    workers, release, started = ThreadPool("w", 1, 1), Event(), []

    def job() -> None:
        started.append(1)
        release.wait(10)

    for _ in range(5):
        workers.submit(job)
    wait_for(lambda: started)
    assert not workers.stop(0.05)
    release.set()
    wait_for(lambda: workers.size == 0)
    assert started == [1]


def test_a_job_that_fails_does_not_end_its_thread(caplog: pytest.LogCaptureFixture) -> None:
    workers, done = ThreadPool("w", 1, 1), Event()
    workers.submit(lambda: sys.exit(1))
    workers.submit(done.set)
    assert done.wait(5)
    assert "a job of w failed" in caplog.text
    assert workers.stop(5)
