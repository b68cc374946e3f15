"""Answers for the page: at once where that is quick, the last ones kept for undo."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, cast

from drfh.model.scenario import Scenario
from drfh.model.users import User
from drfh.web.session.answers import Answer, answer_of
from drfh.web.session.editing import WorkbookState
from drfh.web.session.workbook import Workbook

__all__ = ["Answers", "is_quick", "solved_words", "took_words"]

_KEPT = 8
# Pairs of user and server group up to which a linear program is quick; and without one.
_MOST_PAIRS = 2_500
_MOST_SIMPLE_PAIRS = 200_000


class _SolveRequest(NamedTuple):
    """What :func:`answer_of` reads of a workbook, which may change meanwhile."""

    scenario: Scenario
    truths: dict[str, User]


class Answers:
    """Answers a page has had, by state and mechanism."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], tuple[WorkbookState, Answer]] = OrderedDict()

    def known(self, state: WorkbookState, mechanism: str) -> Answer | None:
        """Return the answer if it was given lately."""
        state_kept, answer = self._kept.get((id(state), mechanism), (None, None))
        return answer if state_kept is state else None

    def keep(self, state: WorkbookState, answer: Answer) -> None:
        """Keep an answer for a while."""
        self._kept[id(state), answer.mechanism] = state, answer
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def solve(self, state: WorkbookState, mechanism: str) -> Answer:
        """Return the answer, from any thread; nothing is kept yet."""
        truths = {name: state.really(name) for name in state.truths}
        return answer_of(cast(Workbook, _SolveRequest(state.scenario, truths)), mechanism)


def is_quick(scenario: Scenario, mechanism: str) -> bool:
    """Return whether a page may wait for an answer.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> scenario = load_scenario("google-2011")
    >>> is_quick(scenario, "drfh"), is_quick(scenario, "nash")
    (True, False)
    """
    if mechanism != "drfh":
        return False
    pairs = len(scenario.users) * len(scenario.cluster)
    simple = all(user.servers is None for user in scenario.users)
    return pairs <= (_MOST_SIMPLE_PAIRS if simple else _MOST_PAIRS)


def took_words(seconds: float) -> str:
    """Return how long something took.

    Examples
    --------
    >>> took_words(0.00042), took_words(0.171), took_words(2.53)
    ('0.4 ms', '171 ms', '2.5 s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.{1 if seconds < 0.01 else 0}f} ms"
    return f"{seconds:.1f} s"


def solved_words(answer: Answer) -> str:
    """Return how an answer was found and how sure it is.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from drfh import load_scenario
    >>> answer = answer_of(Workbook(load_scenario("paper-two-servers")))
    >>> solved_words(replace(answer, seconds=0.0004, gap=1.2e-16))
    'exact, 0.4 ms, gap 1e-16'
    >>> solved_words(replace(answer, seconds=2.5, gap=None, proven=False))
    '2.5 s'
    """
    took = took_words(answer.seconds)
    if answer.gap is None:
        return took
    gap = "0" if answer.gap == 0 else f"{answer.gap:.0e}".replace("e-0", "e-")
    return f"{'exact' if answer.proven else 'not proven'}, {took}, gap {gap}"
