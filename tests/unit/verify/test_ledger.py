"""The ledger finds what it is there for, and nothing else."""

from __future__ import annotations

import pytest

from headrace.verify.ledger import Ledger, make_body, read_body

HOMES = {"q": "q", "r": "r", "dead": "q"}


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(HOMES, unordered=["dead"])


def confirmed(ledger: Ledger, *families: str, transaction: int | None = None) -> int:
    number = ledger.send("p", families or ("q",), transaction)
    ledger.answer([number])
    return number


def see(ledger: Ledger, number: int, queue: str = "q", *, redelivered: bool = False) -> None:
    assert ledger.see(queue, make_body(number, 10), redelivered=redelivered) == number


def consume(ledger: Ledger, number: int, queue: str = "q", *, redelivered: bool = False) -> None:
    see(ledger, number, queue, redelivered=redelivered)
    ledger.ack(queue, number)


def faults(ledger: Ledger) -> list[str]:
    """The kinds of the faults."""
    return [fault.split()[0] for fault in ledger.judge().faults]


def test_a_message_that_is_confirmed_and_acknowledged_is_good(ledger: Ledger) -> None:
    consume(ledger, confirmed(ledger))

    verdict = ledger.judge()

    assert verdict.is_good
    assert (verdict.sent, verdict.confirmed, verdict.seen) == (1, 1, 1)
    assert str(verdict).startswith("1 sent, 1 confirmed, 1 seen (0 redelivered), 0 lost")


def test_a_confirmed_message_that_never_comes_is_lost(ledger: Ledger) -> None:
    confirmed(ledger)

    assert ledger.judge().faults == ("LOST 1 in q: confirmed, never seen",)


def test_a_confirmed_message_must_come_to_every_queue(ledger: Ledger) -> None:
    consume(ledger, confirmed(ledger, "q", "r"), "q")

    assert ledger.judge().faults == ("LOST 1 in r: confirmed, never seen",)


def test_a_message_that_was_seen_and_then_vanished_is_lost(ledger: Ledger) -> None:
    see(ledger, confirmed(ledger))
    ledger.broker_ended()

    assert faults(ledger) == ["LOST"]


def test_a_message_that_was_not_confirmed_may_be_gone(ledger: Ledger) -> None:
    ledger.send("p", ["q"])
    ledger.answer([ledger.send("p", ["q"])], ok=False)

    assert faults(ledger) == []


@pytest.mark.parametrize("body", [b"", b"hello", make_body(1, 10)[:-1] + b"x", make_body(2, 10)])
def test_a_body_that_was_never_sent_is_a_ghost(ledger: Ledger, body: bytes) -> None:
    ledger.send("p", ["q"])

    assert ledger.see("q", body, redelivered=False) is None
    assert faults(ledger) == ["GHOST"]


def test_a_message_in_the_wrong_queue_is_a_ghost(ledger: Ledger) -> None:
    number = ledger.send("p", ["q"])
    ledger.see("r", make_body(number, 10), redelivered=False)

    assert faults(ledger) == ["GHOST"]


def test_a_message_that_was_rolled_back_is_a_ghost(ledger: Ledger) -> None:
    number = ledger.send("p", [])
    ledger.see("q", make_body(number, 10), redelivered=False)

    assert faults(ledger) == ["GHOST"]


def test_a_repetition_must_be_marked(ledger: Ledger) -> None:
    number = confirmed(ledger)
    see(ledger, number)
    ledger.broker_ended()
    see(ledger, number, redelivered=True)
    assert ledger.faults == []

    consume(ledger, number)

    assert faults(ledger) == ["UNMARKED"]


def test_what_the_publisher_repeats_may_come_twice(ledger: Ledger) -> None:
    number = ledger.send("p", ["q"])
    consume(ledger, number)
    ledger.broker_ended()
    ledger.send_again(number)
    consume(ledger, number)

    assert faults(ledger) == []


def test_an_acknowledged_message_may_come_again_unless_the_ack_was_written(ledger: Ledger) -> None:
    number = confirmed(ledger)
    consume(ledger, number)
    ledger.broker_ended()
    consume(ledger, number, redelivered=True)
    assert faults(ledger) == []

    ledger.acks_were_read(ledger.take_sent_acks())
    ledger.prove(ledger.take_unproven())
    ledger.broker_ended()
    see(ledger, number, redelivered=True)

    assert faults(ledger) == ["AGAIN"]


def test_a_dead_message_is_new_where_it_arrives(ledger: Ledger) -> None:
    number = confirmed(ledger)
    see(ledger, number)
    consume(ledger, number, "dead")

    assert faults(ledger) == []


def test_a_move_that_was_written_is_not_repeated(ledger: Ledger) -> None:
    number = confirmed(ledger)
    see(ledger, number, "dead")
    ledger.broker_ended()
    see(ledger, number, "dead")  # the move was undone by the crash, and made again
    assert ledger.faults == []
    ledger.prove(ledger.take_unproven())
    ledger.broker_ended()

    consume(ledger, number, "dead")

    assert faults(ledger) == ["UNMARKED"]


def test_what_a_committed_transaction_took_does_not_come_back(ledger: Ledger) -> None:
    number = confirmed(ledger)
    see(ledger, number)
    ledger.move("q", number)
    consume(ledger, number, redelivered=True)

    assert faults(ledger) == ["AGAIN"]


def test_order_is_judged_per_queue_and_publisher(ledger: Ledger) -> None:
    first, second = confirmed(ledger), confirmed(ledger)
    other = ledger.send("other", ["q"])
    for number in (second, other, first):
        consume(ledger, number)

    assert ledger.judge().faults == ("ORDER 1 in q behind 2",)


def test_a_repetition_in_the_same_life_has_no_order(ledger: Ledger) -> None:
    first, second = confirmed(ledger), confirmed(ledger)
    see(ledger, first)
    consume(ledger, second)
    consume(ledger, first, redelivered=True)

    assert faults(ledger) == []


def test_order_holds_again_after_a_crash(ledger: Ledger) -> None:
    first, second = confirmed(ledger), confirmed(ledger)
    see(ledger, first)
    ledger.broker_ended()
    consume(ledger, second, redelivered=True)
    consume(ledger, first, redelivered=True)

    assert faults(ledger) == ["ORDER"]


def test_a_transaction_without_an_answer_is_there_as_a_whole_or_not_at_all(ledger: Ledger) -> None:
    first = ledger.send("p", ["q"], transaction=1)
    ledger.send("p", ["q"], transaction=1)
    ledger.send("p", ["q"], transaction=2)
    ledger.broker_ended()
    consume(ledger, first, redelivered=True)

    assert ledger.judge().faults == ("TORN transaction 1: [1] are there, [2] are not",)


@pytest.mark.parametrize("size", [0, 1, 17, 1000])
def test_a_body_says_which_message_it_is(size: int) -> None:
    assert read_body(make_body(4711, size)) == 4711
