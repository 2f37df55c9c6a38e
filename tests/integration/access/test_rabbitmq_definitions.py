"""Users of a real RabbitMQ 3.10.8: its export loads as it is, its users log in, and it comes back.

The file was exported from a broker on which the passwords below were set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.definitions import export_access, hash_passwords, import_access
from headrace.errors import LoginRefused
from headrace.model.passwords import SCRYPT, SHA256, SHA512
from headrace.testing import run_broker
from support.access_matrix import Site

EXPORT = Path(__file__).with_name("rabbitmq-3.10-definitions.json")
PASSWORDS = {"ann": "s3cret-ann", "bob": "test12", "carl": "s3cret-512", "guest": "guest"}
HERE = "127.0.0.1"


@pytest.fixture
def site() -> Iterator[Site]:
    with run_broker(sync=False, load_definitions=EXPORT) as running:
        yield Site(running)


def test_its_users_log_in_and_their_hashes_become_ours(site: Site) -> None:
    def algorithms() -> dict[str, str]:
        listed = site.do(lambda broker: broker.users.list_users())
        return {one.name: one.hashing_algorithm for one in listed if one.name in PASSWORDS}

    assert algorithms() == {"ann": SHA256, "bob": SHA256, "carl": SHA512, "guest": SHA256}
    for name, password in PASSWORDS.items():
        with pytest.raises(LoginRefused):
            site.wait(lambda b, n=name: b.users.authenticate(n, "other", HERE))
        user = site.wait(lambda b, n=name, p=password: b.users.authenticate(n, p, HERE))
        assert user.name == name
    assert set(algorithms().values()) == {SCRYPT}
    for name, password in PASSWORDS.items():  # and the new hash is of the same password
        site.do(lambda b: b.users.logins._proofs.clear())
        assert site.wait(lambda b, n=name, p=password: b.users.authenticate(n, p, HERE))


def test_a_user_without_password_stays_without(site: Site) -> None:
    for password in ("", "sha512"):
        with pytest.raises(LoginRefused):
            site.wait(lambda b, p=password: b.users.authenticate("sha512", p, HERE))


def test_permissions_and_limits_come_along(site: Site) -> None:
    ann = site.do(lambda broker: broker.users.user("ann"))
    bob = site.do(lambda broker: broker.users.user("bob"))

    assert ann.tags == {"monitoring"}
    assert ann.limits == {"max-channels": 2, "max-connections": 1}
    assert ann.permissions["/"].read == "^mine"
    assert ann.permissions["shop"].configure == ""
    assert bob.topics["/", "amq.topic"].allows("write", "bob.1")
    assert not bob.topics["/", "amq.topic"].allows("write", "ann.1")
    limits = site.do(lambda broker: broker.users.vhost_limits())
    assert limits == {"shop": {"max-connections": 0, "max-queues": 1}}


def test_the_default_user_is_not_added_to_imported_ones(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(
        json.dumps({"vhosts": [{"name": "/"}], "users": [{"name": "only", "password_hash": ""}]})
    )
    with run_broker(sync=False, load_definitions=file) as running:
        names = running._running().call(_names)

    assert names == ["only"]


async def _names(server: object) -> list[str]:
    return [account.name for account in server.broker.users.list_users()]  # type: ignore[attr-defined]


def test_what_is_exported_is_what_was_imported(site: Site) -> None:
    given = json.loads(EXPORT.read_text())
    site.do(lambda broker: broker.users.delete_user("tester"))
    exported = site.do(lambda broker: export_access(broker.users))

    def by_text(items: list[dict[str, object]]) -> list[str]:
        return sorted(json.dumps(item, sort_keys=True) for item in items)

    for user in given["users"]:
        if user["name"] == "bob":  # RabbitMQ had noted the wrong algorithm; the length tells
            assert user["hashing_algorithm"] == SHA512
            user["hashing_algorithm"] = SHA256
        if not user["password_hash"]:
            user["hashing_algorithm"] = SCRYPT
    for kind in ("users", "permissions", "topic_permissions", "parameters"):
        assert by_text(exported[kind]) == by_text(given[kind]), kind


def test_an_export_with_our_hashes_can_be_imported_again(site: Site) -> None:
    site.wait(lambda broker: broker.users.put_user("dora", password="pw", tags=["a", "b"]))
    before = site.do(lambda broker: export_access(broker.users))
    site.do(lambda broker: broker.users.delete_user("dora"))
    site.do(lambda broker: list(import_access(broker.users, before)))

    assert site.do(lambda broker: export_access(broker.users)) == before
    assert site.wait(lambda broker: broker.users.authenticate("dora", "pw", HERE))


def test_a_password_in_plain_text_is_hashed_off_the_loop_and_not_kept(site: Site) -> None:
    data = {"users": [{"name": "eve", "password": "plain", "tags": "management,monitoring"}]}
    prepared = site.wait(lambda broker: hash_passwords(broker.users, data))
    assert "plain" not in json.dumps(prepared)
    site.do(lambda broker: list(import_access(broker.users, prepared)))

    user = site.wait(lambda broker: broker.users.authenticate("eve", "plain", HERE))
    assert user.tags == {"management", "monitoring"}
