"""The panel "Play": a simulation of the scenario, to be watched; one policy, or two in step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drfh.errors import DrfhError
from drfh.formatting import format_clock, format_duration
from drfh.model.scenario import Scenario
from drfh.report.html import Cell, Content, Markup, table, tag
from drfh.web.components.jobs import PanelJob, ReportProgress
from drfh.web.play.film import Film
from drfh.web.play.run import Played, is_small, play
from drfh.web.play.workload import Asked, Piece, check_size, offers, piece_of
from drfh.web.session.answers import Answer

if TYPE_CHECKING:
    from nicegui import ui

    from drfh.web.components.panel import Page
    from drfh.web.play.stage import Stage

__all__ = ["POLICIES", "PlayPanel", "piece_table"]

#: What the page plays: name → what it does, in a few words.
POLICIES: dict[str, str] = {
    "best-fit-drfh": "lowest share first, on the server that it fits best",
    "first-fit-drfh": "lowest share first, on the first server that has room",
    "slots:14": "equal slots, as Hadoop does",
    "fifo": "first in, first out",
    "mesos": "lowest share first, on any server that has room",
    "drfh+cosine": "lowest share first, on the server with the most similar rest",
    "tsf": "fewest tasks as a part of what each could run alone, best fit",
}
_NONE = ""
_MOST_LISTED = 12
_MOST_KEPT = 3  # films, for another policy beside them
# Made-up workloads that take too long to make to be shown before they run.
_SLOW = ("google-like",)


class PlayPanel:
    """A simulation to watch.

    Attributes
    ----------
    name, title, icon : str
        See :class:`drfh.web.components.panel.Panel`.
    """

    name = "play"
    title = "Play"
    icon = "play_circle"

    _page: Page
    _workload: ui.select
    _policy: ui.select
    _beside: ui.select
    _start: ui.button
    _about: ui.html
    _working: PanelJob
    _stale: ui.html
    _stage: Stage

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._first = "users"  # what is chosen until somebody chooses
        # What was simulated last: what, on which scenario, and the films so far.
        self._key = ""
        self._scenario: Scenario | None = None
        self._words = ""
        self._films: dict[str, Film] = {}

    def build(self, page: Page) -> None:
        """Make its elements."""
        from nicegui import ui

        from drfh.web.play.stage import STAGE_STYLE, Stage

        self._page = page
        ui.add_css(STAGE_STYLE)
        listed = {name: f"{name}: {words}" for name, words in POLICIES.items()}
        with ui.element("section").classes("drfh-panel").props('aria-label="Play"'):
            with ui.element("div").classes("tools choose"):
                self._workload = ui.select({"users": ""}, value="users", label="Play")
                self._policy = ui.select(listed, value="best-fit-drfh", label="with the policy")
                self._beside = ui.select(
                    {_NONE: "nothing beside it", **listed}, value=_NONE, label="and beside it"
                )
                for chooser, name in (
                    (self._workload, "workload"),
                    (self._policy, "policy"),
                    (self._beside, "beside"),
                ):
                    chooser.props(f"dense options-dense data-testid=play-{name}").classes("wide")
                    chooser.on_value_change(self._offer)
                self._start = ui.button("Run", icon="play_arrow", on_click=self._run)
                self._start.props("no-caps data-testid=play-start")
            self._working = PanelJob(page, "play", self._offer)
            self._about = ui.html("", sanitize=False)
            self._about.props("data-testid=play-about aria-live=polite")
            self._stale = ui.html("", sanitize=False)
            self._stale.props("data-testid=play-stale role=status")
            self._stage = Stage()

    def show(self, answer: Answer) -> None:
        """Offer to play the scenario of an answer; what was played stays."""
        if self._answer is answer:
            return
        self._answer = answer
        found = offers(answer.scenario, self._page.trace)
        chosen = self._workload.value
        if chosen == self._first or chosen not in found:  # nobody has chosen another
            chosen = next(iter(found))
        self._first = next(iter(found))
        self._workload.set_options(found, value=chosen)
        self._offer()

    def _asked(self) -> Asked | None:
        if self._answer is None:
            return None
        trace = self._page.trace
        tasks = self._answer.fair.assignment.user_tasks
        return Asked(
            str(self._workload.value),
            self._answer.scenario,
            tuple(np.asarray(tasks, dtype=float).tolist()),
            None if trace is None else (trace.cluster, trace.workload, trace.window),
        )

    @property
    def _policies(self) -> list[str]:
        return list(dict.fromkeys(filter(None, (self._policy.value, self._beside.value))))

    def _offer(self) -> None:
        """Say what will be played, and what is shown meanwhile."""
        asked = self._asked()
        if asked is None:
            return
        shown = bool(self._stage.films)
        same = asked.key == self._key and asked.scenario is self._scenario
        current = same and [film.policy for film in self._stage.films] == self._policies
        self._start.set_text("Run again" if current else "Run")
        words = ""
        if shown and asked.scenario is not self._scenario:
            words = "The scenario has changed since: what is shown below is the run before that."
        elif shown and not current:
            words = "What is shown below is the run before: press Run for what is chosen now."
        self._stale.set_content(tag("p", f"⚠ {words}", "mark wrap") if words else "")
        self._start.set_enabled(True)
        if current:
            self._about.set_content(tag("p", self._words, "note"))
            return
        try:
            self._about.set_content(self._preview(asked, short=shown))
        except DrfhError as error:
            self._start.set_enabled(False)
            self._about.set_content(tag("p", f"✘ {error}", "mark fails"))

    def _preview(self, asked: Asked, *, short: bool) -> Markup:
        if asked.key in _SLOW:
            words = f"{offers(asked.scenario)[asked.key]}. It is drawn when it runs."
            return tag("p", f"{words} It may take a while, and can be stopped.", "note")
        piece = piece_of(asked)
        check_size(piece)
        words = f"{piece.words} Press Run, and watch the servers fill."
        if not is_small(piece):
            words += " It may take a while, and can be stopped."
        if short:
            return tag("p", piece.words, "note")
        return tag("p", words, "headline") + piece_table(piece)

    def _run(self) -> None:
        asked = self._asked()
        if asked is None:
            return
        from nicegui import ui

        client, policies = ui.context.client, self._policies
        same = asked.key == self._key and asked.scenario is self._scenario
        known = dict(list(self._films.items())[-_MOST_KEPT:]) if same else {}
        missing = [policy for policy in policies if policy not in known]
        self._stage.pause()

        def work(tell: ReportProgress) -> Played:
            def heard(words: str, part: float) -> None:
                if client.is_deleted:
                    raise DrfhError("nobody looks any more")
                tell(words, part)

            return play(asked, missing, heard)

        def then(played: Played | None, why_not: str) -> None:
            if played is None:
                self._offer()
                self._about.set_content(tag("p", f"✘ {why_not}", "mark fails"))
                return
            known.update(zip(missing, played.films, strict=True))
            self._films, self._words = known, played.words
            self._key, self._scenario = asked.key, asked.scenario
            self._stage.set([known[policy] for policy in policies])
            self._offer()
            self._stage.play()

        if not missing:  # the same again would come out the same
            then(Played(self._words, []), "")
            return
        self._start.set_enabled(False)
        self._working.start(work, then, "simulating")


def piece_table(piece: Piece) -> Markup:
    """Return who will submit what, a row for each user.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> shown = piece_table(piece_of(Asked("jobs", load_scenario("paper-dynamic"))))
    >>> '<td class="number">3 min 20 s</td>' in shown
    True
    """
    workload = piece.workload
    users, batches = len(workload.users), workload.batch_user
    tasks = np.bincount(batches, workload.batch_count, minlength=users)
    jobs = np.bincount(workload.job_user, minlength=users)
    first = np.full(users, np.inf)
    np.minimum.at(first, batches, workload.batch_arrival)
    owner = np.repeat(batches, workload.batch_count)
    long = np.where(np.isfinite(workload.duration), workload.duration, 0.0)
    mean = np.bincount(owner, long, minlength=users) / np.maximum(tasks, 1)
    listed = sorted(np.argsort(-tasks, kind="stable")[:_MOST_LISTED].tolist())
    rows: list[list[Content]] = [
        [
            Cell(tag("b", workload.users[user].name)),
            Cell(f"{jobs[user]:,}", "number"),
            Cell(f"{int(tasks[user]):,}", "number"),
            Cell(format_clock(float(first[user])) if tasks[user] else "–", "number"),
            Cell(format_duration(float(mean[user])) if tasks[user] else "–", "number"),
        ]
        for user in listed
    ]
    shown = table(["user", "jobs", "tasks", "first at", "a task takes"], rows, "tight")
    if len(listed) < users:
        words = f"The {len(listed)} of {users:,} users with the most tasks."
        return shown + tag("p", words, "note")
    return shown
