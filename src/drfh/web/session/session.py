"""The book on a page and the answer to it: at once, or in the background where that is slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from drfh.errors import DrfhError, InputError
from drfh.model.scenario import Scenario
from drfh.web.session.answers import Answer, own_mechanism
from drfh.web.session.editing import WorkbookState
from drfh.web.session.solver import Answers, is_quick
from drfh.web.session.steps import Step
from drfh.web.session.workbook import MOST_STEPS, Workbook, base_data

__all__ = ["Session"]

T = TypeVar("T")

_SOLVING = "solving …"


class Session:
    """What a page does with its book; how it looks is for the page to say.

    Parameters
    ----------
    book
        What is open.
    mechanism
        What answers; by default what the scenario asks for.

    Attributes
    ----------
    book, mechanism : Workbook, str
        As they are now.
    shipped_name : str
        Name of the scenario that the book starts from, if that is shipped.
    stale : str
        Why the answer is not to the book as it is; empty if it is.
    """

    def __init__(self, book: Workbook, mechanism: str = "") -> None:
        self.book = book
        self.mechanism = mechanism or own_mechanism(book.scenario)
        self.shipped_name = ""
        self.stale = ""
        self._named: Scenario | None = None
        self._answer: Answer | None = None
        self._answers = Answers()
        self._drop_solving: Callable[[], None] = lambda: None

    # For the page to say

    def changed(self) -> None:
        """Show the book, and the answer if there is one."""
        raise NotImplementedError

    def say(self, words: str, kind: str = "info") -> None:
        """Show a line for a moment; kind is info, positive, warning or negative."""
        raise NotImplementedError

    def background(
        self,
        work: Callable[[], T],
        then: Callable[[T], Any],
        label: str,
        when_dropped: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        """Do work in a thread and hand over what it returns, unless the page is gone by then."""
        raise NotImplementedError

    def stopped(self) -> None:
        """Show that somebody stopped what was under way."""
        if self.stale == _SOLVING:
            self.stale = "not solved: these are the numbers before the last step"
        self.changed()

    # What panels ask

    @property
    def answer(self) -> Answer:
        """The last good answer; panels are there once there is one."""
        assert self._answer is not None
        return self._answer

    @property
    def has_answer(self) -> bool:
        """Whether there is an answer yet."""
        return self._answer is not None

    def do(self, *steps: Step) -> None:
        """Make steps, all or none; raise an InputError if one is refused."""
        state = self.book.state
        for step in steps:
            state = step.apply(state)
        if len(self.book.steps) + len(steps) > MOST_STEPS:
            rule = f"must be at most {MOST_STEPS:,} (save the scenario and start from there)"
            raise InputError("steps", rule)
        # Solved before it is kept: where there is no answer, all stays as it was.
        quick = is_quick(state.scenario, self.mechanism)
        answer = self._answers.solve(state, self.mechanism) if quick else None
        for step in steps:
            self.book.do(step)
        self.solve(answer)

    def undo(self, count: int = 1) -> None:
        """Take the last steps back."""
        for _ in range(count):
            self.book.undo()
        self.solve()

    def redo(self) -> None:
        """Make again what was taken back."""
        self.book.redo()
        self.solve()

    def reset(self) -> None:
        """Take all steps back."""
        self.book.reset()
        self.solve()

    def load(self, book: Workbook, mechanism: str = "") -> None:
        """Begin with another scenario, by default with the mechanism that it asks for."""
        self._change_to(book, mechanism or own_mechanism(book.scenario))

    def choose_mechanism(self, mechanism: str) -> None:
        """Answer with another mechanism."""
        if mechanism != self.mechanism:
            self._change_to(self.book, mechanism)

    def attempt(self, action: Callable[[], Any]) -> bool:
        """Do something that may be refused; say why if it is."""
        try:
            action()
        except DrfhError as error:
            self.say(str(error), "negative")
            return False
        return True

    # Answers

    def solve(self, answer: Answer | None = None) -> None:
        """Answer the book as it is: at once if that is quick, else in the background."""
        self._drop_solving()
        state, mechanism = self.book.state, self.mechanism
        answer = answer or self._at_once(state, mechanism)
        if answer is not None:
            self._take(answer)
            return
        self.stale = _SOLVING
        self.changed()
        self._solve_behind(state, mechanism, self._take, failed="the last step has no answer")

    def _change_to(self, book: Workbook, mechanism: str) -> None:
        """Take another book or mechanism as soon as there is an answer to it."""

        def taken(answer: Answer) -> None:
            self.book, self.mechanism = book, mechanism
            self._take(answer)

        self._drop_solving()
        answer = self._at_once(book.state, mechanism)
        if answer is not None:
            taken(answer)
        else:
            self._solve_behind(book.state, mechanism, taken, failed=self.stale)

    def _at_once(self, state: WorkbookState, mechanism: str) -> Answer | None:
        known = self._answers.known(state, mechanism)
        if known is None and is_quick(state.scenario, mechanism):
            return self._answers.solve(state, mechanism)
        return known

    def _solve_behind(
        self, state: WorkbookState, mechanism: str, taken: Callable[[Answer], None], *, failed: str
    ) -> None:
        def work() -> Answer | DrfhError:
            try:
                return self._answers.solve(state, mechanism)
            except DrfhError as error:
                return error

        def then(found: Answer | DrfhError) -> None:
            if isinstance(found, Answer):
                taken(found)
                return
            self.say(str(found), "negative")
            self.stale = failed
            if not self.has_answer:
                self.mechanism = "drfh"  # it has an answer to whatever is a scenario
                self.solve()
            else:
                self.changed()

        self._drop_solving = self.background(work, then, f"solving with {mechanism}")

    def _take(self, answer: Answer) -> None:
        """Show an answer to the book as it is."""
        self._answer, self.stale = answer, ""
        self._answers.keep(self.book.state, answer)
        if self._named is not self.book.base:  # slow for a large one
            self._named = self.book.base
            base = base_data(self._named)
            self.shipped_name = base if isinstance(base, str) else ""
        self.changed()
