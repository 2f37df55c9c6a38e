"""Who asks: the user who has signed the request, or the one of the settings for this machine."""

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

# What changes more than one topic's messages, or takes away what others need.
ADMINISTRATION = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.CLONE_GROUP_OFFSET,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
    }
)
# What tells about others.
WATCHING = frozenset(
    {
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


def identify(session: Session, request: Command) -> User:
    """The user of a request; LoginRefused. Some clients sign with an empty key: they do not."""
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
        raise LoginRefused("requests on this connection are signed, and this one is not")
    _check_default_password(session)
    if session.vhost is not None:
        return session.user
    if not is_loopback(peer):
        raise LoginRefused(
            f"RocketMQ clients from {peer} must sign their requests: give the client an access key "
            "(a user of the broker) and its secret (headrace user set-secret)"
        )
    return _user_of_this_machine(session)


def _check_default_password(session: Session) -> None:
    """LoginRefused if unsigned clients would act as the default user after it got a password.

    Another user is named in the settings on purpose.
    """
    name, users = session.hub.settings.user, session.broker.users
    account = users.find_user(name)
    if name == DEFAULT_USER and account is not None and not account.password.is_public:
        raise LoginRefused(
            f"user '{name}' has a password, so RocketMQ clients must sign their requests: give the "
            "client an access key (a user of the broker) and its secret (headrace user "
            "set-secret), or name another user for unsigned clients (rocketmq_user)"
        )


def _user_of_this_machine(session: Session) -> User:
    name = session.hub.settings.user
    try:
        return session.broker.users.authenticate_certificate(name, session.transport.peer_host)
    except LoginRefused:
        raise LoginRefused(
            f"RocketMQ clients that do not sign act as user '{name}' (rocketmq_user), who is not "
            "there"
        ) from None


def check_standing(session: Session, code: int) -> None:
    """AccessRefused unless the user may ask for this at all, whatever it is about."""
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
