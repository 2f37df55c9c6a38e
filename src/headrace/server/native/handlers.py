"""Requests to handlers: what is welcome in which state, and who deals with it."""

from __future__ import annotations

from headrace.errors import CommandInvalid, NotAllowed, Unsupported
from headrace.server.native import (
    bulk_reads,
    consumers,
    lists,
    spark_support,
    topics,
    topology,
)
from headrace.server.native.channel import Channel
from headrace.server.native.handshake import hello
from headrace.server.native.session import Handler, Session
from headrace.wire.native.payloads import Op, Request

_KNOWN = frozenset(Op)
_FROM_SERVER = frozenset({Op.PUSH})


def dispatch(session: Session, request: Request) -> None:
    """Carry out one request. Raises what the peer did wrong."""
    kind = request.kind
    if session.vhost is None:
        hello(session, request)
    elif kind == Op.PING:
        session.respond(request)
    elif kind not in _KNOWN or kind in _FROM_SERVER or kind == Op.HELLO:
        raise CommandInvalid(f"unexpected type {kind:#x}")
    elif request.ch is None:
        raise CommandInvalid("'ch' is missing")
    elif kind == Op.CHANNEL_OPEN:
        _open(session, request, request.ch)
    else:
        _on_channel(session, request)


def _open(session: Session, request: Request, number: int | str) -> None:
    if number in session.channels:
        raise NotAllowed(f"channel {number} is open already")
    if len(session.channels) >= session.config.channel_max:
        raise NotAllowed(f"{session.config.channel_max} channels are open, which is the limit")
    session.broker.check_channels(session.user)
    session.channels[number] = Channel(session, number)
    session.broker.churn.channels_opened += 1
    session.respond(request)


def _on_channel(session: Session, request: Request) -> None:
    handler = HANDLERS.get(request.kind)
    if handler is None:
        raise Unsupported(f"{Op(request.kind).name.lower()} is not part of this broker")
    assert request.ch is not None
    channel = session.channels.get(request.ch)
    if channel is None:
        raise NotAllowed(f"channel {request.ch} is not open")
    handler(session, channel, request)


def _close(session: Session, channel: Channel, request: Request) -> None:
    channel.release()
    del session.channels[channel.number]
    session.respond(request)


HANDLERS: dict[int, Handler] = {
    Op.CHANNEL_CLOSE: _close,
    **topology.HANDLERS,
    **consumers.HANDLERS,
    **lists.HANDLERS,
    **topics.HANDLERS,
    **bulk_reads.HANDLERS,
    **spark_support.HANDLERS,
}
