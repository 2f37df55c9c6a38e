"""What is known of topics and brokers, without any I/O. Entries are replaced as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.wire.remoting.headers.route import BrokerData, TopicRoute
from headrace.wire.remoting.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic's queues, ready to choose from."""

    route: TopicRoute
    write_queues: tuple[MessageQueue, ...]
    read_queues: tuple[MessageQueue, ...]


class TopicRoutes:
    """Topics by name, brokers by name."""

    def __init__(self) -> None:
        self._topics: dict[str, KnownTopic] = {}
        self._brokers: dict[str, BrokerData] = {}

    def update(self, topic: str, route: TopicRoute) -> bool:
        """True when something has changed."""
        known = self._topics.get(topic)
        for broker in route.brokers:
            self._brokers[broker.broker_name] = broker
        if known is not None and known.route == route:
            return False
        self._topics[topic] = KnownTopic(
            route, tuple(route.write_queues(topic)), tuple(route.read_queues(topic))
        )
        return True

    def forget(self, topic: str) -> bool:
        return self._topics.pop(topic, None) is not None

    def get(self, topic: str) -> KnownTopic | None:
        return self._topics.get(topic)

    def topics(self) -> list[str]:
        return list(self._topics)

    def address(self, broker_name: str, broker_id: int = 0) -> str | None:
        """The wanted member of a broker, else its master, else any."""
        broker = self._brokers.get(broker_name)
        if broker is None or not broker.addresses:
            return None
        found = broker.addresses.get(broker_id) or broker.master
        return found or broker.addresses[min(broker.addresses)]

    def master(self, broker_name: str) -> str | None:
        broker = self._brokers.get(broker_name)
        return broker.master if broker is not None else None

    def addresses(self, *, masters_only: bool) -> list[str]:
        """Where heartbeats go: brokers of the topics we know."""
        used = {data.broker_name for one in self._topics.values() for data in one.route.queues}
        found: dict[str, None] = {}
        for name in sorted(used):
            broker = self._brokers.get(name)
            for number, address in sorted(broker.addresses.items() if broker else ()):
                if number == 0 or not masters_only:
                    found[address] = None
        return list(found)


def route_by_template(template: TopicRoute, queues: int) -> TopicRoute:
    """The route a topic will have once the broker has made it like its template."""
    return replace(
        template,
        queues=tuple(
            replace(
                data,
                write_queues=min(queues, data.read_queues),
                read_queues=min(queues, data.read_queues),
            )
            for data in template.queues
        ),
        order_conf=None,
    )
