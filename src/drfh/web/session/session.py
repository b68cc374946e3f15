"""A session of the explorer: workbook, mechanism and answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from drfh.errors import DrfhError
from drfh.model.scenario import Scenario
from drfh.web.session.answers import Answer, AnswerCache, is_quick, own_mechanism, solve
from drfh.web.session.steps import Step, WorkbookState
from drfh.web.session.workbook import Workbook, base_to_data

__all__ = ["Session"]

T = TypeVar("T")

_NOT_SOLVED = "not solved: these are the numbers before the last step"


class Session(ABC):
    """A workbook, a mechanism and its answer.

    It is solved at once, or in the background if that is slow. Subclasses are pages: they show what
    changed and run background work.

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
        self._solving = False
        self._named: Scenario | None = None  # the base that shipped_name is of
        self._answer: Answer | None = None
        self._cache = AnswerCache()
        self._cancel_solving: Callable[[], None] = lambda: None

    # For pages to define

    @abstractmethod
    def refresh(self) -> None:
        """Show the book, and the answer if there is one."""

    @abstractmethod
    def notify(self, text: str, kind: str = "info") -> None:
        """Show a line: info, positive, warning or negative."""

    @abstractmethod
    def background(
        self,
        work: Callable[[], T],
        then: Callable[[T], Any],
        label: str,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        """Run work in a thread, then `then`; return what cancels it.

        The page shows the label with a button that stops it. `on_cancel` is called when it is
        cancelled or stopped, or the page is closed: its result is dropped. Errors are notified.
        """

    # The workbook

    @property
    def answer(self) -> Answer:
        """The last answer; panels are there once there is one."""
        assert self._answer is not None
        return self._answer

    @property
    def has_answer(self) -> bool:
        """Whether there is an answer yet."""
        return self._answer is not None

    def do(self, *steps: Step) -> None:
        """Apply steps, all or none."""
        states = self.book.after(*steps)
        # Solved before it is kept: where there is no answer, all stays as it was.
        quick = states and is_quick(states[-1].scenario, self.mechanism)
        answer = solve(states[-1], self.mechanism) if quick else None
        self.book.do(*steps, states=states)
        self.solve(answer)

    def undo(self, count: int = 1) -> None:
        """Undo the last steps."""
        for _ in range(count):
            self.book.undo()
        self.solve()

    def redo(self) -> None:
        """Apply the step that was undone last."""
        self.book.redo()
        self.solve()

    def reset(self) -> None:
        """Undo all steps."""
        self.book.reset()
        self.solve()

    def load(self, book: Workbook, mechanism: str = "") -> None:
        """Open another workbook, by default with its own mechanism."""
        self._change_to(book, mechanism or own_mechanism(book.scenario))

    def rename(self, title: str) -> None:
        """Give the workbook another title; an empty one changes nothing."""
        if title.strip() and title.strip() != self.book.title:
            self.book.rename(title)
            self.refresh()

    def choose_mechanism(self, mechanism: str) -> None:
        """Answer with another mechanism."""
        if mechanism != self.mechanism:
            self._change_to(self.book, mechanism)

    def attempt(self, action: Callable[[], Any]) -> bool:
        """Run an action, notify its error; return whether there was none."""
        try:
            action()
        except DrfhError as error:
            self.notify(str(error), "negative")
            return False
        return True

    # The answer

    def solve(self, answer: Answer | None = None) -> None:
        """Answer the book, in the background unless that is quick."""
        self._cancel_solving()
        state, mechanism = self.book.state, self.mechanism
        answer = answer or self._at_once(state, mechanism)
        if answer is not None:
            self._keep(answer)
            return
        self._solving, self.stale = True, "solving …"
        self.refresh()
        self._solve_later(state, mechanism, self._keep, failed="the last step has no answer")

    def on_stop(self) -> None:
        """Show that background work was stopped."""
        if self._solving:
            self._solving, self.stale = False, _NOT_SOLVED
        self.refresh()

    def _change_to(self, book: Workbook, mechanism: str) -> None:
        """Change the book or mechanism once there is an answer."""

        def change(answer: Answer) -> None:
            self.book, self.mechanism = book, mechanism
            self._keep(answer)

        self._cancel_solving()
        answer = self._at_once(book.state, mechanism)
        if answer is not None:
            change(answer)
        else:
            failed = _NOT_SOLVED if self._solving else self.stale
            self._solve_later(book.state, mechanism, change, failed=failed)

    def _at_once(self, state: WorkbookState, mechanism: str) -> Answer | None:
        known = self._cache.get(state, mechanism)
        if known is None and is_quick(state.scenario, mechanism):
            return solve(state, mechanism)
        return known

    def _solve_later(
        self, state: WorkbookState, mechanism: str, then: Callable[[Answer], None], *, failed: str
    ) -> None:
        def work() -> Answer | DrfhError:
            try:
                return solve(state, mechanism)
            except DrfhError as error:
                return error

        def done(found: Answer | DrfhError) -> None:
            if isinstance(found, Answer):
                then(found)
                return
            self.notify(str(found), "negative")
            self._solving, self.stale = False, failed
            if not self.has_answer:
                self.mechanism = "drfh"  # it has an answer to every scenario
                self.solve()
            else:
                self.refresh()

        self._cancel_solving = self.background(work, done, f"solving with {mechanism}")

    def _keep(self, answer: Answer) -> None:
        """Keep an answer to the book, and show it."""
        self._answer, self._solving, self.stale = answer, False, ""
        self._cache.keep(self.book.state, answer)
        if self._named is not self.book.base:  # slow for a large one
            self._named = self.book.base
            base = base_to_data(self._named)
            self.shipped_name = base if isinstance(base, str) else ""
        self.refresh()
