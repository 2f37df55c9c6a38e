"""A memory of counters, so that rates and charts can be shown.

Everything is noted every five seconds, as RabbitMQ does, so that the first look shows rates. Of
single queues, exchanges, connections and channels only the last two samples are kept while no
client asks: an unwatched broker pays 1 us and some 400 bytes for each.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.server.http import stats

if TYPE_CHECKING:
    from headrace.core.broker import Broker

logger = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
WATCHED_SECONDS = 60.0  # how long after a look the history of single things still grows
TOTALS_KEPT = 720  # an hour
SINGLES_KEPT = 61  # five minutes
UNWATCHED_KEPT = 2  # enough for a rate
SLICE = 500  # things noted before others get a turn
MAX_SAMPLES = 1000

Sample = tuple[int, stats.Values]  # ms since 1970
History = Sequence[Sample]
_NONE: History = ()


class Sampler:
    """Histories of the broker, its vhosts, and of every single thing while it is watched."""

    def __init__(self, broker: Broker, now: Callable[[], float] = time.time) -> None:
        self._broker = broker
        self._now = now
        self._watched_until = 0.0
        self._singles: dict[object, list[Sample]] = {}  # a deque would take eight times as much
        self._changed: dict[object, int] = {}  # since when the last values are what they are
        self._noted_at = 0  # when the singles were noted last
        self.totals: deque[Sample] = deque(maxlen=TOTALS_KEPT)
        self.node: deque[Sample] = deque(maxlen=TOTALS_KEPT)
        self._confirms: list[int] = []  # counts of the histogram of confirms at the last sample
        self._vhosts: dict[object, deque[Sample]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="http-sampler")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self.tick()
            except Exception:
                # One failure must not stop all rates for good.
                logger.exception("counters could not be noted: rates are old until the next try")
            await asyncio.sleep(EVERY_SECONDS)

    def watch(self) -> None:
        """A client asks for rates of single objects: keep their history."""
        self._watched_until = self._now() + WATCHED_SECONDS

    def history(self, thing: object) -> History:
        """What is remembered of a queue, exchange, connection, channel or vhost."""
        return self._singles.get(thing) or self._vhosts.get(thing) or _NONE

    def idle_since(self, thing: object) -> str | None:
        """Since when nothing happened to it, as RabbitMQ writes it; None when something does."""
        since, history = self._changed.get(thing), self._singles.get(thing)
        if since is None or not history or since >= history[-1][0]:
            return None
        return _written(since)

    def message_stats(
        self,
        thing: object,
        names: Sequence[str],
        wanted: Sequence[str],
        values: stats.Values,
        window: SampleWindow | None,
    ) -> dict[str, object] | None:
        """The wanted values, which are the last, with rates; None, as in RabbitMQ, if all are 0."""
        if not any(values[-len(wanted) :]):
            return None
        return with_details(names, wanted, values, self.history(thing), window)

    async def tick(self) -> None:
        """Note everything that is to be noted."""
        broker = self._broker
        now = int(self._now() * 1000)
        sessions = stats.sessions_of(broker)
        vhosts: dict[object, deque[Sample]] = {}
        for vhost in broker.vhosts.values():
            history = self._vhosts.get(vhost) or deque(maxlen=TOTALS_KEPT)
            history.append((now, stats.vhost_values(vhost, sessions)))
            vhosts[vhost] = history
        self._vhosts = vhosts
        sums = [history[-1][1] for history in vhosts.values()]
        self.totals.append((now, stats.broker_values(broker, sums)))
        self.node.append((now, self._node_values()))
        await self._note_singles(now)

    def _node_values(self) -> stats.Values:
        broker = self._broker
        memory, disk = broker.alarms.measured()
        log = broker.storage.log
        if log is None:
            return memory, disk, 0, 0
        confirms = log.timings.confirm
        before = self._confirms or [0] * len(confirms.counts)
        recent = confirms.since(before)
        self._confirms = list(confirms.counts)
        return memory, disk, *(int(recent.interpolated(share) * 1e6) for share in (0.5, 0.99))

    async def _note_singles(self, now: int) -> None:
        keep = SINGLES_KEPT if self._now() <= self._watched_until else UNWATCHED_KEPT
        singles: dict[object, list[Sample]] = {}
        changed: dict[object, int] = {}
        things = iter(self._things())
        while part := list(islice(things, SLICE)):
            for thing, values in part:
                taken = values(thing)
                history = self._singles.get(thing) or self._born(taken)
                if history and history[-1][1] == taken:
                    taken = history[-1][1]  # an idle thing costs a reference per sample
                    changed[thing] = self._changed.get(thing, now)
                else:
                    changed[thing] = now
                if len(history) >= keep:
                    del history[: len(history) - keep + 1]
                history.append((now, taken))
                singles[thing] = history
            await asyncio.sleep(0)
        self._singles = singles
        self._changed = changed
        self._noted_at = now

    def _born(self, taken: stats.Values) -> list[Sample]:
        """What was not there the last time came since then, and had done nothing."""
        return [(self._noted_at, (0,) * len(taken))] if self._noted_at else []

    def _things(self) -> Iterable[tuple[object, Callable[[Any], stats.Values]]]:
        broker = self._broker
        for vhost in tuple(broker.vhosts.values()):
            for queue in tuple(vhost.queues.values()):
                yield queue, stats.queue_values
            for exchange in tuple(vhost.exchanges.values()):
                yield exchange, stats.exchange_values
        for session in stats.sessions_of(broker):
            yield session, stats.connection_values
            for channel in stats.channels_of(session):
                yield channel, stats.channel_values


@lru_cache(maxsize=4096)
def _written(ms: int) -> str:
    """A moment in words; things become idle at the same few moments."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


