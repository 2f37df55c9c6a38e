"""Topics: priorities and groups, in the broker and in a database, with the same calls."""

from __future__ import annotations

from collections import Counter

from headrace import topics
from headrace.demo.broker import DemoBroker
from headrace.demo.database import DemoDatabase, missing
from headrace.demo.output import DemoOutput

COUNT = 300
LANES = ("low", "middle", "high")


def in_the_broker(output: DemoOutput, broker: DemoBroker) -> None:
    """Topics with priorities and a consumer group, in the broker"""
    output.remark(
        "A topic keeps its messages after they are read. Each consumer has its own position; the "
        "members of a group share the messages."
    )
    with topics.open(broker.native_url) as store:
        _priorities(output, store)
        _group(output, store)
        again = store.consumer("jobs", token="late").read(COUNT)
        output.expect(f"a new consumer still reads all {COUNT} messages", len(again), COUNT)


def in_a_database(output: DemoOutput, broker: DemoBroker, database: DemoDatabase) -> None:
    """The same topics in MariaDB, without a broker"""
    if (lacking := missing()) is not None:
        output.remark(f"{lacking}: skipped.")
        return
    database.start()
    with topics.open(database.url) as store:
        _priorities(output, store)
        _group(output, store)
        rows = database.query("SELECT COUNT(*) FROM msg_p_jobs_middle WHERE flags=0")
        output.expect("every message is a row that SQL can read", rows, [(COUNT,)])


def _priorities(output: DemoOutput, store: topics.Store) -> None:
    store.create("orders")
    producer = store.producer("orders", token="appid-1;sid-shop")
    for lane in LANES:
        for number in range(2):
            producer.append(f"{lane} {number}", priority=lane, ref_key=f"order-{number}")
    consumer = store.consumer("orders", token="appid-1;sid-packer")
    batch = consumer.read(4)
    wanted = [b"high 0", b"high 1", b"middle 0", b"middle 1"]
    output.expect(
        "a batch has high priority first, then middle, then low", [m.body for m in batch], wanted
    )
    consumer.commit(batch)
    producer.append("a fire", priority="high")
    rest = [one.body for one in consumer.read(10)]
    output.expect("a new urgent message overtakes the rest", rest, [b"a fire", b"low 0", b"low 1"])


def _group(output: DemoOutput, store: topics.Store) -> None:
    store.create("jobs")
    store.producer("jobs", token="appid-1").append_many([str(n) for n in range(COUNT)])
    members = [store.consumer("jobs", token=f"worker-{n}", group="workers") for n in range(3)]
    done: Counter[bytes] = Counter()
    shares = [0] * len(members)
    while any(batches := [member.read(40) for member in members]):
        for number, (member, batch) in enumerate(zip(members, batches, strict=True)):
            done.update(one.body for one in batch)
            shares[number] += len(batch)
            if batch:
                member.commit(batch)
    once = done == Counter(str(n).encode() for n in range(COUNT))
    output.check(f"three workers share {COUNT} jobs, each job done once", once, shares)
    lag = sum(one.messages for one in members[0].lag().values())
    output.expect("the lag of the group is 0", lag, 0)
