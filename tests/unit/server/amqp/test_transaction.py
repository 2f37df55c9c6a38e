"""Transactions: nothing before commit, everything in order, nothing after rollback."""

from __future__ import annotations

from headrace.server.amqp.transaction import Transaction


def test_steps_wait_for_commit_and_keep_their_order() -> None:
    log: list[str] = []
    transaction = Transaction()
    transaction.publish(lambda: log.append("publish"))
    transaction.settle(lambda: log.append("ack"))
    transaction.publish(lambda: log.append("publish again"))
    assert (log, transaction.publishes, transaction.acks) == ([], 2, 1)

    transaction.commit()

    assert log == ["publish", "ack", "publish again"]
    assert (transaction.publishes, transaction.acks) == (0, 0)


def test_a_committed_step_is_not_done_again() -> None:
    log: list[str] = []
    transaction = Transaction()
    transaction.publish(lambda: log.append("once"))

    transaction.commit()
    transaction.commit()

    assert log == ["once"]


def test_rollback_forgets() -> None:
    log: list[str] = []
    transaction = Transaction()
    transaction.publish(lambda: log.append("never"))

    transaction.rollback()
    transaction.commit()

    assert log == []
    assert (transaction.publishes, transaction.acks) == (0, 0)
