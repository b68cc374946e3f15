"""The panel "Play": simulate the scenario under one or two policies, and replay it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from nicegui import ui

from drfh.errors import DrfhError
from drfh.formatting import format_clock, format_duration
from drfh.model.scenario import Scenario
from drfh.report.html import Cell, Content, Markup, stylesheet, table, tag
from drfh.web.components.controls import container, markup, section
from drfh.web.components.jobs import PanelJob, ReportProgress
from drfh.web.play.player import Player
from drfh.web.play.recording import Recording
from drfh.web.play.run import PlayResult, is_small, play
from drfh.web.play.workload import PlayChoice, PlayInput, check_size, play_input, workload_choices
from drfh.web.session.answers import Answer

if TYPE_CHECKING:
    from drfh.web.components.panel import Page

__all__ = ["POLICIES", "PlayPanel", "input_table"]

#: Policies offered: name → description.
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
_MOST_KEPT = 3  # recordings, to compare another policy with
# Generated workloads that take too long to generate for a preview.
_SLOW = ("google-like",)


class PlayPanel:
    """Panel that simulates the scenario and replays the result.

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
    _player: Player

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._default = "users"  # the workload selected until the user selects another
        # The last simulation: workload, scenario, description, recordings by policy.
        self._key = ""
        self._scenario: Scenario | None = None
        self._description = ""
        self._recordings: dict[str, Recording] = {}

    def build(self, page: Page) -> None:
        """Create the elements."""
        self._page = page
        ui.add_css(stylesheet("drfh.web", "player.css"))
        listed = {name: f"{name}: {text}" for name, text in POLICIES.items()}
        with section("Play", "drfh-panel"):
            with container("tools choose"):
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
                    chooser.on_value_change(self._refresh)
                self._start = ui.button("Run", icon="play_arrow", on_click=self._run)
                self._start.props("no-caps data-testid=play-start")
            self._working = PanelJob(page, "play", self._refresh)
            self._about = markup(testid="play-about").props("aria-live=polite")
            self._stale = markup(testid="play-stale").props("role=status")
            self._player = Player()

    def show(self, answer: Answer) -> None:
        """Offer the workloads of the scenario; the last recordings stay."""
        if self._answer is answer:
            return
        self._answer = answer
        found = workload_choices(answer.scenario, self._page.trace)
        chosen = self._workload.value
        if chosen == self._default or chosen not in found:
            chosen = next(iter(found))
        self._default = next(iter(found))
        self._workload.set_options(found, value=chosen)
        self._refresh()

    def _choice(self) -> PlayChoice | None:
        if self._answer is None:
            return None
        trace = self._page.trace
        tasks = self._answer.fair.assignment.user_tasks
        return PlayChoice(
            str(self._workload.value),
            self._answer.scenario,
            tuple(np.asarray(tasks, dtype=float).tolist()),
            None if trace is None else (trace.cluster, trace.workload, trace.window),
        )

    @property
    def _policies(self) -> list[str]:
        return list(dict.fromkeys(filter(None, (self._policy.value, self._beside.value))))

    def _refresh(self) -> None:
        """Update button, preview and the note on outdated recordings."""
        choice = self._choice()
        if choice is None:
            return
        shown = bool(self._player.recordings)
        same = choice.key == self._key and choice.scenario is self._scenario
        current = (
            same and [recording.policy for recording in self._player.recordings] == self._policies
        )
        self._start.set_text("Run again" if current else "Run")
        note = ""
        if shown and choice.scenario is not self._scenario:
            note = "The scenario has changed since: what is shown below is the run before that."
        elif shown and not current:
            note = "What is shown below is the run before: press Run for what is chosen now."
        self._stale.set_content(tag("p", f"⚠ {note}", "mark wrap") if note else "")
        self._start.set_enabled(True)
        if current:
            self._about.set_content(tag("p", self._description, "note"))
            return
        try:
            self._about.set_content(self._preview(choice, short=shown))
        except DrfhError as error:
            self._start.set_enabled(False)
            self._about.set_content(tag("p", f"✘ {error}", "mark fails"))

    def _preview(self, choice: PlayChoice, *, short: bool) -> Markup:
        if choice.key in _SLOW:
            title = f"{workload_choices(choice.scenario)[choice.key]}. It is drawn when it runs."
            return tag("p", f"{title} It may take a while, and can be stopped.", "note")
        inputs = play_input(choice)
        check_size(inputs)
        if short:
            return tag("p", inputs.description, "note")
        text = f"{inputs.description} Press Run, and watch the servers fill."
        if not is_small(inputs):
            text += " It may take a while, and can be stopped."
        return tag("p", text, "headline") + input_table(inputs)

    def _run(self) -> None:
        choice = self._choice()
        if choice is None:
            return
        client, policies = ui.context.client, self._policies
        same = choice.key == self._key and choice.scenario is self._scenario
        known = dict(list(self._recordings.items())[-_MOST_KEPT:]) if same else {}
        missing = [policy for policy in policies if policy not in known]
        self._player.pause()

        def work(tell: ReportProgress) -> PlayResult:
            def on_progress(text: str, part: float) -> None:
                if client.is_deleted:
                    raise DrfhError("the page was closed")
                tell(text, part)

            return play(choice, missing, on_progress)

        def then(played: PlayResult | None, error: str) -> None:
            if played is None:
                self._refresh()
                self._about.set_content(tag("p", f"✘ {error}", "mark fails"))
                return
            known.update(zip(missing, played.recordings, strict=True))
            self._recordings, self._description = known, played.description
            self._key, self._scenario = choice.key, choice.scenario
            self._player.set([known[policy] for policy in policies])
            self._refresh()
            self._player.play()

        if not missing:
            then(PlayResult(self._description, []), "")
            return
        self._start.set_enabled(False)
        self._working.start(work, then, "simulating")


def input_table(inputs: PlayInput) -> Markup:
    """Return a table of users: jobs, tasks, first arrival, mean duration.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> shown = input_table(play_input(PlayChoice("jobs", load_scenario("paper-dynamic"))))
    >>> '<td class="number">3 min 20 s</td>' in shown
    True
    """
    workload = inputs.workload
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
        note = f"The {len(listed)} of {users:,} users with the most tasks."
        return shown + tag("p", note, "note")
    return shown
