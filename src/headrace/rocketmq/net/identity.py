"""Who we are: the client id, and ids for messages."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import time
from threading import Lock

_DEFAULT = "DEFAULT"


def local_address() -> str:
    """An IPv4 address of this machine; the loopback address when there is no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; asks which way packets would go
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def client_id(instance_name: str = "", *, broadcasting: bool = False) -> str:
    """Unique per object, because brokers take members with one id for one member.

    Broadcasting consumers have a fixed one, so that their offset file is found again.
    """
    if not instance_name:
        instance_name = _DEFAULT if broadcasting else f"{os.getpid()}#{secrets.token_hex(6)}"
    return f"{local_address()}@{instance_name}"


class MessageIds:
    """Unique ids of messages: 32 hexadecimal digits, as consoles expect them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pid = -1
        self._prefix = ""
        self._counter = itertools.count()

    def next(self) -> str:
        if self._pid != os.getpid():
            self._renew()
        return f"{self._prefix}{next(self._counter) & 0xFFFFFFFFFFFF:012X}"

    def _renew(self) -> None:
        """Also in a forked child: parent and child must not give the same ids."""
        with self._lock:
            address = socket.inet_aton(local_address()).hex().upper()
            seconds = int(time.time()) & 0xFFFF
            self._prefix = f"{address}{seconds:04X}{secrets.token_hex(4).upper()}"
            self._counter = itertools.count(1)
            self._pid = os.getpid()
