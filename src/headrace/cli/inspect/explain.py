"""`headrace explain`: what each error means and what to do; also for docs/errors.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import click

from headrace import errors
from headrace.cli.support.output import DONE
from headrace.errors import BrokerError, ChannelError, CommandFailed, FatalError, row_of
from headrace.wire.amqp.error_codes import INTERNAL_ERROR, REPLY_CODES

_LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\)")


@click.command()
@click.argument("error", nargs=-1, required=True, metavar="ERROR")
def explain(error: tuple[str, ...]) -> int:
    """Explain ERROR, for example 406.

    ERROR is a reply code, a name such as NOT_FOUND, or a whole message.
    """
    text = " ".join(error)
    exact = [one for one in TEXTS if one[1] in text]
    kinds = [] if exact else list(_matching(text))
    if not kinds and not exact:
        known = ", ".join(map(str, sorted({code for code, _ in REPLY_CODES.values()})))
        raise CommandFailed(f"unknown error {text!r}; known codes: {known}")
    for _, part, cause, remedy in exact:
        _print(part, cause, remedy)
    said: set[int] = set()
    for kind in kinds:
        code, name = row_of(REPLY_CODES, kind, INTERNAL_ERROR)
        if code not in said:
            said.add(code)
            closes = "channel" if issubclass(kind, ChannelError) else "connection"
            click.echo(click.style(f"{code} {name} closes the {closes}", bold=True))
            for _, part, cause, remedy in (one for one in TEXTS if one[0] == code):
                _print(f"... {part} ...", cause, remedy)
        _print(kind.__name__, *ADVICE[kind.__name__])
    return DONE


def _matching(text: str) -> Iterator[type[BrokerError]]:
    """Error classes by code, AMQP name or class name, as they occur in the text."""
    words = set(re.findall(r"\w+", text.upper()))
    for name in ADVICE:
        kind = getattr(errors, name)
        code, reply = row_of(REPLY_CODES, kind, INTERNAL_ERROR)
        if {str(code), reply, name.upper()} & words and issubclass(kind, ChannelError | FatalError):
            yield kind


def _print(title: str, cause: str, remedy: str) -> None:
    click.echo(f"{title}\n  cause:  {_plain(cause)}\n  remedy: {_plain(remedy)}")


def _plain(text: str) -> str:
    return _LINK.sub(lambda match: f"{match[1]} (docs/{match[2]})", text)


# By the name of the error's class: when it occurs, and what to do. Markdown, links as in docs/.
ADVICE: Final[Mapping[str, tuple[str, str]]] = {
    "ConnectionForced": (
        "the broker is stopping, the vhost or user was deleted, or an operator closed the "
        "connection",
        "reconnect; clients with connection recovery do so automatically",
    ),
    "LoginRefused": (
        "wrong user or password, or a user of `loopback_users` that connects from another machine",
        "check the credentials; create a user for remote machines: see "
        "[troubleshooting](troubleshooting.md#a-client-cannot-connect)",
    ),
    "LoginLocked": (
        "the login was not checked: too many failed attempts before, or too many logins at once",
        "wait for the lock-out to end: see [users](users.md#wrong-passwords)",
    ),
    "FrameError": (
        "the bytes are not a valid frame, or a frame exceeds the negotiated size",
        "check that the client speaks AMQP 0-9-1 to the AMQP port; otherwise the client is faulty",
    ),
    "MalformedError": (
        "a valid frame whose content cannot be decoded",
        "update or replace the client library: it is faulty",
    ),
    "CommandInvalid": (
        "a method that a server does not accept on a channel",
        "update or replace the client library: it is faulty",
    ),
    "ChannelStateError": (
        "a method was sent on a channel that is not open, or an open channel was opened again",
        "look for a channel that is used after it was closed, or by two threads",
    ),
    "UnexpectedFrame": (
        "the frames of a message arrived in the wrong order",
        "look for a channel that is used by two threads",
    ),
    "ResourceError": (
        "too many incomplete messages on one connection",
        "complete a message before starting the next, or use more connections",
    ),
    "NotAllowed": (
        "unknown vhost, too many channels, or a consumer tag that is already in use",
        "check the vhost in the URL; close unused channels; let the broker choose consumer tags",
    ),
    "Unsupported": (
        "`immediate`, `prefetch_size`, `channel.flow` off, or another part that is not implemented",
        "see [what it does not do](what-it-does-not-do.md) for alternatives",
    ),
    "InternalError": (
        "a value or method that no decoder knows, or a bug in the broker",
        "read the broker's log and report the bug",
    ),
    "AccessRefused": (
        "the user has no permission, the name is reserved (`amq.`), the exchange is internal or "
        "the default one, or the queue has an exclusive consumer",
        "the text says which; `headrace permission list` shows permissions",
    ),
    "NotFound": (
        "the queue or exchange does not exist in this vhost",
        "declare it first, and check the vhost",
    ),
    "ResourceLocked": (
        "the queue is exclusive to another connection",
        "use a different queue name, or wait until the other connection is closed",
    ),
    "PreconditionFailed": (
        "the object exists with other arguments, an argument is invalid, the delivery tag is "
        "unknown, or the message exceeds the size limit",
        "the text says which: see [troubleshooting](troubleshooting.md#a-channel-closes)",
    ),
    "SelectorError": (
        "a tag expression or SQL condition that cannot be parsed",
        "the text names the column of the error",
    ),
    "NoSuchTopic": ("the topic does not exist in this vhost", "create it: `headrace topic create`"),
    "SubscriptionUnknown": (
        "a RocketMQ consumer pulls with a subscription that no heartbeat of its group has had",
        "nothing: clients pull again after their next heartbeat",
    ),
    "NoSuchGroup": (
        "the consumer group does not exist: RocketMQ clients only",
        "check the name; a group exists once it has members, settings or offsets",
    ),
    "BadTopicName": ("an invalid name of a topic, priority or group", "the text says why"),
    "BadTopicValue": (
        "an invalid priority, token, key, address or position",
        "the text says what is allowed",
    ),
    "BodyTooLarge": (
        "the message exceeds the size limit of the topic's engine",
        "store large data elsewhere and send a reference to it",
    ),
    "MessageIllegal": (
        "a RocketMQ message with properties that cannot be stored, or an invalid delay",
        "the text says which",
    ),
    "TopicConflict": (
        "the topic exists with other settings",
        "use the existing settings, or delete the topic first",
    ),
    "ClaimLost": (
        "the lease of a claim expired, or another member took the claim over",
        "stop processing these messages and read again; renew the lease in time",
    ),
    "DataLost": (
        "messages that had to be read by offset are gone: retention, or a pin over its limit",
        "start from the earliest offset; raise the retention or `pinBytes`",
    ),
    "SourceChanged": (
        "the queue or topic was deleted and created again",
        "use a new checkpoint: the old offsets belong to other messages",
    ),
    "EngineUnavailable": (
        "the database of a topic cannot be reached",
        "the text says whether the operation may have been executed; retry when it is reachable",
    ),
}

# Texts that clients see, by code and a part of the text: cause and remedy.
TEXTS: Final[tuple[tuple[int, str, str, str], ...]] = (
    (
        406,
        "inequivalent arg",
        "a queue or exchange of this name exists with other attributes",
        "declare it with the attributes it has (`headrace queue list --json`), or delete it first",
    ),
    (
        406,
        "unknown delivery tag",
        "the message was acknowledged before, or on another channel than it was delivered on",
        "acknowledge each delivery once, on its own channel; do not ack with auto_ack=True",
    ),
    (
        406,
        "delivery acknowledgement on channel",
        "a consumer did not acknowledge within `consumer_timeout`",
        "acknowledge sooner, lower the prefetch, or raise consumer_timeout",
    ),
    (
        406,
        "larger than configured max size",
        "the message exceeds `max_message_size`",
        "send a reference to the data instead, or raise max_message_size",
    ),
    (
        403,
        "in exclusive use",
        "another consumer has the queue exclusively",
        "consume without exclusive=True, or stop the other consumer",
    ),
)
