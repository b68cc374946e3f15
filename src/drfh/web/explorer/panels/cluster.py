"""The panel "Cluster and teams": tables to edit, and who gets what beside them."""

from __future__ import annotations

import numpy as np

from drfh.allocation.explain import explain
from drfh.auditor.comparison import WHOLE_TASKS
from drfh.formatting import format_percent
from drfh.mechanisms import find_mechanism
from drfh.mechanisms.shared.card import card_of
from drfh.report.html import Tile
from drfh.web.components.controls import container, flat_button
from drfh.web.components.panel import Page
from drfh.web.components.tiles import Tiles
from drfh.web.explorer.panels.shares import SharesPanel
from drfh.web.explorer.panels.tables import TablesPanel
from drfh.web.session.answers import Answer, mechanism_of, own_parameters

__all__ = ["ClusterPanel", "tiles_of"]


class ClusterPanel:
    """Tiles, then tables and charts side by side; below each other where there is no room."""

    name = "tables"
    title = "Cluster and teams"
    icon = "table_rows"

    def build(self, page: Page) -> None:
        """Make its parts."""
        self.tables, self._shares = TablesPanel(), SharesPanel()
        self._tiles = Tiles(testid="tiles")
        self._search = flat_button("Search for lies", "search-lies", lambda: page.open("card"))
        with container("screen"):
            with container():
                self.tables.build(page)
            with container():
                self._shares.build(page)

    def show(self, answer: Answer) -> None:
        """Show an answer in all parts."""
        tiles = tiles_of(answer)
        self._tiles.show(tiles)
        self._search.set_visibility(not tiles[-1].tone)
        self.tables.show(answer)
        self._shares.show(answer)

    def forget_refused(self) -> bool:
        """Remove what was typed and refused; return whether there was any."""
        return self.tables.forget_refused()


def tiles_of(answer: Answer) -> list[Tile]:
    """Return the tiles above an answer: used, worst-off team, what limits it, lies.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> from drfh.web.session.workbook import Workbook
    >>> for tile in tiles_of(answer_of(Workbook(load_scenario("paper-two-servers")))):
    ...     print(tile.label, "·", tile.value, "·", tile.note[:26])
    used · cpu 85.7 % · memory 85.7 %
    worst-off team · ann · 71.4 % of the pool
    what limits ann · cpu · used up on high-memory
    can anyone gain by lying? · no, proven · Wang et al. 2014, Prop. 3,
    """
    allocation = answer.allocation
    used = sorted(allocation.utilisation.items(), key=lambda item: -item[1])
    parts = [f"{name} {format_percent(part, trim=True)}" for name, part in used]
    level = allocation.share_vector / allocation.problem.weight
    wanting = allocation.assignment.user_tasks < allocation.problem.limit * (1 - 1e-9)
    if wanting.any():  # who has all of its tasks is not short of anything
        level = np.where(wanting, level, np.inf)
    worst = int(level.argmin())
    user = allocation.problem.users[worst]
    limit = explain(allocation, worst)
    resource, where = "its own tasks", limit.reason
    if limit.scarce:
        resource, where = limit.scarce[0].resource, f"used up on {limit.scarce[0].servers}"
    share = format_percent(float(allocation.share_vector[worst]), trim=True)
    weight = "" if user.weight == 1 else f", weight {user.weight:g}"
    return [
        Tile(
            "used",
            "used",
            parts[0],
            part=used[0][1],
            note=", ".join(parts[1:]),
            hint="How much of each resource of the whole cluster is given to tasks.",
        ),
        Tile(
            "worst-off",
            "worst-off team",
            user.name,
            note=f"{share} of the pool{weight}",
            hint="The team with the lowest level: its dominant share divided by its weight.",
        ),
        Tile(
            "limits",
            f"what limits {user.name}",
            resource,
            note=where,
            hint="Why this team gets no more; the table says it of every team.",
        ),
        _lies_tile(answer),
    ]


def _lies_tile(answer: Answer) -> Tile:
    """Return whether misreporting can pay: proven, or not searched yet."""
    whole = answer.mechanism == WHOLE_TASKS
    _, function = find_mechanism("drfh" if whole else mechanism_of(answer.mechanism))
    claim = card_of(function).claims.get("truthful")
    own = own_parameters(answer.scenario, answer.mechanism)
    proven = claim is not None and claim.holds
    if claim is not None and claim.unmet(answer.allocation.problem, whole=whole, parameters=own):
        proven = False
    return Tile(
        "lies",
        "can anyone gain by lying?",
        "no, proven" if proven else "not searched",
        note=claim.source if claim is not None and proven else "the report card searches",
        hint="Whether a team can run more of its tasks by reporting other needs than its own.",
        tone="good" if proven else "",
    )
