"""Flipped bits in meta.db: each changes nothing, or is reported. Never a silent change."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from headrace.errors import ConfigError, StoreError
from headrace.store.api.metadata import Declarations
from headrace.store.api.rows import (
    BindingRow,
    CursorRow,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    PinRow,
    PolicyRow,
    QueueRow,
    RetryRow,
    Row,
    SecretRow,
    TopicPermissionRow,
    TopicRow,
    UserLimitsRow,
    UserRow,
    VhostLimitsRow,
)
from headrace.store.sqlite import SqliteMetadata
from support.callback_queue import Handover

CLASSIC = {"x-queue-type": "classic", "x-max-length": 100}


def rows(number: int) -> list[Row]:
    """One of each kind, about the vhost, user, queue and topic of that number."""
    vhost, user, queue, topic = f"v{number % 3}", f"user-{number}", f"q{number}", f"topic-{number}"
    return [
        ExchangeRow(vhost, f"ex{number}", "topic", arguments={"alternate-exchange": "other"}),
        QueueRow(10 * number + 1, f"uuid-q{number}", vhost, queue, arguments=CLASSIC),
        BindingRow(vhost, f"ex{number}", True, queue, "orders.#", {"x-match": "any"}),
        TopicRow(vhost, topic, f"u{number}", 2, 5, {}, {"0.0": 10 * number + 2}, 10 * number + 2),
        CursorRow(f"u{number}", "billing", "", 0, 0, "claims", 40 + number, 0, (44, 50)),
        RetryRow(f"u{number}", "billing", 0, 0, 42, reason="no such order"),
        PinRow(vhost, f"archive-{number}", "queue", queue, f"uuid-q{number}", 1 << 30, 7, {"0": 3}),
        PolicyRow(vhost, f"policy-{number}", "^orders", "queues", 1, {"max-length": 10}),
        ParameterRow(vhost, "shovel", f"parameter-{number}", {"value": "on"}),
        UserRow(user, "scrypt:c2FsdA:aGFzaA", ("monitoring",)),
        SecretRow(user, "a-secret-of-this-user"),
        PermissionRow(user, vhost, "", "^orders", ".*"),
        TopicPermissionRow(user, vhost, f"ex{number}", "^eu", ""),
        UserLimitsRow(user, {"max-channels": 3}),
    ]


def populate(directory: Path) -> bytes:
    store = SqliteMetadata(directory)
    Handover().start(store)
    for number in range(3):
        store.save_vhost(f"v{number}")
        store.save(VhostLimitsRow(f"v{number}", {"max-queues": 40 + number}))
    for number in range(24):
        for row in rows(number):
            store.save(row)
    store.close()
    return (directory / "meta.db").read_bytes()


def change(directory: Path) -> Declarations:
    """What an ordinary day does to the file; returns how it looks after that."""
    store = SqliteMetadata(directory)
    store.load()
    Handover().start(store)
    for number in range(0, 24, 2):
        store.save(CursorRow(f"u{number}", "billing", "", 0, 0, "claims", 99))
        store.delete(QueueRow(10 * number + 1, "", f"v{number % 3}", f"q{number}"))
        store.delete(UserRow(f"user-{number}", ""))
    store.close()
    return loaded(directory)


def loaded(directory: Path) -> Declarations:
    store = SqliteMetadata(directory)
    try:
        return store.load()
    finally:
        store.close()


def verdict(directory: Path, before: Declarations, after: Declarations) -> str:
    try:
        found = loaded(directory)
        if found.damaged:
            return "reported"
        if found != before or change(directory) != after:
            return "silent"
    except (StoreError, ConfigError):
        return "refused"
    return "nothing visible"


def flip_bits(tmp_path: Path, seed: int, count: int) -> Counter[str]:
    (tmp_path / "whole").mkdir()
    data = populate(tmp_path / "whole")
    used = [at for at, byte in enumerate(data) if byte]
    before, after = loaded(tmp_path / "whole"), change(tmp_path / "whole")
    chance = random.Random(seed)
    found: Counter[str] = Counter()
    for _ in range(count):
        at, bit = chance.choice(used), chance.randrange(8)
        (tmp_path / "hurt").mkdir()
        damaged = bytearray(data)
        damaged[at] ^= 1 << bit
        (tmp_path / "hurt" / "meta.db").write_bytes(damaged)
        one = verdict(tmp_path / "hurt", before, after)
        assert one != "silent", f"bit {bit} of byte {at}"
        found[one] += 1
        shutil.rmtree(tmp_path / "hurt")
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_flipped_bit_in_the_metadata_is_never_silent(tmp_path: Path, seed: int) -> None:
    found = flip_bits(tmp_path, seed, 40)

    assert found["reported"] > 20, found


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(100, 110))
def test_three_thousand_flipped_bits_in_the_metadata(tmp_path: Path, seed: int) -> None:
    found = flip_bits(tmp_path, seed, 300)

    assert found["reported"] > 150, found
