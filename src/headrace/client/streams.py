"""`for delivery in channel.deliveries(queue)`: a consumer as an iterator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from queue import Empty, SimpleQueue

from headrace.client.core.unsettled import Batch, Delivery, UnsettledDeliveries
from headrace.client.errors import HeadraceError


class _StreamEnd:
    def __init__(self, error: HeadraceError | None) -> None:
        self.error = error


class DeliveryStream:
    """Deliveries of one queue, for one thread at a time.

    It ends when the channel closes, when nothing came for ``idle_timeout`` seconds, or with an
    exception when the broker ends the consumer. Leaving the loop cancels the consumer; what was
    fetched and not handed out goes back to the queue.
    """

    def __init__(
        self, ledger: UnsettledDeliveries, *, auto_ack: bool, idle_timeout: float | None
    ) -> None:
        self.consumer_tag = ""
        self.cancel: Callable[[], None] | None = None
        self._ledger = ledger
        self._auto_ack = auto_ack
        self._idle_timeout = idle_timeout
        self._arrived: SimpleQueue[Batch | _StreamEnd] = SimpleQueue()

    # -- called by the reading thread

    def deliver(self, batch: Batch) -> None:
        self._arrived.put(batch)

    def end(self, error: HeadraceError | None) -> None:
        self._arrived.put(_StreamEnd(error))

    # -- called by the program

    def __iter__(self) -> Iterator[Delivery]:
        with contextlib.closing(self._arrivals()) as arrivals:
            for batch in arrivals:
                yield from self._each(batch)

    def batches(self) -> Generator[list[Delivery], None, None]:
        """The same several at a time, as they came; faster, and for the program to settle.

        Those of the last batch which are not settled when the loop is left go back.
        """
        with contextlib.closing(self._arrivals()) as arrivals:
            for batch in arrivals:
                ledger, consumer_tag = self._ledger, self.consumer_tag
                outstanding = ledger.outstanding
                alive = [
                    Delivery(ledger, tag, consumer_tag, row)
                    for tag, row in batch.items()
                    if tag in outstanding  # not of a lost connection: it comes again
                ]
                try:
                    if alive:
                        yield alive
                except GeneratorExit:
                    ledger.give_back(batch)
                    raise

    def _arrivals(self) -> Generator[Batch, None, None]:
        try:
            while True:
                try:
                    batch = self._arrived.get(timeout=self._idle_timeout)
                except Empty:
                    return
                if isinstance(batch, _StreamEnd):
                    self._arrived.put(batch)  # for whoever looks again
                    if batch.error is not None:
                        raise batch.error.again()
                    return
                yield batch
        finally:
            self.close()

    def _each(self, batch: Batch) -> Iterator[Delivery]:
        ledger, consumer_tag, auto_ack = self._ledger, self.consumer_tag, self._auto_ack
        outstanding, rest = ledger.outstanding, iter(batch.items())
        try:
            for tag, row in rest:
                if tag not in outstanding:
                    continue  # of a lost connection: it comes again
                yield Delivery(ledger, tag, consumer_tag, row)
                if auto_ack:
                    ledger.ack_unless_settled(tag)
        except GeneratorExit:
            ledger.give_back(tag for tag, _ in rest)
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
            if not isinstance(batch, _StreamEnd):
                self._ledger.give_back(batch)
        self._arrived.put(_StreamEnd(None))

    def __enter__(self) -> DeliveryStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
