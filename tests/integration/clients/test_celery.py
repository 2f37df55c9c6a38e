"""Celery with a real worker process: results over rpc://, retries, control and events."""

from __future__ import annotations

import importlib.util
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import celery
import kombu.pools
import pika
import pytest
from celery.exceptions import TaskRevokedError
from celery.result import AsyncResult
from pika.adapters.blocking_connection import BlockingChannel

from headrace.testing import wait_for
from support.celery_worker import CeleryWorker
from support.endpoint import Address

pytestmark = pytest.mark.timeout(60)
LIMIT = 15
StartWorker = Callable[[str], CeleryWorker]


@pytest.fixture(scope="module")
def start_worker(
    amqp_address: Address, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartWorker]:
    prefix = f"t.{uuid.uuid4().hex[:10]}.celery"
    directory = tmp_path_factory.mktemp("celery")
    workers: list[CeleryWorker] = []

    def start(node: str) -> CeleryWorker:
        workers.append(CeleryWorker(directory, amqp_address.url, prefix, node))
        wait_for(workers[-1].is_ready, timeout=LIMIT)
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()
    _delete_topology(amqp_address, prefix)


@pytest.fixture(scope="module")
def worker(start_worker: StartWorker) -> CeleryWorker:
    return start_worker("main")


@pytest.fixture(scope="module")
def tasks(worker: CeleryWorker, amqp_address: Address) -> Iterator[ModuleType]:
    """The worker's module, loaded here as the client."""
    path = worker.log.parent / "tasks.py"
    spec = importlib.util.spec_from_file_location("tasks", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TASK_BROKER", amqp_address.url)
        # Celery names tasks after sys.modules; without this they would not match the worker's
        patch.setitem(sys.modules, "tasks", module)
        spec.loader.exec_module(module)
        yield module
    # Celery leaves its connections to the end of the process; the broker would wait for them
    module.app.backend.result_consumer.stop()
    module.app.close()
    kombu.pools.reset()


@pytest.fixture
def held_worker(tasks: ModuleType, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """The worker is busy until the returned function is called."""
    path = tmp_path / "hold"
    result = tasks.hold.delay(str(path))
    wait_for((tmp_path / "hold.started").exists, timeout=LIMIT)
    release = (tmp_path / "hold.gate").touch
    yield release
    release()
    result.get(timeout=LIMIT)


def test_a_task_returns_its_result(tasks: ModuleType) -> None:
    assert tasks.add.delay(2, 3).get(timeout=LIMIT) == 5


def test_many_results_reach_their_own_callers(tasks: ModuleType) -> None:
    results = [tasks.add.delay(number, number) for number in range(30)]

    assert [result.get(timeout=LIMIT) for result in results] == [2 * n for n in range(30)]


def test_a_failing_task_raises_at_the_caller(tasks: ModuleType) -> None:
    result: AsyncResult = tasks.fail.delay()

    with pytest.raises(ValueError, match="on purpose"):
        result.get(timeout=LIMIT)
    assert result.failed()


def test_a_task_is_retried_with_a_countdown(tasks: ModuleType, tmp_path: Path) -> None:
    assert tasks.flaky.delay(str(tmp_path / "tries")).get(timeout=LIMIT) == 2


def test_an_eta_delays_a_task(tasks: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "order"
    eta = datetime.now(UTC) + timedelta(seconds=1)
    later = tasks.note.apply_async((str(path), "later"), eta=eta)
    tasks.note.delay(str(path), "now").get(timeout=LIMIT)
    later.get(timeout=LIMIT)

    assert path.read_text().split() == ["now", "later"]


def test_chains_and_groups_combine_results(tasks: ModuleType) -> None:
    chain = celery.chain(tasks.add.s(1, 2), tasks.add.s(10), tasks.add.s(100))
    group = celery.group(tasks.add.s(number, 1) for number in range(5))

    assert chain.delay().get(timeout=LIMIT) == 113
    assert group.delay().get(timeout=LIMIT) == [1, 2, 3, 4, 5]


def test_a_routed_task_travels_through_its_own_queue(tasks: ModuleType) -> None:
    assert tasks.elsewhere.delay().get(timeout=LIMIT).endswith(".other")


def test_waiting_tasks_run_by_priority(
    tasks: ModuleType, worker: CeleryWorker, channel: BlockingChannel, tmp_path: Path
) -> None:
    path, queue = tmp_path / "order", f"{tasks.app.conf.task_default_queue}.ranked"
    results = [
        tasks.note.apply_async((str(path), str(rank)), priority=rank, queue=queue)
        for rank in (1, 9, 5)
    ]
    wait_for(lambda: channel.queue_declare(queue, passive=True).method.message_count == 3)
    tasks.app.control.add_consumer(queue, destination=[worker.node])
    for result in results:
        result.get(timeout=LIMIT)

    assert path.read_text().split() == ["9", "5", "1"]


def test_an_expired_task_is_not_run(
    tasks: ModuleType, held_worker: Callable[[], None], tmp_path: Path
) -> None:
    path = tmp_path / "never"
    expired = datetime.now(UTC) - timedelta(seconds=1)
    tasks.note.apply_async((str(path), "never"), expires=expired)
    held_worker()
    tasks.add.delay(1, 1).get(timeout=LIMIT)

    assert not path.exists()


def test_ping_stats_and_registered_tasks_answer(tasks: ModuleType, worker: CeleryWorker) -> None:
    inspect = tasks.app.control.inspect(timeout=5, limit=1)

    assert inspect.ping() == {worker.node: {"ok": "pong"}}
    assert "tasks.add" in inspect.registered()[worker.node]
    assert inspect.stats()[worker.node]["broker"]["transport"] == "amqp"
    assert {queue["name"] for queue in inspect.active_queues()[worker.node]} >= {
        tasks.app.conf.task_default_queue
    }


def test_a_broadcast_control_command_changes_the_worker(
    tasks: ModuleType, worker: CeleryWorker
) -> None:
    control = tasks.app.control
    replies = control.rate_limit("tasks.fail", "1000/s", reply=True, timeout=5, limit=1)

    assert replies == [{worker.node: {"ok": "new rate limit set successfully"}}]


def test_a_worker_can_add_another_queue(tasks: ModuleType, worker: CeleryWorker) -> None:
    queue = f"{tasks.app.conf.task_default_queue}.added"
    control = tasks.app.control
    control.add_consumer(queue, reply=True, timeout=5, limit=1, destination=[worker.node])

    assert tasks.add.apply_async((1, 1), queue=queue).get(timeout=LIMIT) == 2
    control.cancel_consumer(queue, reply=True, timeout=5, limit=1, destination=[worker.node])


def test_a_revoked_task_is_not_run(tasks: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "never"
    result = tasks.note.apply_async((str(path), "never"), countdown=1)
    tasks.app.control.revoke(result.id, reply=True, timeout=5, limit=1)

    with pytest.raises(TaskRevokedError):
        result.get(timeout=LIMIT)
    assert not path.exists()


def test_task_events_are_published(tasks: ModuleType) -> None:
    seen: list[str] = []

    def capture() -> None:
        with tasks.app.connection() as connection:
            receiver = tasks.app.events.Receiver(
                connection, handlers={"*": lambda event: seen.append(event["type"])}
            )
            for _ in receiver.itercapture(timeout=LIMIT, wakeup=False):
                if "task-succeeded" in seen:
                    return

    thread = threading.Thread(target=capture)
    thread.start()
    while "task-succeeded" not in seen and thread.is_alive():
        tasks.add.delay(1, 1).get(timeout=LIMIT)
    thread.join(LIMIT)

    assert {"task-received", "task-started", "task-succeeded"} <= set(seen)


def test_a_late_acked_task_survives_the_kill_of_its_worker(
    tasks: ModuleType, worker: CeleryWorker, start_worker: StartWorker, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    victim = start_worker("victim")
    tasks.app.control.cancel_consumer(
        tasks.app.conf.task_default_queue,
        reply=True, timeout=5, limit=1, destination=[worker.node],
    )  # fmt: skip
    result = tasks.die_once.delay(str(path))
    wait_for(path.exists, timeout=LIMIT)
    assert int(path.read_text()) == victim.process.pid

    victim.kill()
    tasks.app.control.add_consumer(
        tasks.app.conf.task_default_queue,
        reply=True, timeout=5, limit=1, destination=[worker.node],
    )  # fmt: skip

    assert result.get(timeout=LIMIT) == "second"


def _delete_topology(address: Address, prefix: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(address.url)) as connection:
        channel = connection.channel()
        for queue in (prefix, f"{prefix}.other", f"{prefix}.added", f"{prefix}.ranked"):
            channel.queue_delete(queue)
        for suffix in ("", ".other", ".added", ".ranked", ".ev", ".pidbox"):
            channel.exchange_delete(f"{prefix}{suffix}")
        channel.exchange_delete(f"reply.{prefix}.pidbox")
