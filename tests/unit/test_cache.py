"""The bounded cache."""

from __future__ import annotations

from headrace.cache import BoundedCache


def test_a_full_cache_drops_its_oldest_half() -> None:
    cache: BoundedCache[int, str] = BoundedCache(4)
    for number in range(4):
        assert cache.keep(number, str(number)) == str(number)
    cache.keep(4, "4")
    assert cache == {2: "2", 3: "3", 4: "4"}
    assert cache.get(0) is None


def test_a_cache_never_exceeds_its_limit() -> None:
    cache: BoundedCache[int, int] = BoundedCache(1)
    for number in range(10):
        cache.keep(number, number)
        assert cache == {number: number}
