"""What the management side costs: long lists, open pages, password guessers. Not collected.

PYTHONPATH=src:tests python tests/bench/management.py [lists|pages|guessing] [seconds]
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import pika

from headrace.bench import processes
from headrace.model.passwords import PasswordHash
from headrace.server.app import Server
from headrace.testing import run_broker
from support import brokers
from support.password_guesser import guess_amqp, guess_http

QUEUES = 10_000
ROUNDS = 15
SESSIONS = 10
GUESSES_PER_SECOND = 1000
VICTIMS = 20


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextmanager
def started() -> Iterator[brokers.Broker]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        broker = brokers.start(Path(directory))
        try:
            yield broker
        finally:
            broker.stop()


def client_of(broker: brokers.Broker) -> httpx.Client:
    url = f"http://127.0.0.1:{broker.ports['http']}"
    return httpx.Client(base_url=url, auth=("guest", "guest"), timeout=60)


def declare(client: httpx.Client, queues: int) -> None:
    """Queues bound to a hundred exchanges, some with messages."""
    exchanges = [
        {"name": f"x-{number}", "vhost": "/", "type": "direct", "durable": True}
        for number in range(100)
    ]
    names = [f"queue-{number:05}" for number in range(queues)]
    body = {
        "exchanges": exchanges,
        "queues": [{"name": name, "vhost": "/", "durable": True} for name in names],
        "bindings": [
            {"source": f"x-{index % 100}", "vhost": "/", "destination": name,
             "destination_type": "queue", "routing_key": name, "arguments": {}}
            for index, name in enumerate(names)
        ],
    }  # fmt: skip
    client.post("/api/definitions", json=body).raise_for_status()


# -- long lists ----------------------------------------------------------------------------------

LISTS = [
    "/api/queues?page=1&page_size=100",
    "/api/queues?page=50&page_size=100&sort=messages&sort_reverse=true",
    "/api/queues?page=1&page_size=100&name=99&use_regex=true",
    "/api/queues?columns=name,messages",
    "/api/queues",
    "/api/queues/%2F",
    "/api/bindings?page=1&page_size=100",
    "/api/bindings",
    "/api/exchanges",
    "/api/vhosts",
    "/api/overview",
    "/api/definitions",
    "/metrics",
    "/metrics/per-object",
]


def lists(_: float) -> None:
    with started() as broker, client_of(broker) as client:
        declare(client, QUEUES)
        say(f"{QUEUES} queues, {sys.version.split()[0]}; {ROUNDS} requests each")
        say(f"{'path':<68} {'median ms':>10} {'worst ms':>9} {'broker ms':>10} {'MiB':>6}")
        assert broker.pid is not None
        for path in LISTS:
            taken, size, before = [], 0, processes.cpu_seconds([broker.pid])
            for _ in range(ROUNDS):
                began = time.perf_counter()
                answer = client.get(path)
                taken.append((time.perf_counter() - began) * 1000)
                size = len(answer.content)
                answer.raise_for_status()
            busy = (processes.cpu_seconds([broker.pid]) - before) * 1000 / ROUNDS
            say(
                f"{path:<68} {statistics.median(taken):>10.1f} {max(taken):>9.1f} "
                f"{busy:>10.1f} {size / 2**20:>6.2f}"
            )


# -- pages ---------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """One request of the page."""

    at: float
    path: str


WALK = [
    ("", 12.0), ("queues", 8.0), ("queues/%2F/queue-00007", 8.0), ("exchanges", 4.0),
    ("exchanges/%2F/x-7", 4.0), ("connections", 6.0), ("channels", 4.0), ("deadletters", 4.0),
    ("topics", 4.0), ("groups", 4.0), ("users", 2.0),
]  # fmt: skip


def record(url: str) -> list[Asked]:
    """A person who walks through the pages, as a browser asks for it."""
    from support import console_page

    asked: list[Asked] = []
    with console_page.browser() as browser:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        console = console_page.Console(page, url)
        console.watch()
        console.login()
        began = time.monotonic()

        def note(request: Any) -> None:  # noqa: ANN401 - a type of playwright's
            parts = urlsplit(request.url)
            if request.method == "GET" and parts.path.startswith(("/api/", "/metrics")):
                path = parts.path + (f"?{parts.query}" if parts.query else "")
                asked.append(Asked(time.monotonic() - began, path))

        page.on("request", note)
        for where, seconds in WALK:
            page.goto(f"{url}#/{where}")
            page.wait_for_timeout(seconds * 1000)
    return asked


async def replay(url: str, asked: list[Asked], begins_at: float, seconds: float) -> int:
    """One session: the same requests at the same times, from somewhere in the walk on."""
    length = sum(seconds for _, seconds in WALK)
    done = 0
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        login = {"username": "guest", "password": "guest"}
        (await client.post("api/login", json=login)).raise_for_status()
        began = time.monotonic() - begins_at
        for round_ in itertools.count():
            for one in asked:
                due = began + round_ * length + one.at
                if due < began + begins_at:
                    continue
                if due > began + begins_at + seconds:
                    return done
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                (await client.get(one.path)).raise_for_status()
                done += 1
    return done


def pages(seconds: float) -> None:
    for queues in (400, QUEUES):
        with started() as broker, client_of(broker) as client:
            declare(client, queues)
            url = f"http://127.0.0.1:{broker.ports['http']}/"
            busy = pika.BlockingConnection(pika.URLParameters(broker.url))
            channel = busy.channel()
            for number in range(1000):
                channel.basic_publish("", f"queue-{number % queues:05}", b"x" * 100)
            asked = record(url)
            assert broker.pid is not None

            def cost(work: Callable[[], object], pid: int = broker.pid) -> float:
                began, before = time.monotonic(), processes.cpu_seconds([pid])
                work()
                return (processes.cpu_seconds([pid]) - before) / (time.monotonic() - began)

            def replayed(url: str = url, asked: list[Asked] = asked) -> None:
                length = sum(one for _, one in WALK)

                async def all_of_them() -> list[int]:
                    work = (replay(url, asked, length * index / SESSIONS, seconds)
                            for index in range(SESSIONS))  # fmt: skip
                    return await asyncio.gather(*work)

                counts = asyncio.run(all_of_them())
                say(f"  {sum(counts)} requests in {seconds:.0f} s")

            idle = cost(lambda: time.sleep(min(seconds, 20.0)))
            say(f"{queues} queues; the walk has {len(asked)} requests")
            with_pages = cost(replayed)
            busy.close()
            say(f"  broker: {with_pages:.2%} of one core with {SESSIONS} pages, {idle:.2%} without")


# -- guessing ------------------------------------------------------------------------------------


class Guesses(NamedTuple):
    """What became of them."""

    outcomes: Counter[str]
    seconds: float


async def _guess(
    one: Callable[[int, str, str, int], Awaitable[str]], port: int, sources: list[str], until: float
) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    running: set[asyncio.Task[None]] = set()

    async def attempt(number: int) -> None:
        user = f"victim-{number % VICTIMS}"
        try:
            outcomes[await one(port, sources[number % len(sources)], user, number)] += 1
        except OSError as error:
            outcomes[type(error).__name__] += 1

    began = time.monotonic()
    for number in itertools.count():
        due = began + number / GUESSES_PER_SECOND
        if due > until:
            break
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        task = asyncio.create_task(attempt(number))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    outcomes["attempts"] = number
    return outcomes


def guessers(kind: str, port: int, sources: list[str], seconds: float, told: Any) -> None:  # noqa: ANN401
    """A process of its own, so that it does not slow the broker's loop down."""
    one = guess_amqp if kind == "amqp" else guess_http
    told.put(dict(asyncio.run(_guess(one, port, sources, time.monotonic() + seconds))))


