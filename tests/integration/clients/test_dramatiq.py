"""dramatiq on its RabbitmqBroker: actors, retries through delay queues, and dead letters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import dramatiq
import pika
import pytest
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.common import dq_name, xq_name
from dramatiq.middleware import AgeLimit, Retries
from pika.adapters.blocking_connection import BlockingChannel

from headrace.testing import wait_for
from support.endpoint import Address, Names

pytestmark = pytest.mark.timeout(30)
StartWorker = Callable[..., dramatiq.Worker]


@pytest.fixture
def task_queue(names: Names) -> str:
    """A queue name whose delay and dead-letter companions are deleted with it."""
    queue = names.queue()
    names.queues += [dq_name(queue), xq_name(queue)]
    return queue


@pytest.fixture
def broker_client(amqp_address: Address, task_queue: str) -> Iterator[RabbitmqBroker]:
    # asks for the queue's name only so that the queue outlives the workers
    client = RabbitmqBroker(
        url=amqp_address.url,
        confirm_delivery=True,
        max_priority=10,
        middleware=[AgeLimit(), Retries(min_backoff=50, max_backoff=100)],
    )
    yield client
    client.close()


@pytest.fixture
def start_worker(broker_client: RabbitmqBroker) -> Iterator[StartWorker]:
    workers: list[dramatiq.Worker] = []

    def start(threads: int = 2) -> dramatiq.Worker:
        workers.append(dramatiq.Worker(broker_client, worker_timeout=100, worker_threads=threads))
        workers[-1].start()
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()


def test_an_actor_processes_what_was_sent(
    broker_client: RabbitmqBroker, start_worker: StartWorker, task_queue: str
) -> None:
    seen: list[int] = []

    @dramatiq.actor(broker=broker_client, queue_name=task_queue)
    def collect(number: int) -> None:
        seen.append(number)

    start_worker()
    for number in range(20):
        collect.send(number)
    broker_client.join(task_queue, timeout=10_000)

    assert wait_for(lambda: sorted(seen) == list(range(20)))


def test_a_failing_actor_is_retried_through_the_delay_queue(
    broker_client: RabbitmqBroker, start_worker: StartWorker, task_queue: str
) -> None:
    attempts: list[int] = []

    @dramatiq.actor(broker=broker_client, queue_name=task_queue, max_retries=3)
    def flaky() -> None:
        attempts.append(len(attempts))
        if len(attempts) < 3:
            raise ValueError("not yet")

    start_worker()
    flaky.send()

    wait_for(lambda: len(attempts) == 3)
    broker_client.join(task_queue, timeout=10_000)
    assert broker_client.get_queue_message_counts(task_queue) == (0, 0, 0)


def test_an_actor_out_of_retries_ends_in_the_dead_letter_queue(
    broker_client: RabbitmqBroker,
    start_worker: StartWorker,
    task_queue: str,
    channel: BlockingChannel,
) -> None:
    @dramatiq.actor(broker=broker_client, queue_name=task_queue, max_retries=1)
    def hopeless() -> None:
        raise ValueError("never")

    start_worker()
    message = hopeless.send()

    dead = xq_name(task_queue)
    _, properties, body = wait_for(lambda: _got(channel, dead))
    assert dramatiq.Message.decode(body).actor_name == message.actor_name
    assert properties.headers["x-death"][0]["reason"] == "rejected"


def test_a_delayed_message_waits_for_its_time(
    broker_client: RabbitmqBroker, start_worker: StartWorker, task_queue: str
) -> None:
    order: list[str] = []

    @dramatiq.actor(broker=broker_client, queue_name=task_queue)
    def note(word: str) -> None:
        order.append(word)

    start_worker(threads=1)
    note.send_with_options(args=("later",), delay=600)
    note.send("now")

    wait_for(lambda: len(order) == 2)
    assert order == ["now", "later"]


def test_waiting_messages_are_taken_by_broker_priority(
    broker_client: RabbitmqBroker, start_worker: StartWorker, task_queue: str
) -> None:
    order: list[int] = []
    gate = threading.Event()

    @dramatiq.actor(broker=broker_client, queue_name=task_queue)
    def note(priority: int) -> None:
        gate.wait(10)
        order.append(priority)

    for priority in (1, 9, 5):
        note.send_with_options(args=(priority,), broker_priority=priority)
    start_worker(threads=1)
    gate.set()

    wait_for(lambda: len(order) == 3)
    assert order == [9, 5, 1]


def test_a_message_to_a_deleted_queue_recreates_the_queue(
    broker_client: RabbitmqBroker, task_queue: str, channel: BlockingChannel
) -> None:
    @dramatiq.actor(broker=broker_client, queue_name=task_queue)
    def idle() -> None: ...

    idle.send()
    channel.queue_delete(task_queue)
    idle.send()

    assert channel.queue_declare(task_queue, passive=True).method.message_count == 1


def test_flush_empties_all_three_queues(broker_client: RabbitmqBroker, task_queue: str) -> None:
    @dramatiq.actor(broker=broker_client, queue_name=task_queue)
    def idle() -> None: ...

    idle.send()
    idle.send_with_options(delay=60_000)
    before = broker_client.get_queue_message_counts(task_queue)
    broker_client.flush(task_queue)

    assert before == (1, 1, 0)
    assert broker_client.get_queue_message_counts(task_queue) == (0, 0, 0)


def _got(channel: BlockingChannel, queue: str) -> tuple | None:
    """The next message of a queue that may not exist yet."""
    try:
        delivery = channel.connection.channel().basic_get(queue, auto_ack=True)
    except pika.exceptions.ChannelClosedByBroker:
        return None
    return delivery if delivery[0] else None
