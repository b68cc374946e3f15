"""Findings: a verdict with a number, users hurt, and a counterexample."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from drfh.errors import UnknownNameError
from drfh.files.scenario_file import save_scenario
from drfh.model.scenario import Scenario

if TYPE_CHECKING:
    from altair import TopLevelMixin as Chart

    from drfh.auditor.answer import FairnessAnswer

__all__ = ["Counterexample", "Finding", "Report", "Verdict"]

#: ``holds`` and ``fails`` were measured; ``not found``: a search without a result; ``measured``:
#: a number without a line between good and bad; ``not applicable``: nothing to measure here.
Verdict: TypeAlias = Literal["holds", "fails", "not found", "measured", "not applicable"]

#: What a report is about if there is no mechanism.
OBSERVED = "observed allocation"

_RANK: dict[Verdict, int] = {
    "fails": 0,
    "measured": 1,
    "not found": 2,
    "holds": 3,
    "not applicable": 4,
}


@dataclass(frozen=True)
class Counterexample:
    """A case that shows it.

    Attributes
    ----------
    story : str
        What to see, in a sentence or two.
    scenario : Scenario
        The case, to be saved and run again.
    before, after : dict
        Tasks of the users that matter, in the audited case and in this one.
    detail : str
        The end of the story, which the text of the finding does not have; mostly empty.
    """

    story: str
    scenario: Scenario
    before: dict[str, float] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)
    detail: str = ""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the case as a scenario file."""
        save_scenario(self.scenario, path)


@dataclass(frozen=True)
class Finding:
    """One line of a report card.

    Attributes
    ----------
    name : str
        Name of the property.
    verdict : str
        See :data:`Verdict`.
    amount : float
        By how much it fails, from 0 to 1: what the one hurt most misses of what it should have.
    text : str
        What was found, in a sentence.
    hurt : tuple of str
        Who is hurt, the worst first.
    counterexample : Counterexample or None
        A case that shows it.
    proof : str
        Where the property is proven for the mechanism, if it is and its assumptions hold here.
    outside : tuple of str
        Assumptions of that proof that do not hold here.
    known : str
        Why the property is known to fail in other cases, if it is.
    tries : int or None
        For searches: how many cases were tried.
    own_kinds : Finding or None
        Where the cluster grows by servers of another kind: what more of its own kinds do.
    seconds : float
        How long it took.
    """

    name: str
    verdict: Verdict
    amount: float
    text: str
    hurt: tuple[str, ...] = ()
    counterexample: Counterexample | None = None
    proof: str = ""
    outside: tuple[str, ...] = ()
    known: str = ""
    tries: int | None = None
    own_kinds: Finding | None = None
    seconds: float = 0.0

    def shown_in(self, scenario: Scenario) -> bool:
        """Return whether a scenario shows it as it is: there is no other case."""
        if self.counterexample is None:
            return True
        case = self.counterexample.scenario
        return (case.cluster, case.users) == (scenario.cluster, scenario.users)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        data: dict[str, Any] = {
            "property": self.name,
            "verdict": self.verdict,
            "amount": self.amount,
            "text": self.text,
            "hurt": list(self.hurt),
            "proof": self.proof or None,
            "outside": list(self.outside),
            "known": self.known or None,
            "tries": self.tries,
            "seconds": self.seconds,
            "counterexample": None,
        }
        if self.counterexample is not None:
            example = self.counterexample
            data["counterexample"] = {
                "story": example.story,
                "before": example.before,
                "after": example.after,
            }
        return data


@dataclass(frozen=True)
class Report:
    """A report card: one finding a property, worst first.

    Attributes
    ----------
    scenario : Scenario
        What was audited.
    subject : str
        In words: a mechanism, or what a scheduler did.
    findings : tuple of Finding
        The worst first.
    tasks : dict
        Tasks of each user; of each kind, as ``user/kind``, where a user has several.
    seconds : float
        How long it took.
    warnings : tuple of str
        What makes the report less than it seems.
    answer : FairnessAnswer or None
        Of what was observed: who has what now, what is fair, who is short and why.
    """

    scenario: Scenario
    subject: str
    findings: tuple[Finding, ...]
    tasks: dict[str, float]
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    answer: FairnessAnswer | None = None

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        subject: str,
        findings: list[Finding],
        tasks: dict[str, float],
        seconds: float,
        warnings: tuple[str, ...] = (),
        answer: FairnessAnswer | None = None,
    ) -> Report:
        """Sort the findings: failures first, the largest amount first."""
        # Envy as literally written is a misreading with weights and finite tasks: it comes last.
        order = sorted(
            findings, key=lambda f: (_RANK[f.verdict], f.name == "envy-free-literal", -f.amount)
        )
        return cls(scenario, subject, tuple(order), tasks, seconds, warnings, answer)

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise UnknownNameError("property", str(name), [f.name for f in self.findings])

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def observed(self) -> bool:
        """Whether this is about what was observed, and not about a mechanism."""
        return self.subject == OBSERVED

    def again(
        self,
        name: str,
        path: str | os.PathLike[str],
        table: str | os.PathLike[str] | None = None,
    ) -> str:
        """Return the command that shows a saved counterexample again.

        Parameters
        ----------
        name
            Of the property.
        path
            The scenario file.
        table
            A file with what was observed, if it is about that.
        """
        if self[name].counterexample is None:
            return ""
        file = shlex.quote(os.fspath(path))
        if not self.shows_itself(name):
            return f"drfh allocate {file}"
        observed = " --observed TABLE (it is not in the file)" if self.observed else ""
        if self.observed and table is not None:
            observed = f" --observed {shlex.quote(os.fspath(table))}"
        return f"drfh audit {file} --only {name}{observed}"

    def shows_itself(self, name: str) -> bool:
        """Return whether a counterexample is the audited case itself, and not another one."""
        finding = self[name]
        return finding.counterexample is not None and finding.shown_in(self.scenario)

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the properties that fail, the worst first."""
        return tuple(f.name for f in self.findings if f.verdict == "fails")

    def plot(self, figure: str = "failures") -> Chart:
        """Return a chart of the report.

        Parameters
        ----------
        figure
            ``failures``: by how much properties fail; ``fair``: what users have of their fair
            level.

        Examples
        --------
        >>> from drfh import audit, load_scenario
        >>> report = audit(load_scenario("gpu-cluster"), mechanism="drf", properties=["fair"])
        >>> report.plot("fair").data["tasks"][0]
        '65.37 of 72'
        """
        from drfh.report.charts.audit import audit_chart

        return audit_chart(self, figure)

    def to_latex(self) -> str:
        """Return a row for each property as a LaTeX table (booktabs)."""
        from drfh.report.tables import audit_table

        return audit_table(self).to_latex()

    def _repr_html_(self) -> str:
        from drfh.report.tables import audit_table

        return audit_table(self).to_html()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, ready for JSON."""
        return {
            "subject": self.subject,
            "title": self.scenario.title,
            **({} if self.answer is None else {"answer": self.answer.to_dict()}),
            "tasks": self.tasks,
            "seconds": self.seconds,
            "warnings": list(self.warnings),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def __repr__(self) -> str:
        failed = ", ".join(self.failed) or "nothing"
        return f"Report({self.subject}: {failed} fails of {len(self.findings)} properties)"
