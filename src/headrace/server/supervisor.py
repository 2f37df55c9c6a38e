"""Telling systemd how far we are, by its notification protocol. Nothing happens without systemd."""

from __future__ import annotations

import logging
import os
import socket

logger = logging.getLogger(__name__)

_VARIABLE = "NOTIFY_SOCKET"
READY = "READY=1"
STOPPING = "STOPPING=1"


def is_present() -> bool:
    """Whether somebody waits to be told."""
    return bool(os.environ.get(_VARIABLE))


def tell(state: str) -> None:
    """Send one state; a supervisor that does not listen is no reason to stop."""
    place = os.environ.get(_VARIABLE)
    if not place:
        return
    address = "\0" + place[1:] if place.startswith("@") else place
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(address)
            channel.sendall(state.encode())
    except OSError as error:
        logger.warning("cannot tell the supervisor %s: %s", state, error)