def broker_with_a_meter(told: Any, stop: Any) -> None:  # noqa: ANN401
    """A broker whose loop notes every ten milliseconds how late it is."""
    logging.getLogger("headrace").addHandler(logging.NullHandler())
    lags: list[float] = []
    secret = PasswordHash.of("right")

    async def meter(server: Server) -> None:
        loop = asyncio.get_running_loop()
        assert server.broker is not None
        for number in range(VICTIMS):
            server.broker.users.store_user(f"victim-{number}", secret, ())
        await server.broker.users.put_user("honest", password="honest", tags=["management"])
        server.broker.users.set_permissions("honest", "/", ".*", ".*", ".*")

        def fire(due: float) -> None:
            lags.append(loop.time() - due)
            loop.call_at(loop.time() + 0.01, fire, loop.time() + 0.01)

        fire(loop.time())

    with run_broker() as broker:
        broker._running().call(meter)
        told.put((broker.amqp_port, broker.http_port))
        for command in iter(stop.get, "end"):
            if command == "begin":
                lags.clear()
            elif command == "tell":
                told.put(list(lags))


def honest(amqp: int, http: int, until: float) -> dict[str, list[float]]:
    """Somebody with the right password at the guessers' own address, over and over again."""
    taken: dict[str, list[float]] = defaultdict(list)
    where = pika.ConnectionParameters(
        "127.0.0.1", amqp, credentials=pika.PlainCredentials("honest", "honest"),
        socket_timeout=20, blocked_connection_timeout=20,
    )  # fmt: skip
    with httpx.Client(base_url=f"http://127.0.0.1:{http}", timeout=20) as client:
        for what, attempt in (("amqp", _publish_one), ("http", _ask_one)) * 10_000:
            if time.monotonic() > until:
                break
            began = time.monotonic()
            try:
                attempt(where, client)
                taken[what].append(time.monotonic() - began)
            except (pika.exceptions.AMQPError, httpx.HTTPError) as error:
                taken[f"{what} failed: {error!r:.60}"].append(time.monotonic() - began)
            time.sleep(0.05)
    return taken


