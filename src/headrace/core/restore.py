"""Bringing back what was declared before a restart."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from headrace.core.broker import Broker
from headrace.core.delays import NAME_PREFIX
from headrace.core.exchange import Target
from headrace.core.policies import OPERATOR_POLICY
from headrace.core.spark_support.staged_batches import NAME_PREFIX as PUBLISHED_PREFIX
from headrace.core.vhost import Vhost
from headrace.errors import BrokerError, PreconditionFailed
from headrace.model.policy import Policy
from headrace.store.api.metadata import Declarations
from headrace.store.api.rows import BindingRow, CursorRow, ParameterRow, QueueRow, RetryRow, Row

logger = logging.getLogger(__name__)


def restore(broker: Broker, catalogue: Declarations) -> None:
    """Declare everything in the catalogue again. What cannot be is reported and left out."""
    for name in catalogue.vhosts:
        broker.ensure_vhost(name)
    broker.users.restore(catalogue)
    broker.parameters.restore(restore_operator_policies(broker.vhosts, catalogue.parameters))
    for policy in catalogue.policies:
        with _reported(policy):
            broker.vhosts[policy.vhost].policies.restore(Policy(**asdict(policy)))
    for exchange in catalogue.exchanges:
        with _reported(exchange):
            broker.vhosts[exchange.vhost].declare_exchange(
                exchange.name,
                exchange.kind,
                durable=True,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments=exchange.arguments,
            )
    for queue in catalogue.queues:
        with _reported(queue):
            _restore_queue(broker.vhosts[queue.vhost], queue)
    _restore_topics(broker, catalogue)
    for vhost in broker.vhosts.values():
        vhost.pins.restore([pin for pin in catalogue.pins if pin.vhost == vhost.name])
    for binding in catalogue.bindings:
        with _reported(binding):
            _bind(broker, binding)


@contextmanager
def _reported(row: Row) -> Iterator[None]:
    """A repair accepts rows as they read, which may be nothing that can be declared."""
    try:
        yield
    except (BrokerError, ValueError, LookupError, TypeError) as error:
        logger.error("%r could not be restored: %s", row, error)


def _restore_queue(vhost: Vhost, queue: QueueRow) -> None:
    if queue.name.startswith(PUBLISHED_PREFIX):
        vhost.staging.restore(queue)
    elif queue.name.startswith(NAME_PREFIX):
        vhost.delays.restore(queue)
    else:
        vhost.declare_queue(
            queue.name,
            durable=True,
            auto_delete=queue.auto_delete,
            arguments=queue.arguments,
            stored=queue,
        )


def _restore_topics(broker: Broker, catalogue: Declarations) -> None:
    cursors: dict[str, list[CursorRow]] = {}
    retries: dict[str, list[RetryRow]] = {}
    for cursor in catalogue.cursors:
        cursors.setdefault(cursor.topic, []).append(cursor)
    for retry in catalogue.retries:
        retries.setdefault(retry.topic, []).append(retry)
    for topic in catalogue.topics:
        with _reported(topic):
            log = broker.vhosts[topic.vhost].topics.log
            log.restore(topic, cursors.get(topic.uuid, []), retries.get(topic.uuid, []))


def _bind(broker: Broker, binding: BindingRow) -> None:
    vhost = broker.vhosts[binding.vhost]
    vhost.topics.bridge.expect(binding.source)
    name = binding.destination
    target: Target = vhost.get_queue(name) if binding.to_queue else vhost.get_exchange(name)
    vhost.bind(binding.source, target, binding.key, binding.arguments)


def restore_operator_policies(
    vhosts: Mapping[str, Vhost], rows: Iterable[ParameterRow]
) -> list[ParameterRow]:
    """Restore the operator policies among stored parameters, before there are queues; the rest."""
    for row in rows:
        if row.component == OPERATOR_POLICY:
            try:
                value: Any = row.settings["value"]
                policy = Policy.from_json(row.name, row.vhost, value, is_operator=True)
                vhosts[row.vhost].operator_policies.restore(policy)
            except (PreconditionFailed, LookupError, TypeError) as error:
                logger.error(
                    "ignored the invalid operator policy '%s' of vhost '%s': %s",
                    row.name, row.vhost, error,
                )  # fmt: skip
    return [row for row in rows if row.component != OPERATOR_POLICY]
