"""A broker on a damaged meta.db: the rest is served, nothing is dropped, no right is gained."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pika
import pytest
from pika.exceptions import ProbableAccessDeniedError, ProbableAuthenticationError

from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.data_directory import read_format
from headrace.store.disk import RealDisk
from headrace.store.log.commit_log import CommitLog
from headrace.store.tools.offline import LogDriver
from support.recovery_site import Site


def damage(site: Site, sql: str) -> None:
    """Change rows and not their sums, as a disk does."""
    with closing(sqlite3.connect(site.node.data / "meta.db", isolation_level=None)) as connection:
        assert connection.execute(sql).rowcount > 0


def fsck(site: Site, *flags: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "headrace", "fsck", str(site.node.data), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def filled(site: Site) -> None:
    channel = site.channel()
    for name in ("orders", "mail"):
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "amq.topic", f"{name}.#")
        site.publish(channel, name, f"{name} 1", f"{name} 2")
    site.stop()


ORDERS = "WHERE name = CAST('orders' AS BLOB)"


def test_messages_of_a_damaged_queue_wait_for_its_repair(site: Site) -> None:
    filled(site)
    damage(site, f"UPDATE queues SET arguments = x'0000000003' {ORDERS}")

    for number in range(3):  # higher numbers are given, and it stops cleanly
        site.node.start()
        assert not site.has_queue("orders")
        channel = site.channel()
        channel.queue_declare(f"new {number}", durable=True)
        assert site.ready(channel, "mail") == 2
        site.stop()

    log = site.node.log()
    assert "meta.db: table queues: '/' 'orders' is damaged" in log
    assert "meta.db: table bindings: '/' 'amq.topic' True 'orders' 'orders.#' {} binds" in log
    assert "2 messages of queue number 1 are kept" in log
    code, said = fsck(site)
    assert (code, "table queues: '/' 'orders' is damaged" in said) == (1, True)
    assert "2 messages of queue number 1, which is not declared" in said
    code, said = fsck(site, "--repair")
    assert (code, "declared queue '/ orphan.1' again" in said) == (0, True)
    assert fsck(site)[0] == 0
    site.node.start()
    assert site.bodies("orphan.1") == ["orders 1", "orders 2"]
    assert site.bodies("mail") == ["mail 1", "mail 2"]


def test_a_repair_takes_a_queue_as_it_reads_with_its_bindings(site: Site) -> None:
    filled(site)
    damage(site, f"UPDATE queues SET auto_delete = 1 {ORDERS}")
    site.node.start()
    site.stop()

    assert fsck(site, "--repair")[0] == 0

    site.node.start()
    assert site.bodies("orders") == ["orders 1", "orders 2"]
    channel = site.channel()
    channel.basic_publish("amq.topic", "orders.eu", b"routed")
    assert site.bodies("orders") == ["routed"]


def test_a_queue_declared_again_leaves_the_old_messages_to_the_repair(site: Site) -> None:
    filled(site)
    damage(site, f"UPDATE queues SET auto_delete = 1 {ORDERS}")
    site.node.start()
    channel = site.channel()
    channel.queue_declare("orders", durable=True)
    site.publish(channel, "orders", "new")
    site.stop()

    assert fsck(site, "--repair")[0] == 0

    site.node.start()
    assert site.bodies("orders") == ["new"]
    assert site.bodies("orphan.1") == ["orders 1", "orders 2"]


def test_a_deleted_queue_leaves_no_orphan(site: Site) -> None:
    filled(site)
    site.node.start()
    channel = site.channel()
    channel.queue_delete("orders")
    site.stop()

    assert fsck(site, "--json")[0] == 0
    assert not any(one["kept"] for one in json.loads(fsck(site, "--json")[1])["orphans"])
    site.node.start()
    assert "are kept" not in site.node.log()


def test_a_vhost_whose_row_is_damaged_is_served(site: Site) -> None:
    filled(site)
    damage(site, "UPDATE vhosts SET name = x'30'")

    site.node.start()

    assert site.bodies("mail") == ["mail 1", "mail 2"]
    assert "meta.db: table vhosts: '0' is damaged" in site.node.log()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE users SET tags = x'4100000000'",
        "UPDATE users SET name = CAST('guesu' AS BLOB)",
        "UPDATE permissions SET write = x''",
    ],
)
def test_a_damaged_user_or_permission_gives_no_rights(site: Site, sql: str) -> None:
    filled(site)
    damage(site, sql)

    site.node.start()

    with pytest.raises((ProbableAccessDeniedError, ProbableAuthenticationError)):
        site.channel()
    assert "Traceback" not in site.node.log()


def test_no_user_is_made_when_the_users_are_gone(site: Site) -> None:
    filled(site)
    with closing(sqlite3.connect(site.node.data / "meta.db", isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS users_deleted")
        assert connection.execute("DELETE FROM users").rowcount == 1

    site.node.start()

    with pytest.raises((ProbableAccessDeniedError, ProbableAuthenticationError)):
        site.channel()
    assert "no user can be read, so no client can log in: stop" in site.node.log()
    site.stop()
    code, said = fsck(site, "--repair")
    assert (code, "no user is left: the next start creates the default user" in said) == (0, True)
    site.node.start()
    assert site.bodies("mail") == ["mail 1", "mail 2"]


def test_definitions_bring_a_user_in_place_of_those_that_are_lost(
    site: Site, tmp_path: Path
) -> None:
    filled(site)
    damage(site, "UPDATE users SET tags = x'4100000000'")
    rights = {"vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    definitions = {
        "users": [{"name": "operator", "password": "secret", "tags": "administrator"}],
        "permissions": [{"user": "operator", **rights}],
    }
    file = tmp_path / "operator.json"
    file.write_text(json.dumps(definitions))
    site.node.start(HEADRACE_LOAD_DEFINITIONS=str(file))

    with pytest.raises(ProbableAuthenticationError):
        site.channel()
    credentials = pika.PlainCredentials("operator", "secret")
    parameters = pika.ConnectionParameters("127.0.0.1", site.node.port, credentials=credentials)
    with closing(pika.BlockingConnection(parameters)) as connection:
        assert site.ready(connection.channel(), "mail") == 2
    assert "no user can be read" not in site.node.log()
    site.stop()
    assert "table users: 'guest' is damaged" in fsck(site)[1]  # kept for the repair


def test_an_older_copy_of_the_metadata_is_refused_until_it_is_accepted(site: Site) -> None:
    filled(site)
    file = site.node.data / "meta.db"
    older = file.read_bytes()
    site.node.start()
    channel = site.channel()
    channel.queue_declare("later", durable=True)
    site.publish(channel, "later", "confirmed")
    site.stop()
    file.write_bytes(older)
    said = len(site.node.log())

    site.node.launch()

    assert site.node.wait(10) == 1
    (line,) = site.node.log()[said:].splitlines()
    assert "meta.db cannot be used: it is of generation" in line
    assert file.read_bytes() == older
    code, report = fsck(site)
    assert (code, "it is an older copy" in report) == (1, True)
    assert fsck(site, "--repair")[0] == 0
    site.node.start()
    assert site.bodies("orphan.3") == ["confirmed"]
    assert site.bodies("mail") == ["mail 1", "mail 2"]


def test_messages_of_a_queue_never_declared_are_kept(site: Site) -> None:
    """As after a crash, with a meta.db that is older than the queue, which no checkpoint knows."""
    filled(site)
    disk = RealDisk(site.node.data / "journal")
    log = CommitLog(disk, lambda: 1000, format_2_from=read_format(site.node.data))
    driver, placed = LogDriver(log), [RecordDestination(9, 0, 2)]
    log.append(OutgoingMessages([b"a", b"b"], placed, DurabilityLevel.FSYNC, key="k"))
    driver.commit()
    log.close()

    for number in range(3):  # higher numbers are given
        site.node.start()
        site.channel().queue_declare(f"new {number}", durable=True)
        site.stop()

    assert site.node.log().count("2 messages of queue number 9 are kept") == 3
    code, report = fsck(site)
    assert (code, "2 messages of queue number 9, which is not declared" in report) == (0, True)
    assert "declared queue '/ orphan.9' again" in fsck(site, "--repair")[1]
    site.node.start()
    assert site.has_queue("orphan.9")
