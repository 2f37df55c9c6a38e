"""Password hashes: ours, RabbitMQ's, and texts that are neither."""

from __future__ import annotations

import base64
import hashlib

import pytest

from headrace.errors import PreconditionFailed
from headrace.model.passwords import (
    LIGHT,
    NO_PASSWORD,
    SCRYPT,
    SHA256,
    SHA512,
    PasswordHash,
    guessed_algorithm,
)

SECRET = "pläntéd sécret"


def rabbit(algorithm: str, password: str, salt: bytes = b"\x90\x8d\xc6\x0a") -> str:
    name = algorithm.rsplit("_", 1)[1]
    return base64.b64encode(salt + hashlib.new(name, salt + password.encode()).digest()).decode()


def test_only_the_password_matches_its_hash() -> None:
    kept = PasswordHash.of(SECRET, LIGHT)

    assert kept.matches(SECRET)
    assert not kept.matches(SECRET + " ")
    assert not kept.matches(SECRET + "\0")
    assert not kept.matches("")
    assert PasswordHash.read(kept.stored) == kept
    assert kept.algorithm == SCRYPT
    assert not kept.is_foreign


def test_equal_passwords_have_different_hashes() -> None:
    assert PasswordHash.of(SECRET, LIGHT).text != PasswordHash.of(SECRET, LIGHT).text


def test_neither_hash_nor_password_is_shown() -> None:
    kept = PasswordHash.of(SECRET, LIGHT)

    assert kept.text not in repr(kept)
    assert SECRET not in repr(kept) + kept.stored


@pytest.mark.parametrize("algorithm", [SHA256, SHA512])
def test_hashes_of_rabbitmq_are_checked(algorithm: str) -> None:
    text = rabbit(algorithm, SECRET)
    kept = PasswordHash.imported(algorithm, text)

    assert kept.matches(SECRET)
    assert not kept.matches("other")
    assert kept.is_foreign
    assert guessed_algorithm(text) == algorithm
    assert PasswordHash.read(kept.stored) == kept


def test_the_example_of_rabbitmqs_documentation_is_checked() -> None:
    kept = PasswordHash.imported(SHA256, "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")

    assert kept.matches("test12")
    assert not kept.matches("test13")


@pytest.mark.parametrize("password", ["", "x", NO_PASSWORD.text])
def test_no_password_opens_an_account_without_one(password: str) -> None:
    assert not NO_PASSWORD.matches(password)
    assert PasswordHash.imported(SHA256, "") is NO_PASSWORD
    assert PasswordHash.read(NO_PASSWORD.stored) is NO_PASSWORD


@pytest.mark.parametrize(
    ("algorithm", "text"),
    [
        (SHA256, "not base64!"),
        (SHA256, "AAAA"),
        ("rabbit_password_hashing_md5", "AAAA"),
        (SCRYPT, "1024$8$1$AAAA"),
        (SCRYPT, "x$8$1$AAAA$AAAA"),
        (SCRYPT, f"1000$8$1$AAAA${'A' * 43}="),
        (SCRYPT, f"{1 << 30}$8$1$AAAA${'A' * 43}="),
        (SCRYPT, f"1024$8$0$AAAA${'A' * 43}="),
        (SCRYPT, "1024$8$1$AAAA$AAAA"),
    ],
)
def test_a_hash_that_cannot_be_checked_is_refused(algorithm: str, text: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        PasswordHash.imported(algorithm, text)

    assert text not in str(caught.value)


def test_the_length_of_a_hash_says_more_than_its_label() -> None:
    kept = PasswordHash.imported(SHA512, rabbit(SHA256, SECRET))

    assert kept.algorithm == SHA256
    assert kept.matches(SECRET)


@pytest.mark.parametrize("text", ["!", "A" * 24])
def test_a_hash_of_unknown_make_is_not_guessed(text: str) -> None:
    assert guessed_algorithm(text) == "an unknown algorithm"


def test_only_the_hash_of_the_default_password_is_public() -> None:
    assert PasswordHash.of("guest").is_public
    assert PasswordHash.imported(SHA256, rabbit(SHA256, "guest")).is_public
    assert not PasswordHash.of("guest2", LIGHT).is_public
    assert not PasswordHash.of("guest2").is_public
    assert not NO_PASSWORD.is_public
