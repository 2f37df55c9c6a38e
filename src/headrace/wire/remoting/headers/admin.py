"""Topics and groups as administrators make, change and list them."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.wire.remoting.codes import READ_WRITE, RequestCode
from headrace.wire.remoting.headers.fields import Header, JsonMap, named, special
from headrace.wire.remoting.json_values import json_bytes, table, text
from headrace.wire.remoting.names import TEMPLATE_TOPIC

SINGLE_TAG = "SINGLE_TAG"


class CreateTopic(Header, code=RequestCode.UPDATE_AND_CREATE_TOPIC):
    """Make a topic, or change it."""

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int = int(READ_WRITE)
    default_topic: str = TEMPLATE_TOPIC
    topic_filter_type: str = SINGLE_TAG
    topic_sys_flag: int = 0
    order: bool = False
    attributes: str | None = None


class DeleteTopic(Header, code=RequestCode.DELETE_TOPIC_IN_BROKER):
    """Remove a topic with its messages."""

    topic: str


class TopicRequest(Header):
    """Every request which names a topic and nothing else."""

    topic: str


class GroupRequest(Header):
    """Every request which names a group, in one of the three spellings."""

    consumer_group: str | None = None
    group: str | None = None
    group_name: str | None = None

    @property
    def name(self) -> str:
        return self.consumer_group or self.group or self.group_name or ""


class GetConsumeStats(Header, code=RequestCode.GET_CONSUME_STATS):
    """How far is a group, in one topic or in all?"""

    consumer_group: str
    topic: str | None = None


class DeleteGroup(Header, code=RequestCode.DELETE_SUBSCRIPTIONGROUP):
    """Forget the settings of a group, and where it is if that is wished."""

    group_name: str
    clean_offset: bool = False


class ViewStats(Header, code=RequestCode.VIEW_BROKER_STATS_DATA):
    """How much of something happened lately?"""

    stats_name: str
    stats_key: str


class CloneGroupOffset(Header, code=RequestCode.CLONE_GROUP_OFFSET):
    """Let a group begin where another is."""

    src_group: str
    dest_group: str
    topic: str | None = None


# -- bodies ------------------------------------------------------------------------------------


def _attributes(name: str, value: object) -> tuple[tuple[str, str], ...]:
    return tuple([(text(name, key), text(name, one)) for key, one in table(name, value).items()])


class TopicConfig(JsonMap, name="topicConfig"):
    """A topic as a broker keeps it."""

    CONSTANTS = {"topicFilterType": SINGLE_TAG}  # noqa: RUF012 - of a JsonMap

    name: str = named("topicName")
    read_queues: int = named("readQueueNums")
    write_queues: int = named("writeQueueNums")
    perm: int = named("perm", int(READ_WRITE), missing=0)
    order: bool = False
    sys_flag: int = named("topicSysFlag", 0)
    attributes: tuple[tuple[str, str], ...] = special("attributes", _attributes, dict, ())


def topic_configs_body(configs: Iterable[TopicConfig]) -> bytes:
    """The answer to GET_ALL_TOPIC_CONFIG."""
    found = {config.name: config.as_map() for config in configs}
    return json_bytes({"dataVersion": _NO_VERSION, "topicConfigTable": found})


_NO_VERSION = {"counter": 0, "stateVersion": 0, "timestamp": 0}


class GroupConfig(JsonMap, name="subscriptionGroupConfig"):
    """A consumer group as a broker keeps it; the body of request 200."""

    CONSTANTS = {  # noqa: RUF012 - of a JsonMap
        "attributes": {},
        "brokerId": 0,
        "groupSysFlag": 0,
        "whichBrokerWhenConsumeSlowly": 1,
    }

    name: str = named("groupName")
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queues: int = named("retryQueueNums", 1)
    retry_max_times: int = 16
    notify_enable: bool = named("notifyConsumerIdsChangedEnable", True)
    consume_timeout_minutes: int = named("consumeTimeoutMinute", 15)


def group_configs_body(configs: Iterable[GroupConfig]) -> bytes:
    """The answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""
    found = {config.name: config.as_map() for config in configs}
    return json_bytes({"dataVersion": _NO_VERSION, "subscriptionGroupTable": found})
