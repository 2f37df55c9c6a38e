"""What the database can answer instead of a result, and what that means for the caller."""

from __future__ import annotations

from enum import Enum
from typing import Final

from headrace.errors import BodyTooLarge, BrokerError, EngineUnavailable, StoreError


class FaultKind(Enum):
    AGAIN = "nothing was done, it may be tried again at once"
    LOST = "the connection ended before the answer: the outcome is unknown"
    UNREACHABLE = "nothing was done, there is no connection"
    DENIED = "nothing was done, the server does not let us in"
    READ_ONLY = "nothing was done, and this server does not take changes"
    NO_TABLE = "a table is not there"
    TOO_LARGE = "the statement is larger than the server takes"
    OTHER = "anything else"


_CODES: Final = {
    # 3100 and 3101: another node's transaction won. 8022, 8028, 9007: the same on TiDB.
    **dict.fromkeys((1062, 1205, 1213, 3100, 3101, 8022, 8028, 9007), FaultKind.AGAIN),
    # 1053 shutting down, 1180 failed while committing, 1317 interrupted, 1927 and 3024 killed, the
    # rest said by the driver.
    **dict.fromkeys(
        (0, 1053, 1180, 1317, 1927, 2006, 2013, 2014, 2055, 3024, 4031, 9001, 9002, 9005),
        FaultKind.LOST,
    ),
    # 1040, 1203 and 1226 too many connections, 1129 blocked for a while, the rest of the driver.
    **dict.fromkeys((1040, 1129, 1203, 1226, 2002, 2003, 2005, 2026), FaultKind.UNREACHABLE),
    # 1049 no such database, the rest wrong passwords and missing rights.
    **dict.fromkeys((1044, 1045, 1049, 1130, 1698), FaultKind.DENIED),
    # 1047: the node has left its cluster.
    **dict.fromkeys((1047, 1290, 1792, 1836), FaultKind.READ_ONLY),
    **dict.fromkeys((1051, 1146), FaultKind.NO_TABLE),
    **dict.fromkeys((1153, 8025), FaultKind.TOO_LARGE),
}
_NO_PERMISSION: Final = (1142, 1143)  # of a statement on a table, on a column


class Fault(Exception):
    """An answer of the server or the driver. Stays inside the engine."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} (error {code})")
        self.code = code
        self.kind = _CODES.get(code, FaultKind.OTHER)
        if code == 1180 and "149" in text:  # of a commit: rolled back because of a deadlock
            self.kind = FaultKind.AGAIN

    def before_commit(self) -> None:
        """The connection ended before anything was committed."""
        if self.kind is FaultKind.LOST:
            self.kind = FaultKind.UNREACHABLE

    @property
    def is_no_permission(self) -> bool:
        """The user may not make the change, or the server accepts none."""
        return self.code in _NO_PERMISSION or self.kind is FaultKind.READ_ONLY


def refusal(fault: Fault, place: str, unknown: str) -> BrokerError:
    """Error for a caller. ``unknown``: what may have been done when the connection ended."""
    if fault.kind in (FaultKind.UNREACHABLE, FaultKind.DENIED):
        error = EngineUnavailable(f"no connection to {place}: {fault}; nothing was done")
        error.is_denied = fault.kind is FaultKind.DENIED
        return error
    if fault.kind is FaultKind.READ_ONLY:
        return EngineUnavailable(f"{place} takes no changes at present: {fault}; nothing was done")
    if fault.kind is FaultKind.LOST:
        return EngineUnavailable(f"the connection to {place} was lost: {fault}; {unknown}")
    if fault.kind is FaultKind.AGAIN:
        return EngineUnavailable(
            f"{place} is too busy, the statement was refused again and again: {fault}; "
            "nothing was done"
        )
    if fault.kind is FaultKind.TOO_LARGE:
        return BodyTooLarge(f"{place} takes no statement of that size: raise max_allowed_packet")
    return StoreError(f"{place} refused a statement: {fault}; nothing was done")
