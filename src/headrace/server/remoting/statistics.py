"""Rates of the last minute, hour and day, and figures of the broker for consoles."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from headrace import __version__
from headrace.errors import NotFound
from headrace.wire.remoting.codes import VERSION, RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.admin import ViewStats
from headrace.wire.remoting.json_values import json_bytes

if TYPE_CHECKING:
    from headrace.server.remoting.membership import Member
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState

PUT = "TOPIC_PUT_NUMS"  # by topic
GOT = "GROUP_GET_NUMS"  # by topic@group
BACK = "SNDBCK_PUT_NUMS"  # by topic@group
HOUR, DAY = 60, 1440  # minutes
MAX_KEYS = 10_000  # of all kinds together; more are not counted


class RateSums(NamedTuple):
    """Of the last full minute, and of the hour and the day up to now."""

    minute: int
    hour: int
    day: int


class RateCounters:
    """Counts by kind and key; minutes without any cost nothing."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], deque[list[int]]] = {}

    def add(self, kind: str, key: str, amount: int, minute: int) -> None:
        counts = self._counts.get((kind, key))
        if counts is None:
            if len(self._counts) >= MAX_KEYS:
                return
            counts = self._counts[kind, key] = deque(maxlen=2 * DAY)
        if counts and counts[-1][0] == minute:
            counts[-1][1] += amount
        else:
            counts.append([minute, amount])

    def rate(self, kind: str, key: str, now_ms: int) -> float:
        """Per second, of about the last minute: all of this one, and a share of the one before."""
        minute, rest = divmod(now_ms, 60_000)
        last = list(self._counts.get((kind, key), ()))[-2:]
        counts = {at: amount for at, amount in last}
        return (counts.get(minute, 0) + counts.get(minute - 1, 0) * (1 - rest / 60_000)) / 60

    def rates(self, kind: str, now_ms: int) -> tuple[float, float]:
        """Per second, of everything of a kind: about the last minute, the last ten."""
        one = sum(self.rate(kind, key, now_ms) for which, key in self._counts if which == kind)
        minute = now_ms // 60_000
        return one, self.total(kind, range(minute - 10, minute)) / 600

    def total(self, kind: str, minutes: range) -> int:
        """Of everything of a kind, in these minutes as far as they are kept."""
        kept = [counts for (which, _), counts in self._counts.items() if which == kind]
        return sum(amount for counts in kept for minute, amount in counts if minute in minutes)

    def sums(self, kind: str, key: str, minute: int) -> RateSums | None:
        """None when nothing was ever counted under this name."""
        counts = self._counts.get((kind, key))
        if counts is None:
            return None
        recent = [(minute - at, amount) for at, amount in counts]
        return RateSums(
            sum(amount for age, amount in recent if age == 1),
            sum(amount for age, amount in recent if age < HOUR),
            sum(amount for age, amount in recent if age < DAY),
        )


