"""Open files: as many as the system allows, and some that clients cannot take.

A journal that cannot open its next segment is the end of the broker, so clients are turned away
before they take the last descriptors. HTTP may go on a little longer: it is where one looks.
"""

from __future__ import annotations

import resource

RESERVED = 64
MOST = 1 << 20  # where the system knows no limit


def allow_many() -> None:
    """Raise the soft limit, which is there for programs that use select(), to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def refusal(descriptor: int, *, is_http: bool = False) -> str | None:
    """Why the connection with this descriptor cannot stay, if it cannot.

    The system gives the lowest number that is free: it tells how many are in use.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    kept = min(RESERVED, limit // 4) // (2 if is_http else 1)
    if limit == resource.RLIM_INFINITY or descriptor < limit - kept:
        return None
    return (
        f"{limit} open files are allowed and the last {kept} are not for clients: raise "
        "`ulimit -n`, or LimitNOFILE of the service"
    )
