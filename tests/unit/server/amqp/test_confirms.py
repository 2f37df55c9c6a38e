"""Publisher confirms: every number answered once, in few frames."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.server.amqp.confirms import Confirms
from headrace.wire.amqp.methods import BasicAck, BasicNack


def publish(confirms: Confirms, count: int, refused: set[int] | None = None) -> None:
    first = confirms.published + 1
    confirms.published += count
    if refused:
        confirms.refuse(first, refused)


def test_nothing_published_needs_no_answer() -> None:
    assert Confirms().take_answers() == []


def test_one_publish_gets_one_ack() -> None:
    confirms = Confirms()
    publish(confirms, 1)

    assert confirms.take_answers() == [BasicAck(delivery_tag=1, multiple=False)]
    assert confirms.take_answers() == []


def test_a_stretch_gets_one_ack_for_all() -> None:
    confirms = Confirms()
    publish(confirms, 3)
    publish(confirms, 2)

    assert confirms.take_answers() == [BasicAck(delivery_tag=5, multiple=True)]


def test_refused_messages_are_nacked_between_the_acks() -> None:
    confirms = Confirms()
    publish(confirms, 2)
    publish(confirms, 3, {1})

    assert confirms.take_answers() == [
        BasicAck(delivery_tag=3, multiple=True),
        BasicNack(delivery_tag=4),
        BasicAck(delivery_tag=5, multiple=False),
    ]


@given(
    st.lists(st.tuples(st.integers(1, 12), st.sets(st.integers(0, 11)), st.booleans()), max_size=20)
)
def test_each_number_is_answered_once_and_acks_never_touch(
    runs: list[tuple[int, set[int], bool]],
) -> None:
    confirms = Confirms()
    wrong: set[int] = set()
    verdicts: list[bool] = []
    for count, indices, flush in [*runs, (1, set(), True)]:
        refused = {index for index in indices if index < count}
        wrong |= {confirms.published + 1 + index for index in refused}
        publish(confirms, count, refused)
        if flush:
            _note(confirms, verdicts)

    assert verdicts == [number not in wrong for number in range(1, confirms.published + 1)]


def _note(confirms: Confirms, verdicts: list[bool]) -> None:
    """Answer, and write the verdict on each number at its place, as a client would."""
    answers = confirms.take_answers()
    for answer in answers:
        assert isinstance(answer, BasicAck | BasicNack)
        new = answer.delivery_tag - len(verdicts)
        assert new >= 1, "answered twice"
        assert new == 1 or answer.multiple, "a number without an answer"
        verdicts += [isinstance(answer, BasicAck)] * new
    kinds = [type(answer) for answer in answers]
    assert (BasicAck, BasicAck) not in pairwise(kinds), "one would do"
