"""How many examples a property test tries: few in `make test`, ten times as many in `make fuzz`."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> int:
    """`count`, or ten times as many under the profile of `make fuzz`."""
    return count * 10 if settings.get_current_profile_name() == "fuzz" else count
