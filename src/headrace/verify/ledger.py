"""The ledger: what was sent, confirmed, seen and acknowledged, message by message; and its judge.

A message goes to one or more families of queues: a queue together with those its messages may move
on to (dead letters, a transaction that moves them). One message in one family is a copy. No I/O.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_SHOWN = 5


class PublishOutcome(enum.Enum):
    """The reply to a publish."""

    UNKNOWN = "unknown"
    CONFIRMED = "confirmed"
    REFUSED = "refused"


@dataclass(slots=True)
class SentMessage:
    """A message as its publisher knows it."""

    number: int
    publisher: str
    families: tuple[str, ...]
    life: int  # of the broker, in which it was sent last
    transaction: int | None = None
    outcome: PublishOutcome = PublishOutcome.UNKNOWN
    tries: int = 1


@dataclass(slots=True)
class DeliveredCopy:
    """A message in one family of queues, as its consumers know it."""

    lives: dict[str, int] = field(default_factory=dict)  # queue -> life in which it was last seen
    seen: int = 0
    acked: bool = False
    moved: bool = False  # a committed transaction took it out of its first queue
    proven: set[str] = field(default_factory=set)  # what is known to be written: ACK, or a queue


ACK = ""  # among the proofs, which else are names of queues
Proof = tuple[DeliveredCopy, str]


class Ledger:
    """Written by the load, judged at the end. ``homes`` maps every queue to its family.

    ``unordered`` queues are those whose order says nothing (messages arrive as consumers reject).
    """

    def __init__(self, homes: Mapping[str, str], unordered: Iterable[str] = ()) -> None:
        self.life = 0
        self.sent: dict[int, SentMessage] = {}
        self.copies: dict[tuple[int, str], DeliveredCopy] = {}
        self.redelivered = 0
        self.faults: list[str] = []
        self._homes = homes
        self._unordered = frozenset(unordered)
        self._latest: dict[tuple[str, str], int] = {}
        self._acks: list[Proof] = []  # sent; the broker may not have read them
        self._taken: list[Proof] = []  # the broker has done this, but may not have written it

    # -- publishers -----------------------------------------------------------------------------

    def send(self, publisher: str, families: Iterable[str], transaction: int | None = None) -> int:
        """A message is about to be sent; returns its number."""
        number = len(self.sent) + 1
        self.sent[number] = SentMessage(number, publisher, tuple(families), self.life, transaction)
        return number

    def send_again(self, number: int) -> None:
        """The publisher repeats what was never answered: from now on it may be there twice."""
        self.sent[number].tries += 1
        self.sent[number].life = self.life

    def answer(self, numbers: Iterable[int], *, ok: bool = True) -> None:
        """The broker has confirmed the messages, or refused them."""
        for number in numbers:
            self.sent[number].outcome = PublishOutcome.CONFIRMED if ok else PublishOutcome.REFUSED

    def unanswered(self) -> list[SentMessage]:
        """Published outside a transaction, outcome unknown."""
        return [
            one
            for one in self.sent.values()
            if one.outcome is PublishOutcome.UNKNOWN and one.transaction is None
        ]

    # -- consumers ------------------------------------------------------------------------------

    def see(self, queue: str, body: bytes, *, redelivered: bool) -> int | None:
        """A message was delivered; returns its number, None if it was never sent."""
        number = read_body(body)
        sent = self.sent.get(number) if number is not None else None
        home = self._homes[queue]
        if sent is None or home not in sent.families:
            self.faults.append(f"GHOST in {queue}: {body[:24]!r} was never sent there")
            return None
        copy = self.copies.setdefault((sent.number, home), DeliveredCopy())
        self.redelivered += redelivered
        self._judge_repetition(sent, copy, queue, redelivered)
        self._judge_order(sent, copy, queue)
        copy.seen += 1
        copy.lives[queue] = self.life
        self._taken.append((copy, queue))
        return sent.number

    def _judge_repetition(
        self, sent: SentMessage, copy: DeliveredCopy, queue: str, redelivered: bool
    ) -> None:
        if sent.tries > 1:
            return
        name = f"{sent.number} in {queue}"
        at_home = queue == self._homes[queue]
        if copy.acked and ACK in copy.proven:
            self.faults.append(f"AGAIN {name}: acknowledged, and the acknowledgement was written")
        elif copy.moved and at_home:
            self.faults.append(f"AGAIN {name}: a committed transaction had taken it")
        elif not redelivered and (copy.seen if at_home else self._was_put_there(copy, queue)):
            self.faults.append(f"UNMARKED {name}: seen before, not marked as redelivered")

    def _was_put_there(self, copy: DeliveredCopy, queue: str) -> bool:
        """Whether it cannot have been moved to ``queue`` again: the first move was not undone."""
        return copy.lives.get(queue) == self.life or queue in copy.proven

    def _judge_order(self, sent: SentMessage, copy: DeliveredCopy, queue: str) -> None:
        """What is seen for the first time in a life of the broker comes as it was sent."""
        again = copy.lives.get(queue) == self.life
        if again or sent.tries > 1 or queue in self._unordered:
            return
        key = (queue, sent.publisher)
        if sent.number < self._latest.get(key, 0):
            self.faults.append(f"ORDER {sent.number} in {queue} behind {self._latest[key]}")
        else:
            self._latest[key] = sent.number

    def ack(self, queue: str, number: int) -> None:
        """An acknowledgement is about to be sent."""
        copy = self.copies[number, self._homes[queue]]
        copy.acked = True
        self._acks.append((copy, ACK))

    def take_sent_acks(self) -> list[Proof]:
        """The acknowledgements sent so far; ask the broker something, then say acks_were_read."""
        sent, self._acks = self._acks, []
        return sent

    def acks_were_read(self, acks: Iterable[Proof]) -> None:
        """The broker has answered something that was sent behind these acknowledgements."""
        self._taken += acks

    def take_unproven(self) -> list[Proof]:
        """What the broker must have written once it confirms a message that is sent now."""
        taken, self._taken = self._taken, []
        return taken

    def prove(self, proofs: Iterable[Proof]) -> None:
        """That message is confirmed."""
        for copy, what in proofs:
            copy.proven.add(what)

    def move(self, queue: str, number: int) -> None:
        """A transaction that took the message out of ``queue`` is committed."""
        self.copies[number, self._homes[queue]].moved = True

    # -- the broker -----------------------------------------------------------------------------

    def broker_ended(self) -> None:
        """Everything that comes from now on comes from another life of the broker."""
        self.life += 1
        self._latest.clear()
        self._acks.clear()
        self._taken.clear()

    # -- the verdict ----------------------------------------------------------------------------

    def judge(self) -> Verdict:
        """Call it when all queues are empty and everything seen is acknowledged."""
        lost = [
            f"LOST {sent.number} in {family}: confirmed, {_fate(copy)}"
            for sent in self.sent.values()
            if sent.outcome is PublishOutcome.CONFIRMED
            for family in sent.families
            if (copy := self.copies.get((sent.number, family))) is None or not copy.acked
        ]
        faults = [*self.faults, *lost, *self._torn_transactions()]
        confirmed = sum(one.outcome is PublishOutcome.CONFIRMED for one in self.sent.values())
        return Verdict(
            sent=len(self.sent),
            confirmed=confirmed,
            seen=sum(copy.seen for copy in self.copies.values()),
            redelivered=self.redelivered,
            faults=tuple(faults),
        )

    def _torn_transactions(self) -> Iterator[str]:
        """Of a transaction without an answer all messages are there after the crash, or none."""
        members: dict[int, list[SentMessage]] = {}
        for sent in self.sent.values():
            if sent.transaction is not None and sent.outcome is PublishOutcome.UNKNOWN:
                members.setdefault(sent.transaction, []).append(sent)
        for number, group in members.items():
            survived = [one.number for one in group if self._survived(one)]
            gone = [one.number for one in group if not self._is_accounted_for(one)]
            if survived and gone:
                yield f"TORN transaction {number}: {survived} are there, {gone} are not"

    def _survived(self, sent: SentMessage) -> bool:
        copies = [self.copies.get((sent.number, family)) for family in sent.families]
        return any(copy and max(copy.lives.values()) > sent.life for copy in copies)

    def _is_accounted_for(self, sent: SentMessage) -> bool:
        copies = [self.copies.get((sent.number, family)) for family in sent.families]
        return all(copy is not None and copy.acked for copy in copies)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the ledger says in the end."""

    sent: int
    confirmed: int
    seen: int
    redelivered: int
    faults: tuple[str, ...]

    def count(self, kind: str) -> int:
        return sum(fault.startswith(kind) for fault in self.faults)

    @property
    def is_good(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        text = (
            f"{self.sent} sent, {self.confirmed} confirmed, {self.seen} seen "
            f"({self.redelivered} redelivered), {self.count('LOST')} lost, "
            f"{self.count('GHOST')} ghosts, {self.count('UNMARKED')} unmarked duplicates"
        )
        shown = self.faults[:_SHOWN]
        more = len(self.faults) - len(shown)
        return "\n".join([text, *shown, *([f"... and {more} more faults"] if more else [])])


def _fate(copy: DeliveredCopy | None) -> str:
    if copy is None:
        return "never seen"
    return f"seen {copy.seen} times, never acknowledged, and gone"


# -- bodies -------------------------------------------------------------------------------------


def make_body(number: int, size: int) -> bytes:
    """A body that says which message it is and whether it is whole."""
    padding = str(number).encode() * (size // len(str(number)) + 1)
    text = b"%d:%b" % (number, padding[:size])
    return b"%08x:%b" % (zlib.crc32(text), text)


def read_body(body: bytes) -> int | None:
    """The number of the message; None when the body is not one of ours, or damaged."""
    crc, _, text = body.partition(b":")
    if crc != b"%08x" % zlib.crc32(text):
        return None
    return int(text.partition(b":")[0])