def _publish_one(where: pika.ConnectionParameters, _: httpx.Client) -> None:
    connection = pika.BlockingConnection(where)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("honest", durable=True)
    channel.basic_publish("", "honest", b"m", pika.BasicProperties(delivery_mode=2))
    connection.close()


def _ask_one(_: pika.ConnectionParameters, client: httpx.Client) -> None:
    client.get("/api/overview", auth=("honest", "honest")).raise_for_status()


def guessing(seconds: float) -> None:
    context = multiprocessing.get_context("spawn")
    told, commands = context.Queue(), context.Queue()
    broker = context.Process(target=broker_with_a_meter, args=(told, commands))
    broker.start()
    try:
        amqp, http = told.get(timeout=60)
        for kind, port in (("amqp", amqp), ("http", http)):
            for sources in (["127.0.0.1"], [f"127.0.0.{number}" for number in range(11, 21)]):
                commands.put("begin")
                answers = context.Queue()
                work = (kind, port, sources, seconds, answers)
                guesser = context.Process(target=guessers, args=work)
                guesser.start()
                served = honest(amqp, http, time.monotonic() + seconds)
                outcomes = answers.get(timeout=60)
                guesser.join()
                commands.put("tell")
                _tell_guesses(kind, len(sources), seconds, outcomes, served, told.get(timeout=30))
    finally:
        commands.put("end")
        broker.join(30)


def _tell_guesses(
    kind: str,
    addresses: int,
    seconds: float,
    outcomes: dict[str, int],
    served: dict[str, list[float]],
    lags: list[float],
) -> None:
    lags.sort()
    p99 = lags[int(len(lags) * 0.99)] * 1000
    say(f"{kind}, {addresses} address(es): {outcomes.pop('attempts') / seconds:.0f} guesses/s")
    say(f"  became: {json.dumps(outcomes)}")
    say(f"  loop lag: p50 {lags[len(lags) // 2] * 1000:.1f} ms, p99 {p99:.1f} ms, "
        f"worst {lags[-1] * 1000:.1f} ms of {len(lags)}")  # fmt: skip
    for what, taken in served.items():
        middle, worst = statistics.median(taken) * 1000, max(taken) * 1000
        say(f"  honest {what}: {len(taken)} times, median {middle:.0f} ms, worst {worst:.0f} ms")


def main() -> None:
    chosen = sys.argv[1:2] or ["lists", "pages", "guessing"]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    for name in chosen:
        {"lists": lists, "pages": pages, "guessing": guessing}[name](seconds)


if __name__ == "__main__":
    main()
