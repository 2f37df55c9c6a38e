"""Stored messages as programs get them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from headrace.errors import BrokerError, MalformedError
from headrace.rocketmq.message import MessageExt
from headrace.wire.remoting.compression import inflate
from headrace.wire.remoting.message import take_parts

logger = logging.getLogger(__name__)

_COMPRESSED = 1


def messages_in(data: bytes, broker_name: str) -> Iterator[MessageExt]:
    """One after the other; a body that cannot be inflated stays as it is."""
    for one in take_parts(data):
        message = MessageExt(
            one[0], one[1], one[2], broker_name, one[4], one[5], one[6], one[3], one[7], one[8],
            one[9], one[10], one[11], one[12], one[13], one[15],
        )  # fmt: skip
        if message.sys_flag & _COMPRESSED:
            _inflate(message)
        yield message


def message_in(data: bytes, broker_name: str) -> MessageExt:
    """The only message in ``data``."""
    found = list(messages_in(data, broker_name))
    if len(found) != 1:
        raise MalformedError(f"{len(found)} messages instead of one")
    return found[0]


def _inflate(message: MessageExt) -> None:
    try:
        message.body = inflate(message.body, message.sys_flag)
    except BrokerError as error:
        logger.error(
            "message %s stays compressed, the program gets it so: %s", message.msg_id, error
        )
