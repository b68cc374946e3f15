"""How many examples a random test takes: few in ``make test``, all in ``make test-slow``."""

from __future__ import annotations

from hypothesis import settings

SLOW = "slow"  # the profile of hypothesis with which make test-slow runs


def examples(count: int) -> int:
    """Return a quarter of a number, but at least 25, or all of it in ``make test-slow``."""
    if settings.get_current_profile_name() == SLOW:
        return count
    return min(count, max(count // 4, 25))
