"""Findings by the questions of an operator, each with its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from drfh.auditor.finding import Finding, Report, Verdict
from drfh.formatting import plural
from drfh.model.cluster import Cluster

__all__ = ["QUESTIONS", "QuestionAnswer", "answers_by_question"]

#: Names of properties by question; "no" is always the good answer.
QUESTIONS: dict[str, tuple[str, ...]] = {
    "Can somebody gain by cheating?": ("truthful", "group-truthful", "split-proof"),
    "Does anybody envy another?": ("envy-free", "envy-free-1", "envy-free-literal"),
    "Does anybody get less than its part?": (
        "fair",
        "sharing-incentive",
        "dedicated-cloud",
        "bottleneck-fair",
        "bottleneck-share",
        "bbf",
    ),
    "Does anybody lose when we buy servers?": ("resource-monotone",),
    "Does anybody lose when somebody leaves?": ("population-monotone", "consistent"),
    "Is anything wasted?": ("pareto", "non-wasteful", "price-of-fairness"),
    "Is more promised or placed than fits?": ("promise-kept", "feasible"),
    "Is it another rule on one server, or with one resource?": ("single-server", "single-resource"),
}
# With weights or finite tasks it is a misreading of envy: shown, but it decides nothing.
_UNDECIDING = ("envy-free-literal",)


@dataclass(frozen=True)
class QuestionAnswer:
    """A question, its answer, and the findings behind it.

    Attributes
    ----------
    question : str
        One of :data:`QUESTIONS`.
    verdict : str
        ``holds`` if the answer is good, ``fails`` if it is bad, ``not found`` if it was searched.
    text : str
        The answer, in a line.
    findings : tuple of Finding
        The worst first; then made-up examples; then what does not apply.
    made_up : frozenset of str
        Names of those that fail in a cluster other than the audited one.
    """

    question: str
    verdict: Verdict
    text: str
    findings: tuple[Finding, ...]
    made_up: frozenset[str] = frozenset()


def answers_by_question(report: Report) -> list[QuestionAnswer]:
    """Return an answer to each question that the findings are about.

    A counterexample is made up if its cluster is neither the audited one nor that with more
    servers of its kinds; it does not decide an answer.

    Parameters
    ----------
    report
        From :func:`drfh.auditor.audit`.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor import audit
    >>> some = ["envy-free", "resource-monotone", "population-monotone"]
    >>> report = audit(load_scenario("claim-b-user-leaves"), properties=some)
    >>> for answer in answers_by_question(report):
    ...     print(answer.question, answer.text)
    Does anybody envy another? No (proven)
    Does anybody lose when we buy servers? No case found in 2 tries; a made-up example fails
    Does anybody lose when somebody leaves? Yes: when b leaves, c falls from 0.75 to 0.6667 tasks
    """
    return list(_answers(report))


def _answers(report: Report) -> Iterator[QuestionAnswer]:
    own = _kinds(report.scenario.cluster)
    for question, names in QUESTIONS.items():
        found = [finding for finding in report if finding.name in names]
        # The same property in the cluster's own kinds of servers, where the worst is made up.
        found = [
            f.own_kinds if f.own_kinds is not None and f.own_kinds.verdict == "fails" else f
            for f in found
        ]
        made_up = [f for f in found if _is_made_up(f, report.scenario.cluster, own)]
        real = [f for f in found if f not in made_up]
        skipped = [f for f in real if f.verdict == "not applicable"]
        counted = [f for f in real if f not in skipped]
        deciding = [f for f in counted if f.verdict != "measured" and f.name not in _UNDECIDING]
        deciding += [f.own_kinds for f in made_up if f.own_kinds is not None]
        if found:
            verdict, text = _answer(deciding, examples=bool(made_up), measured=bool(counted))
            rows = (*counted, *made_up, *skipped)
            yield QuestionAnswer(
                question, verdict, text, rows, frozenset(finding.name for finding in made_up)
            )


def _answer(deciding: list[Finding], *, examples: bool, measured: bool) -> tuple[Verdict, str]:
    failing = [finding for finding in deciding if finding.verdict == "fails"]
    if failing:
        return "fails", f"Yes: {failing[0].text}"
    good = [finding for finding in deciding if finding.verdict == "holds" or finding.proof]
    searched = [finding for finding in deciding if finding not in good]
    tries = sum(finding.tries or 0 for finding in searched)
    within = f" in {tries:,} {plural(tries, 'try', 'tries')}" if tries else ""
    but = "; a made-up example fails" if examples else ""
    if good:
        proven = sum(bool(finding.proof) for finding in good)
        how = "proven" if proven == len(good) else "measured" + ", partly proven" * bool(proven)
        names = ", ".join(finding.name for finding in searched)
        return "holds", f"No ({how})" + (f"; {names}: no case found{within}" if names else "") + but
    if searched:
        return "not found", f"No case found{within}{but}"
    if examples:
        return "not found", "Not in your cluster; a made-up example fails"
    return ("measured", "Only measured") if measured else ("not applicable", "Not measured here")


def _kinds(cluster: Cluster) -> Counter[frozenset[tuple[str, float]]]:
    """Return how many servers there are of each kind."""
    kinds: Counter[frozenset[tuple[str, float]]] = Counter()
    for server in cluster.servers:
        kinds[frozenset(_positive(server.resources.items()))] += server.count
    return kinds


def _positive(amounts: Iterable[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    return (pair for pair in amounts if pair[1] > 0)


def _is_made_up(
    finding: Finding, cluster: Cluster, own: Counter[frozenset[tuple[str, float]]]
) -> bool:
    if finding.counterexample is None or finding.counterexample.scenario.cluster == cluster:
        return False
    case = _kinds(finding.counterexample.scenario.cluster)
    return case.keys() != own.keys() or not own <= case
