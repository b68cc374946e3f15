"""Options of what-if, and what they hold."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from drfh.model.scenario import Scenario

__all__ = [
    "NO_EDITS",
    "AddOption",
    "DemandOption",
    "Edits",
    "RemoveOption",
    "TasksOption",
    "WeightOption",
    "WeightsOption",
]

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PANEL = "What if"

AddOption = Annotated[
    list[str] | None,
    typer.Option(
        "--add",
        metavar="SERVERS",
        rich_help_panel=_PANEL,
        help="Add servers: '10x cpu=8,memory=512Gi' (labels as zone:a), '10x NAME' or "
        "'10x cpu=8,like=NAME'.",
    ),
]
RemoveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--remove", metavar="NAME[:COUNT]", rich_help_panel=_PANEL, help="Remove servers."
    ),
]
WeightOption = Annotated[
    list[str] | None,
    typer.Option(
        "--weight", metavar="USER=W", rich_help_panel=_PANEL, help="Give a user another weight."
    ),
]
WeightsOption = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        rich_help_panel=_PANEL,
        help="Weights by user: YAML or JSON, lines such as physics: 2.",
    ),
]
DemandOption = Annotated[
    list[str] | None,
    typer.Option(
        "--demand",
        metavar="USER:RES=AMOUNT",
        rich_help_panel=_PANEL,
        help="Give a user, or one kind (USER/KIND), another demand.",
    ),
]
TasksOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tasks",
        metavar="USER=N",
        rich_help_panel=_PANEL,
        help="Give a user, or one kind (USER/KIND), another number of tasks.",
    ),
]


@dataclass(frozen=True)
class Edits:
    """Edits as the command line has them.

    Attributes
    ----------
    add, remove, weight, demand, tasks : sequence of str or None
        As for :func:`changed`.
    weights : Path or None
        A file of weights; `weight` comes after it.
    """

    add: Sequence[str] | None = None
    remove: Sequence[str] | None = None
    weight: Sequence[str] | None = None
    weights: Path | None = None
    demand: Sequence[str] | None = None
    tasks: Sequence[str] | None = None

    @property
    def options(self) -> list[str]:
        """The edits as options of a command."""
        found = []
        for field in fields(self):
            value = getattr(self, field.name)
            values = [value] if isinstance(value, Path) else value or ()
            found += [f"--{field.name} {text}" for text in values]
        return found

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    @cached_property
    def listed_weights(self) -> Mapping[str, float]:
        """The weights of the file."""
        if self.weights is None:
            return _NOTHING
        from drfh.engines.weights import read_weights

        return read_weights(self.weights)

    def team_weights(self, users: Sequence[str]) -> dict[str, float]:
        """Return the weights of those of `users` that have one, by file or option."""
        from drfh.cli.edits import parse_weight_option

        given = {**self.listed_weights, **dict(map(parse_weight_option, self.weight or ()))}
        return {name: given[name] for name in users if name in given}

    def check_weights(self, users: Sequence[str]) -> None:
        """Raise unless every weight that is an option is of one of `users`."""
        from drfh.cli.edits import parse_weight_option
        from drfh.errors import UnknownNameError

        for text in self.weight or ():
            name = parse_weight_option(text)[0]
            if name not in users:
                raise UnknownNameError("--weight", name, users)

    def nodes_left(self, nodes: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Return the nodes of each group that are not removed."""
        left = {group: list(names) for group, names in nodes.items()}
        for text in self.remove or ():
            group, _, count = text.rpartition(":")
            if text in left:
                left[text] = []
            elif group in left and count.isdigit():
                left[group] = left[group][: -int(count) or None]
            for names in left.values():
                if text in names:
                    names.remove(text)
        return left

    def apply(
        self,
        scenario: Scenario,
        *,
        weighted: Container[str] = (),
        nodes: Mapping[str, Sequence[str]] = _NOTHING,
    ) -> Scenario:
        """Return the scenario after the edits; names in the file may be of nobody here.

        Parameters
        ----------
        scenario
            Before.
        weighted
            Whose weights are set already.
        nodes
            As for :func:`changed`.
        """
        from drfh.cli.edits import changed, parse_weight_option

        listed = {name: w for name, w in self.listed_weights.items() if name not in weighted}
        users = tuple(replace(u, weight=listed.get(u.name, u.weight)) for u in scenario.users)
        return changed(
            replace(scenario, users=users) if listed else scenario,
            add=self.add or (),
            remove=self.remove or (),
            weight=[w for w in self.weight or () if parse_weight_option(w)[0] not in weighted],
            demand=self.demand or (),
            tasks=self.tasks or (),
            nodes=nodes,
        )


NO_EDITS = Edits()
