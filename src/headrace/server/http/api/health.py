"""Health checks: /healthz and /api/health, for load balancers, deployments and operators."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from headrace.model.message import PublishedRun
from headrace.server.http import replies
from headrace.server.http.api.messages.get import take
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.router import ANYBODY, ENTERS_VHOST, MONITORING, ApiRoutes
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.properties import Properties

ROUTES = ApiRoutes()
_CHECKS = "/api/health/checks"

ALIVENESS = "aliveness-test"
LONGEST_WAIT_SECONDS = 10.0  # for the log, before the broker counts as ill
_SECONDS = {"days": 86400, "weeks": 7 * 86400, "months": 30 * 86400, "years": 365 * 86400}


def _ok(**more: object) -> replies.Reply:
    return replies.data({"status": "ok", **more})


def _failed(reason: str, **more: object) -> replies.Reply:
    return replies.data({"status": "failed", "reason": reason, **more}, 503)


@ROUTES.get("/healthz", ANYBODY, "Liveness; 503 if storage has failed or hangs")
async def _healthz(call: ApiRequest) -> replies.Reply:
    """Alive, and able to take messages."""
    broker = call.broker
    if broker.storage.has_failed:
        return _failed("storage has failed")
    waited = broker.storage.waited_seconds
    if waited > LONGEST_WAIT_SECONDS:
        return _failed(f"work has waited {waited:.0f} s for the log", alarm=broker.alarms.reason)
    return _ok(alarm=broker.alarms.reason)


@ROUTES.get(_CHECKS + "/active", ANYBODY,
    "As /healthz; 503 on a standby, and on a node that may have lost its shard")  # fmt: skip
async def _active(call: ApiRequest) -> object:
    """As the other one; also: whether this node has its shard for sure."""
    if call.broker.turn.is_paused:
        return _failed("no commit for the time of the lease")
    return await _healthz(call)


@ROUTES.get(_CHECKS + "/alarms", MONITORING, "Check that no alarm is active")
@ROUTES.get(_CHECKS + "/local-alarms", MONITORING, "Check that no alarm is active")
async def _alarms(call: ApiRequest) -> replies.Reply:
    alarms = call.broker.alarms
    if alarms.reason is None:
        return _ok()
    node = call.management.node
    return _failed("There are alarms in effect on the node",
                   alarms=[{"node": node, "resource": kind} for kind in alarms.low])  # fmt: skip


@ROUTES.get("/api/healthchecks/node", MONITORING, "Check that no alarm is active")
@ROUTES.get("/api/healthchecks/node/{name}", MONITORING, "Check that no alarm is active")
async def _node(call: ApiRequest) -> replies.Reply:
    alarm = call.broker.alarms.reason
    return _ok() if alarm is None else _failed(f"resource alarm: {alarm}")


ROUTES.constant(
    _CHECKS + "/virtual-hosts", MONITORING, "Check that all vhosts are running", {"status": "ok"}
)
for check in ("quorum", "mirror-sync"):
    ROUTES.constant(f"{_CHECKS}/node-is-{check}-critical", MONITORING,
                    "Check that no queue depends on this node; always true",
                    {"status": "ok", "reason": "single node cluster"})  # fmt: skip


@ROUTES.get(_CHECKS + "/port-listener/{port}", MONITORING, "Check that the port has a listener")
async def _port(call: ApiRequest) -> replies.Reply:
    ports = list(call.management.ports.values())
    wanted = call.params["port"]
    if wanted.isdigit() and int(wanted) in ports:
        return _ok(port=int(wanted))
    missing: object = int(wanted) if wanted.isdigit() else wanted
    return _failed("No active listener", missing=missing, ports=ports)


@ROUTES.get(
    _CHECKS + "/protocol-listener/{protocol}", MONITORING, "Check that the protocol is enabled"
)
async def _protocol(call: ApiRequest) -> replies.Reply:
    protocols = list(call.management.ports)
    wanted = call.params["protocol"].lower()
    known = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp/ssl": "amqps", "http/ssl": "https"}
    if known.get(wanted, wanted) in protocols:
        return _ok(protocol=wanted)
    return _failed("No active listener", missing=wanted, protocols=protocols)


def expires_at(pem_file: Path) -> float:
    """Seconds since 1970 of the first certificate in the file; ValueError without one."""
    from cryptography import x509  # takes long to load, and few brokers are asked

    certificate = x509.load_pem_x509_certificate(pem_file.read_bytes())
    return certificate.not_valid_after_utc.timestamp()


@ROUTES.get(_CHECKS + "/certificate-expiration/{within}/{unit}", MONITORING,
    "Check that the certificates are valid for that long")  # fmt: skip
async def _certificates(call: ApiRequest) -> replies.Reply:
    within, unit = call.params["within"], call.params["unit"]
    if not within.isdigit() or len(within) > 6 or unit not in _SECONDS:
        raise replies.bad_request(f"expected a number and one of {', '.join(_SECONDS)}")
    certificate = call.management.config.tls_cert
    if certificate is None:
        return _ok()
    ends = await asyncio.to_thread(expires_at, certificate)
    if ends > time.time() + int(within) * _SECONDS[unit]:
        return _ok()
    shown = time.strftime("%Y-%m-%d", time.gmtime(ends))
    return _failed("Certificates expiring", expired=[{"cert_expires_on": shown}])


@ROUTES.get("/api/aliveness-test/{vhost}", ENTERS_VHOST,
    "Declare a queue, publish to it and get the message")  # fmt: skip
async def _aliveness(call: ApiRequest) -> replies.Reply:
    """Declare a queue, publish to it, get the message back."""
    vhost = call.vhost
    for action in ("configure", "read"):
        call.check(action, "queue", ALIVENESS)
    call.check("write", "exchange", "")
    queue = vhost.declare_queue(ALIVENESS)
    content = make_content(Properties(), b"test_message")
    vhost.publish(
        PublishedRun(vhost.routes.get("", ALIVENESS), [content], len(content), channel_number=1)
    )
    taken = take(queue, 1)
    if not taken:
        return _failed("the test message was not received")
    queue.acknowledge(taken[0])
    return _ok()
