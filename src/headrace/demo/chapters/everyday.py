"""First half of the demo, an ordinary day: routing, work queues, confirms, replies."""

from __future__ import annotations

from headrace.demo.clients import Clients, DemoClient
from headrace.demo.output import DemoOutput


def routing(output: DemoOutput, clients: Clients) -> None:
    """Routing: a topic exchange and two bindings"""
    shop = clients.connect()
    shop.channel.exchange_declare("orders", "topic", durable=True)
    for queue, pattern in (("europe", "orders.eu.*"), ("ledger", "orders.#")):
        shop.channel.queue_bind(shop.queue(queue), "orders", pattern)
    output.remark("Each order has a routing key; each queue is bound with a pattern.")
    output.say("  europe  orders.eu.*")
    output.say("  ledger  orders.#")

    keys = ("orders.eu.book", "orders.us.book", "orders.eu.book.used", "orders", "refunds.eu")
    for key in keys:
        shop.publish(key, key, exchange="orders")

    output.expect(
        "europe received orders.eu.book and nothing else", drain(shop, "europe"), [*keys[:1]]
    )
    output.expect("ledger received all four orders, in order", drain(shop, "ledger"), [*keys[:4]])


def fair_sharing(output: DemoOutput, clients: Clients) -> None:
    """Work queue: three consumers share the messages"""
    output.remark("Anna, Ben and Clara consume from the same queue.")
    shop = clients.connect()
    queue = shop.queue("packing")
    names = ("anna", "ben", "clara")
    workers = [clients.connect() for _ in names]
    for worker in workers:
        worker.consume(queue, acks=False)

    orders = [f"order {number}" for number in range(300)]
    for order in orders:
        shop.publish(queue, order)
    clients.until(lambda: sum(len(worker.inbox) for worker in workers) >= len(orders))

    counts = [len(worker.inbox) for worker in workers]
    seen = "  ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
    output.check("300 orders, 100 for each consumer", counts == [100, 100, 100], seen)
    output.expect("in rotation: anna received every third order", workers[0].bodies(), orders[::3])


def slow_worker(output: DemoOutput, clients: Clients) -> None:
    """Prefetch: a slow consumer does not delay the others"""
    output.remark("One of two consumers takes a parcel and never acknowledges it.")
    shop, slow, quick = clients.connect(), clients.connect(), clients.connect()
    queue = shop.queue("wrapping")
    slow.consume(queue, prefetch=1)  # takes one, and never finishes it
    quick.consume(queue, prefetch=20, then=quick.ack)

    for number in range(100):
        shop.publish(queue, f"parcel {number}")
    clients.until(lambda: len(slow.inbox) + len(quick.inbox) >= 100)

    seen = f"slow {len(slow.inbox)}  quick {len(quick.inbox)}"
    done = (len(slow.inbox), len(quick.inbox)) == (1, 99)
    output.check("with prefetch 1 the slow one holds 1 parcel, the other did 99", done, seen)


def confirms(output: DemoOutput, clients: Clients) -> None:
    """Confirms and returns"""
    output.remark("The shop publishes invoices with confirms and the mandatory flag.")
    shop = clients.connect()
    queue = shop.queue("invoices")
    shop.channel.confirm_delivery()

    returned = [shop.is_returned(queue, f"invoice {number}") for number in range(20)]
    output.expect("20 invoices published and confirmed, none returned", returned, [False] * 20)
    output.expect("all 20 are in the queue", shop.ready(queue), 20)
    lost = shop.is_returned("no-such-queue", "invoice 21")
    output.check("an invoice for a queue that does not exist was returned", lost)


def priorities(output: DemoOutput, clients: Clients) -> None:
    """Priorities"""
    output.remark("Four orders are published: letter (0), parcel (5), flowers (9) and card (0).")
    shop = clients.connect()
    queue = shop.queue("express", {"x-max-priority": 9})

    for body, priority in (("letter", 0), ("parcel", 5), ("flowers", 9), ("card", 0)):
        shop.publish(queue, body, priority=priority)

    wanted = ["flowers", "parcel", "letter", "card"]
    output.expect("delivered by priority: " + ", ".join(wanted), drain(shop, queue), wanted)


def answers(output: DemoOutput, clients: Clients) -> None:
    """Remote calls: direct reply-to"""
    output.remark("A client sends two requests at once; replies are matched by correlation id.")
    server, buyer = clients.connect(), clients.connect()
    queue = server.queue("prices")
    prices = {"tea": "3.20", "cup": "7.50"}
    server.consume(
        queue,
        acks=False,
        then=lambda asked: server.publish(
            asked.properties.reply_to,
            prices[asked.body],
            correlation_id=asked.properties.correlation_id,
        ),
    )
    buyer.consume("amq.rabbitmq.reply-to", acks=False)

    for item in prices:
        buyer.publish(queue, item, reply_to="amq.rabbitmq.reply-to", correlation_id=item)
    clients.until(lambda: len(buyer.inbox) >= len(prices))

    got = {answer.properties.correlation_id: answer.body for answer in buyer.inbox}
    output.expect("both replies arrived without a reply queue", got, prices)


def drain(client: DemoClient, queue: str) -> list[str]:
    """Everything in a queue, in order."""
    bodies = []
    while (delivery := client.get(queue)) is not None:
        client.ack(delivery)
        bodies.append(delivery.body)
    return bodies


CHAPTERS = (routing, fair_sharing, slow_worker, confirms, priorities, answers)
