"""Topic routes: replies of a name server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from headrace.wire.remoting.codes import READ_WRITE, Perm, RequestCode
from headrace.wire.remoting.headers.fields import Header, JsonBody, JsonMap, listed, named, special
from headrace.wire.remoting.json_values import body_map, items, json_bytes, table, text, whole
from headrace.wire.remoting.message_queue import MessageQueue

MASTER = 0  # broker id


class GetRouteInfo(Header, code=RequestCode.GET_ROUTEINFO_BY_TOPIC):
    """Where is a topic?"""

    topic: str
    accept_standard_json_only: bool | None = None


def _addresses(name: str, value: object) -> dict[int, str]:
    return {whole(name, number): text(name, one) for number, one in table(name, value).items()}


class BrokerData(JsonMap, name="brokerData"):
    """A broker and its addresses by id; 0 is the master."""

    cluster: str
    broker_name: str
    addresses: Mapping[int, str] = special(
        "brokerAddrs", _addresses, lambda found: {str(number): one for number, one in found.items()}
    )
    enable_acting_master: bool = False

    @property
    def master(self) -> str | None:
        return self.addresses.get(MASTER)


class QueueData(JsonMap, name="queueData"):
    """How many queues a topic has on one broker, and what may be done with them."""

    broker_name: str
    read_queues: int = named("readQueueNums")
    write_queues: int = named("writeQueueNums")
    perm: int = named("perm", int(READ_WRITE), missing=0)
    sys_flag: int = named("topicSysFlag", 0)

    @property
    def is_readable(self) -> bool:
        return bool(self.perm & Perm.READ)

    @property
    def is_writable(self) -> bool:
        return bool(self.perm & Perm.WRITE)

    def as_map(self) -> dict[str, object]:
        older = {"topicSynFlag": self.sys_flag}  # which Go reads
        return dict(sorted({**super().as_map(), **older}.items()))

    @classmethod
    def take(cls, value: object) -> Self:
        found = table(cls.NAME, value)
        return cls._take({"topicSysFlag": found.get("topicSynFlag"), **found})


class TopicRoute(JsonBody):
    """Everything a client needs to send to a topic or to read it."""

    CONSTANTS = {"filterServerTable": {}}  # noqa: RUF012 - of a JsonBody

    brokers: tuple[BrokerData, ...] = listed("brokerDatas", BrokerData, ())
    queues: tuple[QueueData, ...] = listed("queueDatas", QueueData, ())
    order_conf: str | None = named("orderTopicConf", None)  # "broker-a:4;broker-b:4"

    def as_map(self) -> dict[str, object]:
        found = super().as_map()
        if not self.order_conf:
            del found["orderTopicConf"]
        return found

    def write_queues(self, topic: str) -> list[MessageQueue]:
        """Where to send, in the order in which producers go round."""
        if self.order_conf:
            return _ordered_queues(topic, self.order_conf)
        masters = {broker.broker_name for broker in self.brokers if broker.master is not None}
        return [
            MessageQueue(topic, data.broker_name, number)
            for data in sorted(self.queues, key=lambda data: data.broker_name)
            if data.is_writable and data.broker_name in masters
            for number in range(data.write_queues)
        ]

    def read_queues(self, topic: str) -> list[MessageQueue]:
        """Where to read from."""
        return [
            MessageQueue(topic, data.broker_name, number)
            for data in sorted(self.queues, key=lambda data: data.broker_name)
            if data.is_readable
            for number in range(data.read_queues)
        ]


QUEUES_MAX = 1 << 16  # of a topic on one broker: what is above is a mistake


def _ordered_queues(topic: str, order_conf: str) -> list[MessageQueue]:
    queues: list[MessageQueue] = []
    for part in order_conf.split(";"):
        name, _, number = part.rpartition(":")
        if name:
            count = min(whole("orderTopicConf", number), QUEUES_MAX)
            queues += [MessageQueue(topic, name, at) for at in range(count)]
    return queues


# -- other answers of a name server -------------------------------------------------------------


def cluster_info_body(
    brokers: Mapping[str, BrokerData], clusters: Mapping[str, Iterable[str]]
) -> bytes:
    """The answer to GET_BROKER_CLUSTER_INFO: brokers by name, their names by cluster."""
    return json_bytes(
        {
            "brokerAddrTable": {name: one.as_map() for name, one in brokers.items()},
            "clusterAddrTable": {name: list(one) for name, one in clusters.items()},
        }
    )


def topic_list_body(topics: Iterable[str]) -> bytes:
    """The answer to every question for a list of topics."""
    return json_bytes({"brokerAddr": None, "topicList": list(topics)})


def take_topic_list(body: bytes) -> list[str]:
    """The names in such an answer."""
    return [text("topic", one) for one in items("topicList", body_map(body).get("topicList") or [])]