# -- rates ---------------------------------------------------------------------------------------


class SampleWindow:
    """Which samples the caller wants to see: `age` seconds back, one every `step`.

    RabbitMQ's tools get zeros for the time before the first one; a request for those that are
    ``known`` gets no others.
    """

    __slots__ = ("age", "known", "step")

    def __init__(self, age: int, step: int, *, known: bool = False) -> None:
        self.step = max(step, 1)
        self.age = min(age, self.step * MAX_SAMPLES)
        self.known = known


def window_of(query: Mapping[str, str], kind: str) -> SampleWindow | None:
    """`msg_rates_age` and `msg_rates_incr`, or `lengths_...`, or `data_rates_...`."""
    known = query.get("samples") == "known"
    age, step = query.get(f"{kind}_age", ""), query.get(f"{kind}_incr", "")
    if age.isdigit() and step.isdigit() and len(age + step) < 18:
        return SampleWindow(int(age), int(step), known=known)
    return None


def rate(history: History, index: int) -> float:
    """Per second, between the last two samples."""
    if len(history) < 2:
        return 0.0
    (before, old), (at, new) = history[-2], history[-1]
    return round((new[index] - old[index]) * 1000 / max(at - before, 1), 3)


def details(history: History, index: int, window: SampleWindow | None) -> dict[str, object]:
    """The `X_details` of a number."""
    shown: dict[str, object] = {"rate": rate(history, index)}
    if window is not None:
        samples = _samples(history, index, window)
        values = [value for value, _ in samples]
        shown["samples"] = [{"sample": value, "timestamp": at} for value, at in samples]
        shown["avg_rate"] = _average(history, samples, window.step * 1000)
        shown["avg"] = sum(values) / len(values) if values else 0
    return shown


def _samples(history: History, index: int, window: SampleWindow) -> list[tuple[int, int]]:
    """Newest first, on round moments; before the first sample there was nothing."""
    if not history:
        return []
    step = window.step * 1000
    newest = history[-1][0] // step * step
    moments = [newest - step * back for back in range(window.age // window.step + 1)]
    found: list[tuple[int, int]] = []
    at = len(history) - 1
    for moment in moments:
        while at >= 0 and history[at][0] >= moment + step:
            at -= 1
        if at < 0 and window.known:
            break
        found.append((history[at][1][index] if at >= 0 else 0, moment))
    return found


def _average(history: History, samples: Sequence[tuple[int, int]], step: int) -> float:
    """Per second, over the time that is known of: what came before it did not come in it."""
    known = [one for one in samples if one[1] + step > history[0][0]]
    if len(known) < 2:
        return 0.0
    (new, at), (old, before) = known[0], known[-1]
    return (new - old) * 1000 / (at - before)


def with_details(
    names: Sequence[str],
    wanted: Iterable[str],
    values: stats.Values,
    history: History,
    window: SampleWindow | None = None,
) -> dict[str, object]:
    """Numbers with their details: {"publish": 5, "publish_details": {"rate": 0.2}, ...}."""
    shown: dict[str, object] = {}
    for name in wanted:
        index = names.index(name)
        shown[name] = values[index]
        shown[name + "_details"] = details(history, index, window)
    return shown