def _runtime(state: RemotingState, session: Session, request: Command) -> None:
    topics = state.topics.by_name.values()
    bounds = [bound for topic in topics for bound in topic.bounds().values()]
    messages = sum(end for _, end in bounds)
    kept = sum(end - first for first, end in bounds)
    times = [
        time
        for topic in topics
        for track, (first, end) in topic.bounds().items()
        if first < end and (time := topic.time_at(track, first)) is not None
    ]
    shown = {
        "brokerActive": "true",
        "earliestMessageTimeStamp": min(times, default=state.wall_ms()),
        **_day_totals(state, "msgPutTotal", PUT, messages),
        **_day_totals(state, "msgGetTotal", GOT, state.delivered_total),
        "timerCongestNum": len(state.timed_messages),
        "timerReadBehind": 0,
        "timerOffsetBehind": 0,
        "timerEnqueueTps": 0.0,
        "timerDequeueTps": 0.0,
        "ackThreadPoolQueueSize": 0,
        "ackThreadPoolQueueHeadWaitTimeMills": 0,
        "queryThreadPoolQueueSize": 0,
        "queryThreadPoolQueueHeadWaitTimeMills": 0,
        "EndTransactionQueueSize": 0,
        "dispatchBehindBytes": 0,
        "commitLogDiskRatio": f"{session.broker.alarms.disk_used():.4f}",
        "brokerVersionDesc": f"Headrace {__version__}",
        "brokerVersion": VERSION,
        "bootTimestamp": state.started_ms,
        "runtime": f"[ {(state.wall_ms() - state.started_ms) // 1000} seconds ]",
        "messagesKept": kept,
        "messagesSkippedTooLarge": state.skipped_total,
        "topicCount": len(topics),
        "consumerGroupCount": len(state.members.groups),
        "producerGroupCount": len(state.members.producers),
        "connectionCount": len(session.broker.connections),
        "putTps": _rates(state, PUT),
        "getTransferedTps": _rates(state, GOT),
        "getTransferredTps": _rates(state, GOT),
        "pullThreadPoolQueueSize": len(state.long_polls),
        "sendThreadPoolQueueSize": 0,
        "pullThreadPoolQueueHeadWaitTimeMills": 0,  # requests wait in no queue here
        "sendThreadPoolQueueHeadWaitTimeMills": 0,
        "pageCacheLockTimeMills": 0,
        "alarm": session.broker.alarms.reason or "",
    }
    session.respond(
        request, body=json_bytes({"table": {name: str(value) for name, value in shown.items()}})
    )


def _day_totals(state: RemotingState, name: str, kind: str, total: int) -> dict[str, int]:
    """Totals now, this morning and yesterday morning; days are counted since the start."""
    minute = state.wall_ms() // 60_000
    now = datetime.fromtimestamp(state.wall_ms() / 1000)
    morning = minute - (now.hour * 60 + now.minute)
    today = state.rates.total(kind, range(morning, minute + 1))
    yesterday = state.rates.total(kind, range(morning - DAY, morning))
    return {
        f"{name}TodayNow": total,
        f"{name}TodayMorning": total - today,
        f"{name}YesterdayMorning": total - today - yesterday,
    }


def _rates(state: RemotingState, kind: str) -> str:
    """Three numbers, as consoles read them: now, of a minute, of ten."""
    one, ten = state.rates.rates(kind, state.wall_ms())
    return f"{one:.3f} {one:.3f} {ten:.3f}"


def _stats(state: RemotingState, session: Session, request: Command) -> None:
    header = ViewStats.take(request.ext)
    found = state.rates.sums(header.stats_name, header.stats_key, state.wall_ms() // 60_000)
    if found is None:
        raise NotFound(f"nothing is counted as {header.stats_name:.80} {header.stats_key:.255}")
    session.respond(
        request,
        body=json_bytes(
            {
                "statsMinute": _shown(found.minute, 1),
                "statsHour": _shown(found.hour, HOUR),
                "statsDay": _shown(found.day, DAY),
            }
        ),
    )


def _shown(amount: int, minutes: int) -> dict[str, object]:
    return {"sum": amount, "tps": round(amount / (60 * minutes), 3), "avgpt": 0.0}


def _producers(state: RemotingState, session: Session, request: Command) -> None:
    found = {
        group: [_producer(state, member) for member in members.values()]
        for group, members in state.members.producers.items()
    }
    session.respond(request, body=json_bytes({"data": found}))


def _producer(state: RemotingState, member: Member[Session]) -> dict[str, object]:
    return {
        "clientId": member.client_id,
        "remoteIP": member.connection.transport.peer_host,
        "language": member.language.name,
        "version": member.version,
        "lastUpdateTimestamp": state.wall_ms() - (state.now_ms() - member.seen),
    }


HANDLERS: dict[int, Handler] = {
    RequestCode.GET_BROKER_RUNTIME_INFO: _runtime,
    RequestCode.VIEW_BROKER_STATS_DATA: _stats,
    RequestCode.GET_ALL_PRODUCER_INFO: _producers,
}
