"""Publisher confirms: every number answered once, in order, and not before it is safe."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.server.amqp.confirms import Confirms
from headrace.wire.amqp.methods import BasicAck, BasicNack

runs = st.tuples(
    st.integers(1, 12),  # messages
    st.sets(st.integers(0, 11)),  # refused, as far as there are so many
    st.booleans(),  # stored: it has a position in the log
    st.integers(0, 3),  # how far the log gets before the next run
)


def test_nothing_published_needs_no_answer() -> None:
    assert Confirms().take_answers() == []


def test_one_publish_gets_one_ack() -> None:
    confirms = Confirms()
    confirms.add(1, 0)

    assert confirms.take_answers() == [BasicAck(delivery_tag=1, multiple=False)]
    assert confirms.take_answers() == []


def test_a_stretch_gets_one_ack_for_all() -> None:
    confirms = Confirms()
    confirms.add(3, 0)
    confirms.add(2, 0)

    assert confirms.take_answers() == [BasicAck(delivery_tag=5, multiple=True)]


def test_refused_messages_are_nacked_between_the_acks() -> None:
    confirms = Confirms()
    confirms.add(2, 0)
    confirms.add(3, 0, {1})

    assert confirms.take_answers() == [
        BasicAck(delivery_tag=3, multiple=True),
        BasicNack(delivery_tag=4),
        BasicAck(delivery_tag=5, multiple=False),
    ]


def test_stored_messages_wait_for_the_journal_and_hold_up_those_behind() -> None:
    confirms = Confirms()
    confirms.add(1, 0)
    confirms.add(2, 100)
    confirms.add(1, 0)

    assert confirms.take_answers(99) == [BasicAck(delivery_tag=1, multiple=False)]
    assert confirms.is_waiting
    assert confirms.take_answers(100) == [BasicAck(delivery_tag=4, multiple=True)]
    assert not confirms.is_waiting


@given(st.lists(runs, max_size=20))
def test_each_number_is_answered_once_and_not_too_early(
    published: list[tuple[int, set[int], bool, int]],
) -> None:
    confirms = Confirms()
    wrong: set[int] = set()
    unsafe: dict[int, int] = {}  # number -> position it waits for
    verdicts: list[bool] = []
    position = durable = 0
    for count, indices, stored, progress in published:
        refused = {index for index in indices if index < count}
        first = confirms.published + 1
        wrong |= {first + index for index in refused}
        position += stored
        if stored:
            unsafe |= dict.fromkeys(range(first, first + count), position)
        confirms.add(count, position if stored else 0, refused)
        durable = min(position, durable + progress)
        _note(confirms, durable, verdicts)
        assert all(place <= durable for number, place in unsafe.items() if number <= len(verdicts))
    _note(confirms, position, verdicts)

    assert verdicts == [number not in wrong for number in range(1, confirms.published + 1)]
    assert not confirms.is_waiting


def _note(confirms: Confirms, durable: int, verdicts: list[bool]) -> None:
    """Take the answers, and write down the verdict on each number, as a client would."""
    answers = confirms.take_answers(durable)
    for answer in answers:
        assert isinstance(answer, BasicAck | BasicNack)
        new = answer.delivery_tag - len(verdicts)
        assert new >= 1, "answered twice"
        assert new == 1 or answer.multiple, "a number without an answer"
        verdicts += [isinstance(answer, BasicAck)] * new
    kinds = [type(answer) for answer in answers]
    assert (BasicAck, BasicAck) not in pairwise(kinds), "one would do"


# -- other engines --------------------------------------------------------------------------------


def test_what_waits_for_another_engine_holds_back_what_follows() -> None:
    confirms = Confirms()
    confirms.add(1, 0)
    first = confirms.add_pending(2)
    confirms.add(1, 0)

    assert confirms.take_answers(99) == [BasicAck(delivery_tag=1, multiple=False)]
    confirms.resolve(first, 2, 100, refused=False)
    assert confirms.take_answers(99) == []
    assert confirms.take_answers(100) == [BasicAck(delivery_tag=4, multiple=True)]
    assert not confirms.is_waiting


def test_what_another_engine_refused_is_nacked_in_its_place() -> None:
    confirms = Confirms()
    first = confirms.add_pending(2)
    second = confirms.add_pending(1)
    confirms.add(2, 0, {1})
    confirms.resolve(second, 1, 0, refused=False)
    assert confirms.take_answers() == []

    confirms.resolve(first, 2, 0, refused=True)

    assert confirms.take_answers() == [
        BasicNack(delivery_tag=2, multiple=True),
        BasicAck(delivery_tag=4, multiple=True),
        BasicNack(delivery_tag=5, multiple=False),
    ]
