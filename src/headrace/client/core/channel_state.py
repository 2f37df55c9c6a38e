"""What the client knows of channels and consumers, whatever connection they are on. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.client.core.unsettled import Batch, UnsettledDeliveries
from headrace.client.errors import HeadraceError


class Completion(Protocol):
    """Where a result goes: a future of either kind."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...  # noqa: ANN401 - any call's result
    def set_exception(self, exception: BaseException, /) -> None: ...


class DeliverySink(Protocol):
    """Where a consumer's messages go. Must not block."""

    def deliver(self, batch: Batch) -> None: ...
    def end(self, error: HeadraceError | None) -> None: ...


@dataclass(slots=True)
class ConsumerState:
    tag: str
    fields: dict[str, Any]
    sink: DeliverySink

    @property
    def queue(self) -> str:
        return str(self.fields["queue"])


@dataclass(slots=True)
class ChannelState:
    """What is known of a channel, whatever connection it is on."""

    id: int
    unsettled: UnsettledDeliveries
    prefetch: int | None = None
    consumers: dict[str, ConsumerState] = field(default_factory=dict)
    closed: HeadraceError | None = None

    def queues(self) -> set[str]:
        """Those which are consumed from."""
        return {one.queue for one in self.consumers.values()}

    def end(self, error: HeadraceError | None) -> None:
        """Notify all consumers that no more deliveries will come."""
        consumers = list(self.consumers.values())
        self.consumers.clear()
        for one in consumers:
            one.sink.end(error)
