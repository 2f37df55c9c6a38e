"""Headers of transactional messages: the end that the producer decides, and the question for it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.flags import SysFlag
from headrace.wire.remoting.headers.fields import Header, named

COMMIT = int(SysFlag.TRANSACTION_COMMIT)
ROLLBACK = int(SysFlag.TRANSACTION_ROLLBACK)
UNKNOWN = 0


@dataclass(frozen=True, slots=True)
class EndTransaction(Header):
    """Commit, roll back, or not known yet."""

    CODE = RequestCode.END_TRANSACTION

    producer_group: str
    tran_state_table_offset: int  # queue offset of the half message
    commit_log_offset: int  # its physical offset
    commit_or_rollback: int
    from_transaction_check: bool = False
    msg_id: str = ""
    transaction_id: str | None = None
    topic: str | None = None
    broker_name: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class CheckTransaction(Header):
    """The broker asks what became of a half message; the body is the message."""

    CODE = RequestCode.CHECK_TRANSACTION_STATE

    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None  # the producer's id
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    broker_name: str | None = named("bname", None)
