"""What all steps can do, and the cell that each is about."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, ClassVar, NamedTuple

from drfh.errors import InputError
from drfh.files.checks import problems
from drfh.problem import Problem
from drfh.web.editing import State, unrestricted
from drfh.web.typed import frozen, plain
from drfh.workload import User, resolve_restriction

__all__ = ["Cell", "Step"]

_ROW_UNKNOWN = ("server group", "user")


class Cell(NamedTuple):
    """Where on the page: ``servers`` or ``users``, which row, which column (empty: the row).

    Examples
    --------
    >>> str(Cell("servers", "big", "count"))
    'count of big'
    """

    table: str
    row: str
    column: str

    def __str__(self) -> str:
        return f"{self.column} of {self.row}" if self.column else self.row


@dataclass(frozen=True)
class Step:
    """What all steps can do.

    Attributes
    ----------
    kind : str
        First entry of the list that it is written as.
    """

    kind: ClassVar[str] = ""
    # Values that name something which is there: any text. The others are typed by somebody.
    _names: ClassVar[tuple[str, ...]] = ()
    _many_columns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name not in self._names:
                name = str(self.cell) if entry.name == "value" else entry.name
                object.__setattr__(self, entry.name, frozen(value, name))
            elif not isinstance(value, str):
                raise InputError(entry.name, "must be text", value)

    @property
    def cell(self) -> Cell:
        """What it is about; errors of :meth:`apply` name it."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The step in one line."""
        raise NotImplementedError

    def told(self, before: State) -> str:
        """Return the step in one line, with what was there before it."""
        return self.text

    def change(self, state: State) -> State:
        """Return the state after the step; what only the whole can tell is not yet checked."""
        raise NotImplementedError

    def apply(self, state: State) -> State:
        """Return the state after the step.

        Raises
        ------
        InputError
            If it is refused; its field is the cell: column and row.
        """
        try:
            after = self.change(state)
        except InputError as error:
            raise self._about(error) from None
        try:
            self._check(after)
        except InputError as error:
            if self.cell.table == "servers":
                rule = f"must not break another entry: {error}"
                raise InputError(str(self.cell), rule) from None
            raise self._about(error) from None
        return after

    def _check(self, after: State) -> None:
        """Raise what every mechanism would refuse; before the step all was good."""
        scenario = after.scenario
        cluster = scenario.cluster
        # To resolve every restriction takes long, and few steps touch one.
        Problem.build(cluster, map(unrestricted, scenario.users))
        for user in scenario.users:
            if user.servers is not None and self.may_break(user):
                resolve_restriction(user.servers, cluster, user.name)
        if scenario.jobs or scenario.events:
            for problem in problems(cluster, scenario.users, scenario.jobs, scenario.events):
                raise problem

    def may_break(self, user: User) -> bool:
        """Return whether the restriction of a user may match nothing after the step."""
        return False

    def _about(self, error: InputError) -> InputError:
        """Return the error as one of this cell; steps with many columns say which one."""
        if error.field in _ROW_UNKNOWN:
            return error
        cell = self.cell
        if not cell.column and self._many_columns:
            column = error.field.removesuffix(f" of {cell.row}").rpartition("].")[2]
            for prefix in ("demand.", "resources.", "total of "):
                column = column.removeprefix(prefix)
            cell = cell._replace(column=column)
        error.field = str(cell)
        return error

    def to_list(self) -> list[Any]:
        """Return the step as plain data: its kind, then its values; defaults at the end go."""
        values = [(plain(getattr(self, entry.name)), entry) for entry in fields(self)]
        while values and _is_default(*values[-1]):
            values.pop()
        return [self.kind, *(value for value, _ in values)]


def _is_default(value: Any, entry: Field[Any]) -> bool:
    if entry.default_factory is not MISSING:
        return bool(value == {})
    return entry.default is not MISSING and bool(value == plain(entry.default))
