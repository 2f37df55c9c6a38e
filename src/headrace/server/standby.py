"""A node that stands by: it waits for its shard, and answers health checks meanwhile.

Its other ports are closed, so clients with a list of hosts go on to the next one at once.
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace.config import Config
from headrace.errors import ConfigError
from headrace.server.listener import host_port
from headrace.store.shared.share import Owner, ShareSettings, Standby

logger = logging.getLogger(__name__)


def wait_for_shard(config: Config) -> Owner | None:
    """Until this node has the shard; None when it was stopped before that."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    standby = Standby(share_settings(config))
    with _health_checks(config, standby):
        return standby.wait(stop)


def share_settings(config: Config) -> ShareSettings:
    engine, _, shard = config.share.partition("/")
    urls = dict(config.engine)
    if engine not in urls or not shard or not shard.isascii() or len(shard) > 64:
        known = ", ".join(sorted(urls)) or "none"
        raise ConfigError(
            f"invalid share '{config.share}': expected ENGINE/SHARD, where ENGINE is one of the "
            f"engines in the settings ({known})"
        )
    return ShareSettings(
        url=urls[engine],
        shard=shard,
        node=config.node or socket.gethostname(),
        address=host_port(config.address, config.amqp_port),
        directory=config.data_dir,
        lease=config.share_lease,
    )


@contextmanager
def _health_checks(config: Config, standby: Standby) -> Iterator[None]:
    """Answer load balancers on the HTTP port: alive, and not the active node."""
    if not config.http:
        yield
        return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_alive = self.path.split("?")[0] == "/healthz"
            answer = {"status": "standby", "active": standby.owner}
            body = json.dumps(answer).encode() + b"\n"
            self.send_response(HTTPStatus.OK if is_alive else HTTPStatus.SERVICE_UNAVAILABLE)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            logger.debug(format, *args)

    server = ThreadingHTTPServer((config.host, config.http_port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="headrace-standby", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
