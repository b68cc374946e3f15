"""Servers come, go and change their size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from drfh.errors import DrfhError, InputError
from drfh.model.cluster import Server, check_name
from drfh.scheduler.desk import Amounts, SchedulerDesk

__all__ = ["ServerCalls"]

_LARGEST_TOTAL = 2**52  # so far sums of units are exact in float64
_LARGEST_SERVER = 2**50


class ServerCalls(SchedulerDesk):
    """The calls about servers."""

    def add_server(
        self, name: str, resources: Amounts, labels: Mapping[str, str] | None = None
    ) -> None:
        """Add a server. One that was removed takes its old place in the order.

        Parameters
        ----------
        name
            Its name; ``big/7`` belongs to the group ``big``.
        resources
            Its size, in the resources of the cluster.
        labels
            Its labels.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_server("b", {"cpu": 8}, labels={"zone": "x"})
        >>> scheduler.servers
        ('a', 'b')
        """
        self._add_server(name, resources, labels, None)

    def _add_server(
        self,
        name: str,
        resources: Amounts,
        labels: Mapping[str, str] | None,
        accepting: list[int] | None,
    ) -> None:
        check_name(name, "server")
        old = self._fleet.position.get(name)
        if old is not None and self._up[old]:
            raise InputError("server", "must be new", name)
        if old is None and any(member.group == name for member in self._fleet.members):
            raise InputError("server", "must not be the name of a group of servers", name)
        size = self._size(resources)
        totals = self._grown(size)
        record = Server(self._amounts(size), name=name, labels=labels)
        asked = self._restrictions.ask(name, record) if accepting is None else accepting
        before = None if old is None else self._fleet.members[old]
        position = self._fleet.add(name, record)
        column = self._restrictions.column(position, asked)
        try:
            with self._unharmed():
                if old is None:
                    self._server_names.append(name)
                    self._core.add_server(size, column)
                elif (rows := self._restrictions.rows_with(position, column)) is None:
                    self._core.set_capacity(position, size)
                else:
                    # It came back with other labels: a core cannot change who may use a server.
                    state = replace(self._core.dump(), allowed=rows)
                    state.capacity[position] = size
                    self._take_over(state)
        except DrfhError:
            if before is None:
                self._server_names.pop()
                self._fleet.members.pop()
                del self._fleet.position[name]
            else:
                self._fleet.members[position] = before
            raise
        self._totals = totals
        if old is None:
            self._up.append(True)
        self._up[position] = True
        self._restrictions.settle(position, asked, column)
        entry: dict[str, Any] = {
            "call": "add_server",
            "name": name,
            "resources": self._amounts(size),
        }
        if record.labels:
            entry["labels"] = dict(record.labels)
        if asked:
            entry["accepting"] = asked
        self._keep(entry)

    def remove_server(self, name: str) -> list[str]:
        """Remove a server; its tasks go back to the heads of their queues. Return their names.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a", count=2)]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a/1")
        >>> scheduler.remove_server("a/1")
        ['t1']
        >>> scheduler.remove_server("a/1")
        Traceback (most recent call last):
        drfh.errors.InputError: server must be up (it was removed), got 'a/1'
        """
        position = self._server(name)
        zeros = [0] * len(self._totals)
        totals = self._grown(zeros, position)
        tasks = self._core.running_on(position)
        names = [self._task_names[task] for task in tasks]
        with self._unharmed():
            for task in tasks:
                self._core.put_back(task)
            self._core.set_capacity(position, zeros)
        self._totals = totals
        self._up[position] = False
        self._count_evictions(names)
        self._keep({"call": "remove_server", "name": name})
        return names

    def resize_server(self, name: str, resources: Amounts) -> list[str]:
        """Change the size of a server. Return the tasks that lost their place, newest first.

        Where an amount shrinks, the tasks that were placed last go back to their queues until
        the others fit. Who may use the server stays as it is.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("job", "ann", {"cpu": 2}, count=2)
        >>> placed = scheduler.place()
        >>> scheduler.resize_server("a", {"cpu": 3})
        ['job/1']
        """
        position = self._server(name)
        size = self._size(resources)
        totals = self._grown(size, position)
        old = self._core.capacity(position)
        names = []
        with self._unharmed():
            self._core.set_capacity(position, size)
            if any(new < was for new, was in zip(size, old, strict=True)):
                while self._core.overfull(position):
                    last = self._core.running_on(position)[-1]
                    names.append(self._task_names[last])
                    self._core.put_back(last)
        self._totals = totals
        member = self._fleet.members[position]
        amounts = self._amounts(size)
        record = Server(amounts, name=member.record.name, labels=member.record.labels)
        self._fleet.add(name, record, member.group)
        self._count_evictions(names)
        self._keep({"call": "resize_server", "name": name, "resources": amounts})
        return names

    def _size(self, resources: Amounts) -> list[int]:
        size = self._units.capacity(resources)
        for name, unit, amount in zip(self._units.resources, self._units.sizes, size, strict=True):
            if amount >= _LARGEST_SERVER:
                rule = f"must be below {_LARGEST_SERVER * unit:g} on this cluster"
                raise InputError(f"resources.{name}", rule, resources[name])
        return size

    def _grown(self, size: Sequence[int], position: int | None = None) -> list[int]:
        """Return the totals once a server has this size."""
        old = [0] * len(size) if position is None else self._core.capacity(position)
        totals = [t - o + n for t, o, n in zip(self._totals, old, size, strict=True)]
        for name, unit, total in zip(self._units.resources, self._units.sizes, totals, strict=True):
            if total > _LARGEST_TOTAL:
                rule = f"must be at most {_LARGEST_TOTAL * unit:g} on this cluster"
                raise InputError(f"total of {name}", rule, total * unit)
        return totals

    def _count_evictions(self, names: Sequence[str]) -> None:
        for name in names:
            owner = self._owners[self._tasks[name]]
            self._user_evictions[owner] = self._user_evictions.get(owner, 0) + 1
            self._task_evictions[name] = self._task_evictions.get(name, 0) + 1
        self._evictions += len(names)
