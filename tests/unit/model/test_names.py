"""Names the broker makes up, and names it refuses."""

import re

import pytest

from headrace.errors import AccessRefused, PreconditionFailed
from headrace.model.names import check_new_name, generated_consumer_tag, generated_queue_name


def test_generated_names_have_a_prefix_and_22_characters_of_base64url() -> None:
    for random in (bytes(16), b"\xff" * 16, bytes(range(16))):
        assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", generated_queue_name(random))
        assert re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", generated_consumer_tag(random))


def test_other_random_bytes_give_another_name() -> None:
    assert generated_queue_name(bytes(16)) != generated_queue_name(bytes(15) + b"\x01")


def test_too_little_randomness_is_a_bug() -> None:
    with pytest.raises(ValueError, match="16 random bytes"):
        generated_queue_name(b"short")


@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_the_reserved_prefix_is_refused(kind: str) -> None:
    with pytest.raises(AccessRefused) as caught:
        check_new_name(kind, "amq.foo")

    assert str(caught.value) == f"{kind} name 'amq.foo' contains reserved prefix 'amq.*'"


@pytest.mark.parametrize("name", ["amq", "AMQ.foo", "x.amq.y", "a b", "\u00fc" * 127, "n" * 255])
def test_other_names_are_fine(name: str) -> None:
    check_new_name("queue", name)


@pytest.mark.parametrize("name", ["n" * 256, "\u00fc" * 128])
def test_a_name_has_at_most_255_bytes(name: str) -> None:
    with pytest.raises(PreconditionFailed, match="256 bytes, at most 255"):
        check_new_name("queue", name)


def test_bytes_that_are_no_utf8_count_as_bytes() -> None:
    check_new_name("queue", "\udcff" * 255)
