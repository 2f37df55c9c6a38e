"""Topics and groups as administrators make, change and list them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.wire.remoting.codes import READ_WRITE, RequestCode
from headrace.wire.remoting.headers.fields import Header, named
from headrace.wire.remoting.json_maps import JsonMap
from headrace.wire.remoting.json_values import json_bytes
from headrace.wire.remoting.names import TEMPLATE_TOPIC

SINGLE_TAG = "SINGLE_TAG"


@dataclass(frozen=True, slots=True)
class CreateTopic(Header):
    """Make a topic, or change it."""

    CODE = RequestCode.UPDATE_AND_CREATE_TOPIC

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int = int(READ_WRITE)
    default_topic: str = TEMPLATE_TOPIC
    topic_filter_type: str = SINGLE_TAG
    topic_sys_flag: int = 0
    order: bool = False
    attributes: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopic(Header):
    """Remove a topic with its messages."""

    CODE = RequestCode.DELETE_TOPIC_IN_BROKER

    topic: str


@dataclass(frozen=True, slots=True)
class TopicRequest(Header):
    """Every request which names a topic and nothing else."""

    topic: str


@dataclass(frozen=True, slots=True)
class GroupRequest(Header):
    """Every request which names a group, in one of the three spellings."""

    consumer_group: str | None = None
    group: str | None = None
    group_name: str | None = None

    @property
    def name(self) -> str:
        return self.consumer_group or self.group or self.group_name or ""


@dataclass(frozen=True, slots=True)
class GetConsumeStats(Header):
    """How far is a group, in one topic or in all?"""

    CODE = RequestCode.GET_CONSUME_STATS

    consumer_group: str
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroup(Header):
    """Forget the settings of a group, and where it is if that is wished."""

    CODE = RequestCode.DELETE_SUBSCRIPTIONGROUP

    group_name: str
    clean_offset: bool = False


@dataclass(frozen=True, slots=True)
class ViewStats(Header):
    """How much of something happened lately?"""

    CODE = RequestCode.VIEW_BROKER_STATS_DATA

    stats_name: str
    stats_key: str


@dataclass(frozen=True, slots=True)
class CloneGroupOffset(Header):
    """Let a group begin where another is."""

    CODE = RequestCode.CLONE_GROUP_OFFSET

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


# -- bodies ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicConfig(JsonMap):
    """A topic as a broker keeps it."""

    NAME = "topicConfig"
    CONSTANTS = {"attributes": {}, "topicFilterType": SINGLE_TAG}  # noqa: RUF012 - of a JsonMap

    name: str = named("topicName")
    read_queues: int = named("readQueueNums")
    write_queues: int = named("writeQueueNums")
    perm: int = named("perm", int(READ_WRITE), missing=0)
    order: bool = False
    sys_flag: int = named("topicSysFlag", 0)


def topic_configs_body(configs: Iterable[TopicConfig]) -> bytes:
    """The answer to GET_ALL_TOPIC_CONFIG."""
    found = {config.name: config.as_map() for config in configs}
    return json_bytes({"dataVersion": _NO_VERSION, "topicConfigTable": found})


_NO_VERSION = {"counter": 0, "stateVersion": 0, "timestamp": 0}


@dataclass(frozen=True, slots=True)
class GroupConfig(JsonMap):
    """A consumer group as a broker keeps it; the body of request 200."""

    NAME = "subscriptionGroupConfig"
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
