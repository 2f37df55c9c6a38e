"""The user of a request: the one who signed it, or the configured user of local clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.access.user import User, is_loopback
from headrace.core.access.users import ADMINISTRATOR
from headrace.errors import AccessRefused, LoginRefused
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.signature import ACCESS_KEY, is_signed_with

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session

DEFAULT_USER = "guest"  # what rocketmq_user is when nothing else was set

_WATCHERS = frozenset({ADMINISTRATOR, "monitoring"})

# Requests that change more than the messages of one topic, or remove what others need.
ADMINISTRATION = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.CLONE_GROUP_OFFSET,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
    }
)
# Requests that report about other clients.
WATCHING = frozenset(
    {
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.VIEW_BROKER_STATS_DATA,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.GET_ALL_PRODUCER_INFO,
        RequestCode.QUERY_TOPICS_BY_CONSUMER,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
    }
)


def identify(session: Session, request: Command, local_user: str) -> User:
    """The user of a request; LoginRefused. An empty access key is no signature."""
    users = session.broker.users
    peer = session.transport.peer_host
    key = request.ext.get(ACCESS_KEY)
    if key:
        ext, body = request.ext, request.body
        user = users.authenticate_signature(
            key, peer, lambda secret: is_signed_with(ext, body, secret)
        )
        session.is_signed = True
        return user
    if session.is_signed:
        raise LoginRefused("unsigned request on a connection with signed ones: sign every request")
    _check_default_password(session, local_user)
    if session.vhost is not None:
        return session.user
    if not is_loopback(peer):
        raise LoginRefused(
            f"RocketMQ clients from {peer} must sign their requests: give the client an access key "
            "(a user of the broker) and its secret (headrace user set-secret)"
        )
    return _local_user(session, local_user)


def _check_default_password(session: Session, name: str) -> None:
    """LoginRefused if unsigned clients would act as the default user after it got a password.

    Another user is named in the settings on purpose.
    """
    account = session.broker.users.find_user(name)
    if name == DEFAULT_USER and account is not None and not account.password.is_public:
        raise LoginRefused(
            f"user '{name}' has a password, so RocketMQ clients must sign their requests: give the "
            "client an access key (a user of the broker) and its secret (headrace user "
            "set-secret), or name another user for unsigned clients (rocketmq_user)"
        )


def _local_user(session: Session, name: str) -> User:
    try:
        return session.broker.users.authenticate_certificate(name, session.transport.peer_host)
    except LoginRefused:
        raise LoginRefused(
            f"user '{name}' of unsigned RocketMQ clients (rocketmq_user) does not exist; create "
            "it, or let the client sign its requests"
        ) from None


def check_standing(session: Session, code: int) -> None:
    """AccessRefused unless the user may send requests of this code at all."""
    if code in ADMINISTRATION:
        if not session.is_signed:
            raise AccessRefused(
                f"request {code} needs a login: sign with the access key of an {ADMINISTRATOR}"
            )
        if ADMINISTRATOR not in session.user.tags:
            raise AccessRefused(f"request {code} needs a user with the tag {ADMINISTRATOR}")
    elif code in WATCHING and not _WATCHERS & session.user.tags:
        raise AccessRefused(
            f"request {code} needs a user with the tag {ADMINISTRATOR} or monitoring"
        )
