"""Methods to handlers: which method is welcome in which state, and who deals with it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from headrace.errors import (
    ChannelStateError,
    CommandInvalid,
    NotAllowed,
    PreconditionFailed,
    Unsupported,
)
from headrace.server.amqp import consumers, topology
from headrace.server.amqp.channel import Channel
from headrace.server.amqp.confirms import Confirms
from headrace.server.amqp.session import Session
from headrace.server.amqp.transaction import Transaction
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import Method

logger = logging.getLogger(__name__)

Handler = Callable[["Session", Channel, Any], None]


def dispatch(session: Session, number: int, channel: Channel | None, method: Method) -> None:
    """Carry out one method. Raises what the peer did wrong."""
    if session.handshake is not None:
        if number:
            raise ChannelStateError("no channel before connection.open")
        session.handshake.take(method)
    elif not number:
        _on_connection(session, method)
    elif channel is None:
        _on_unopened(session, number, method)
    elif channel.closing:
        _while_closing(session, channel, method)
    else:
        handler = HANDLERS.get(method.wire_id)
        if handler is None:
            raise CommandInvalid(f"unexpected method {method.name} on a channel")
        handler(session, channel, method)


def _on_connection(session: Session, method: Method) -> None:
    if isinstance(method, m.ConnectionClose):
        logger.info("connection %s closed by the client", session.transport.name)
        for channel in session.channels.values():
            session.send_confirms(channel)
        session.release()
        session.closing = session.ending = True
        session.send(0, m.ConnectionCloseOk())
        session.flush()
    elif isinstance(method, m.ConnectionUpdateSecret):
        session.send(0, m.ConnectionUpdateSecretOk())
    elif not isinstance(method, m.ConnectionCloseOk):
        raise ChannelStateError("unexpected method in connection state running")


def _on_unopened(session: Session, number: int, method: Method) -> None:
    if isinstance(method, m.ChannelCloseOk):
        return
    if not isinstance(method, m.ChannelOpen):
        raise ChannelStateError("expected 'channel.open'")
    limit = session.channel_max
    if len(session.channels) >= limit:
        raise NotAllowed(
            f"number of channels opened ({len(session.channels)}) has reached the negotiated "
            f"channel_max ({limit})"
        )
    session.broker.check_channels(session.user)
    session.channels[number] = Channel(session, number)
    session.broker.churn.channels_opened += 1
    session.send(number, m.ChannelOpenOk())


def _while_closing(session: Session, channel: Channel, method: Method) -> None:
    """We sent channel.close: all is ignored until the peer has seen it."""
    if isinstance(method, m.ChannelCloseOk):
        _forget(session, channel)
    elif isinstance(method, m.ChannelClose):
        session.send(channel.number, m.ChannelCloseOk())
    elif isinstance(method, m.ChannelOpen):
        raise ChannelStateError("second 'channel.open' seen")


def _forget(session: Session, channel: Channel) -> None:
    session.channels.pop(channel.number, None)
    session.confirming.discard(channel)
    session.reader.forget(channel.number)


def _channel_open(session: Session, channel: Channel, method: m.ChannelOpen) -> None:
    raise ChannelStateError("second 'channel.open' seen")


def _channel_close(session: Session, channel: Channel, method: m.ChannelClose) -> None:
    session.send_confirms(channel)
    channel.release()
    _forget(session, channel)
    session.send(channel.number, m.ChannelCloseOk())


def _channel_flow(session: Session, channel: Channel, method: m.ChannelFlow) -> None:
    if not method.active:
        raise Unsupported("active=false")
    session.send(channel.number, m.ChannelFlowOk(active=True))


def _access_request(session: Session, channel: Channel, method: m.AccessRequest) -> None:
    session.send(channel.number, m.AccessRequestOk(ticket=1))


def _confirm_select(session: Session, channel: Channel, method: m.ConfirmSelect) -> None:
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not method.nowait:
        session.send(channel.number, m.ConfirmSelectOk())


def _tx_select(session: Session, channel: Channel, method: m.TxSelect) -> None:
    if channel.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    session.send(channel.number, m.TxSelectOk())


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return channel.transaction


def _tx_commit(session: Session, channel: Channel, method: m.TxCommit) -> None:
    def done(error: Exception | None) -> None:
        if error is not None:
            session.fail(error, channel.number, m.TxCommit.wire_id)
        elif not channel.closing:
            session.position = session.broker.storage.position()
            session.send(channel.number, m.TxCommitOk())

    session.turn.run(_transaction(channel).commit(channel, session.publisher), done)


def _tx_rollback(session: Session, channel: Channel, method: m.TxRollback) -> None:
    _transaction(channel).rollback()
    session.send(channel.number, m.TxRollbackOk())


HANDLERS: dict[int, Handler] = {
    m.ChannelOpen.wire_id: _channel_open,
    m.ChannelClose.wire_id: _channel_close,
    m.ChannelFlow.wire_id: _channel_flow,
    m.AccessRequest.wire_id: _access_request,
    m.ConfirmSelect.wire_id: _confirm_select,
    m.TxSelect.wire_id: _tx_select,
    m.TxCommit.wire_id: _tx_commit,
    m.TxRollback.wire_id: _tx_rollback,
    **topology.HANDLERS,
    **consumers.HANDLERS,
}
