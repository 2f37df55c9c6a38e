"""Settings of consumer groups. They are kept as parameters of the vhost; a group needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.broker import DEFAULT_VHOST, Broker
from headrace.errors import AccessRefused, MalformedError, NoSuchGroup, NotFound, PreconditionFailed
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.admin import (
    CloneGroupOffset,
    DeleteGroup,
    GroupConfig,
    GroupRequest,
    group_configs_body,
)
from headrace.wire.remoting.json_values import body_map, json_bytes
from headrace.wire.remoting.names import check_group

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState

COMPONENT = "rocketmq-group"
MAX_RETRIES = 1000


class GroupSettings:
    """Settings by name; unset ones have RocketMQ's defaults."""

    def __init__(self, broker: Broker) -> None:
        self._parameters = broker.parameters

    def get(self, name: str) -> GroupConfig:
        return self.find(name) or GroupConfig(name)

    def find(self, name: str) -> GroupConfig | None:
        found = self._parameters.find(DEFAULT_VHOST, COMPONENT, name)
        if found is None:
            return None
        try:
            return GroupConfig.take(found.value)
        except MalformedError:  # written by another program
            return None

    def names(self) -> list[str]:
        return [one.name for one in self._parameters.listed(DEFAULT_VHOST, COMPONENT)]

    def set(self, config: GroupConfig) -> None:
        self._parameters.set(DEFAULT_VHOST, COMPONENT, config.name, config.as_map())

    def clear(self, name: str) -> bool:
        return self._parameters.clear(DEFAULT_VHOST, COMPONENT, name)

    def check_consuming(self, name: str, *, broadcasting: bool) -> None:
        """AccessRefused while the group is switched off."""
        config = self.find(name)
        if config is None:
            return
        if not config.consume_enable:
            raise AccessRefused(f"group '{name}' is switched off (consumeEnable)")
        if broadcasting and not config.consume_broadcast_enable:
            raise AccessRefused(f"group '{name}' may not broadcast (consumeBroadcastEnable)")


def _update(state: RemotingState, session: Session, request: Command) -> None:
    config = GroupConfig.take(body_map(request.body))
    check_group(config.name)
    if not -1 <= config.retry_max_times <= MAX_RETRIES:
        raise PreconditionFailed(f"retryMaxTimes is a number from -1 to {MAX_RETRIES}")
    state.group_settings.set(config)
    session.metadata_version = session.broker.storage.issued
    session.respond(request)


def check_known(state: RemotingState, name: str) -> None:
    """NoSuchGroup unless the group has members, settings or offsets, or has pulled."""
    if name in state.members.groups or name in state.pull_offsets:
        return
    if state.group_settings.find(name) is not None:
        return
    if not any(name in topic.assigned.groups() for topic in state.topics.by_name.values()):
        raise NoSuchGroup(f"group '{name:.120}' does not exist: no members, settings or offsets")


def known_groups(state: RemotingState) -> list[str]:
    """Groups with settings, with members or with offsets."""
    known = {*state.group_settings.names(), *state.members.groups}
    for topic in state.topics.by_name.values():
        known.update(topic.assigned.groups())
    return sorted(known)


def _all(state: RemotingState, session: Session, request: Command) -> None:
    groups = state.group_settings
    body = group_configs_body([groups.get(name) for name in known_groups(state)])
    session.respond(request, body=body)


def _one(state: RemotingState, session: Session, request: Command) -> None:
    name = GroupRequest.take(request.ext).name
    if name not in known_groups(state):
        raise NotFound(f"no group '{name:.120}'")
    session.respond(request, body=json_bytes(state.group_settings.get(name).as_map()))


def _delete(state: RemotingState, session: Session, request: Command) -> None:
    header = DeleteGroup.take(request.ext)
    name = header.group_name
    if name in state.members.groups:
        raise PreconditionFailed(f"group '{name:.120}' has members; stop them first")
    found = state.group_settings.clear(name)
    state.pull_offsets.forget(name)
    for topic in state.topics.by_name.values():
        if header.clean_offset and name in topic.assigned.groups():
            topic.assigned.forget(name)
            found = True
    if not found:
        raise NotFound(f"no group '{name:.120}'")
    session.metadata_version = session.broker.storage.issued
    session.respond(request)


def _clone(state: RemotingState, session: Session, request: Command) -> None:
    """Let a group begin where another is."""
    header = CloneGroupOffset.take(request.ext)
    check_group(header.dest_group)
    topics = [state.topics.get(header.topic)] if header.topic else state.topics.by_name.values()
    cloned = 0
    for topic in topics:
        for track, offset in dict(topic.assigned.groups().get(header.src_group, {})).items():
            session.check_topic_right("read", topic.name)
            topic.assigned.set(header.dest_group, track, offset)
            cloned += 1
    if not cloned:
        raise NoSuchGroup(f"group '{header.src_group:.120}' has no offsets to clone")
    session.metadata_version = session.broker.storage.issued
    session.respond(request)


HANDLERS: dict[int, Handler] = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _update,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _all,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: _one,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _delete,
    RequestCode.CLONE_GROUP_OFFSET: _clone,
}
