"""`for delivery in channel.deliveries(queue)`: a consumer as an iterator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from types import TracebackType

from headrace.client.errors import AlreadySettled, HeadraceError
from headrace.client.ledger import Delivery, Ledger


class _End:
    def __init__(self, error: HeadraceError | None) -> None:
        self.error = error


class DeliveryStream:
    """Deliveries of one queue, for one thread at a time.

    It ends when the channel closes, when nothing came for ``idle_timeout`` seconds, or with an
    exception when the broker ends the consumer. Leaving the loop cancels the consumer; what was
    fetched and not handed out goes back to the queue.
    """

    def __init__(self, ledger: Ledger, *, auto_ack: bool, idle_timeout: float | None) -> None:
        self.consumer_tag = ""
        self.cancel: Callable[[], None] | None = None
        self._ledger = ledger
        self._auto_ack = auto_ack
        self._idle_timeout = idle_timeout
        self._arrived: SimpleQueue[list[Delivery] | _End] = SimpleQueue()

    # -- called by the reading thread

    def deliver(self, deliveries: list[Delivery]) -> None:
        self._arrived.put(deliveries)

    def end(self, error: HeadraceError | None) -> None:
        self._arrived.put(_End(error))

    # -- called by the program

    def __iter__(self) -> Iterator[Delivery]:
        try:
            while True:
                try:
                    batch = self._arrived.get(timeout=self._idle_timeout)
                except Empty:
                    return
                if isinstance(batch, _End):
                    self._arrived.put(batch)  # for whoever looks again
                    if batch.error is not None:
                        raise batch.error
                    return
                yield from self._each(batch)
        finally:
            self.close()

    def _each(self, batch: list[Delivery]) -> Iterator[Delivery]:
        outstanding = self._ledger.outstanding
        index = 0
        try:
            for index, delivery in enumerate(batch):  # noqa: B007 - where a break stops
                if delivery.tag not in outstanding:
                    continue  # of a lost connection: it comes again
                yield delivery
                if self._auto_ack:
                    with contextlib.suppress(AlreadySettled):
                        delivery.ack()
        except GeneratorExit:
            self._ledger.give_back(batch[index + 1 :])
            raise

    def close(self) -> None:
        """Cancel the consumer; twice does no harm."""
        cancel, self.cancel = self.cancel, None
        if cancel is None:
            return
        with contextlib.suppress(HeadraceError):  # gone is gone
            cancel()
        while not self._arrived.empty():
            batch = self._arrived.get()
            if not isinstance(batch, _End):
                self._ledger.give_back(batch)
        self._arrived.put(_End(None))

    def __enter__(self) -> DeliveryStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
