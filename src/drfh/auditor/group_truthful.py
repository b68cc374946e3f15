"""``group-truthful``: no two users both gain by lying together."""

from __future__ import annotations

import numpy as np

from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Finding
from drfh.auditor.lies import Lie, candidates, utility
from drfh.auditor.search import MARGIN, asked, lying, verified, who_pays
from drfh.auditor.words import number, tasks_text
from drfh.resources import some

__all__ = ["group_truthful"]

_PAIRS_OF_LIES = 16
_MOST_DRAWN = 100_000
_PART_FOR_PAIRS = 8  # of all tries, a part goes to pairs


def group_truthful(case: Case) -> Finding:
    """No two users both gain by lying together; pairs are sampled."""
    n = len(case.problem.users)
    if n < 2:
        return case.skipped("group-truthful", "there is one user only")
    rng = np.random.default_rng(case.seed)
    pairs = [(i, j) for i in range(n) for j in range(i)] if n <= 60 else []
    if not pairs:
        drawn = rng.integers(0, n, (min(3 * case.tries, _MOST_DRAWN), 2))
        pairs = list(dict.fromkeys((max(a, b), min(a, b)) for a, b in drawn.tolist() if a != b))
    most = max(1, case.tries // (_PART_FOR_PAIRS * _PAIRS_OF_LIES))
    if len(pairs) > most:
        chosen = sorted(rng.choice(len(pairs), most, replace=False).tolist())
        pairs = [pairs[k] for k in chosen]
    tries = 0
    per_pair = max(_PAIRS_OF_LIES, min(400, case.tries // (_PART_FOR_PAIRS * len(pairs))))
    looked_at = 0
    for pair in case.timed(pairs):
        looked_at += 1
        menus = [[x for x in candidates(case, i, rng) if x.demand is not None] for i in pair]
        for lies in _together(menus, per_pair, rng):
            tries += 1
            truth = [float(case.tasks[i]) for i in pair]
            answer = asked(case, lies)
            gained = [0.0, 0.0] if answer is None else [utility(case, answer, i) for i in pair]
            gain = min(float(lost(t, g)) for t, g in zip(truth, gained, strict=True))
            if gain > MARGIN and answer is not None and verified(case, answer):
                names = [case.name(i) for i in pair]
                text = f"{names[0]} and {names[1]} both gain by lying together: "
                text += f"{number(truth[0])} and {tasks_text(truth[1])} become "
                text += f"{number(gained[0])} and {number(gained[1])}"
                example = lying(
                    case, lies, text, dict(zip(names, truth, strict=True)),
                    dict(zip(names, gained, strict=True)),
                )  # fmt: skip
                return case.found(
                    "group-truthful", gain, text, hurt=who_pays(case, lies),
                    counterexample=example, tries=tries,
                )  # fmt: skip
    said = f"no pair of lies found that pays for both, in {tries:,} tries with "
    said += f"{some(looked_at, 'pair')} of users"
    return case.found("group-truthful", 0.0, said, tries=tries, searched=True)


def _together(menus: list[list[Lie]], most: int, rng: np.random.Generator) -> list[list[Lie]]:
    """Return pairs of lies: half of them the same in words, the others drawn at random."""
    second = {lie.words: lie for lie in menus[1]}
    same = [[lie, second[lie.words]] for lie in menus[0] if lie.words in second]
    rng.shuffle(same)
    pairs = same[: max(1, most // 2)]
    while len(pairs) < most:
        pairs.append([menu[int(rng.integers(len(menu)))] for menu in menus])
    return pairs
