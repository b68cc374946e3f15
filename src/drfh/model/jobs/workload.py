"""All jobs of all users as arrays: what the simulator reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drfh.errors import InputError, UnknownNameError
from drfh.formatting import format_count
from drfh.model.cluster import Cluster
from drfh.model.jobs import validation as arrays
from drfh.model.jobs.records import AddServers, Job, RemoveServers, ResizeServer, ServerEvent
from drfh.model.jobs.validation import check_events, check_names
from drfh.model.resources import resource_columns
from drfh.model.users import Restriction, User

__all__ = ["Workload", "counted", "gather", "read_events", "read_users"]


_MOST_TASKS = 10**8  # the arrays of more would not fit into the memory of most machines


def gather(users: Any, jobs: Any) -> dict[str, Any]:
    """Return the fields of a workload, except its events.

    Examples
    --------
    >>> fields = gather(["ann"], [Job("ann", demand={"cpu": 2}, duration=60, tasks=3)])
    >>> fields["demand"].tolist(), fields["batch_count"].tolist(), fields["_names"]
    ([[2.0]], [3], ('job-1',))
    """
    everyone = read_users(users)
    given = _jobs(jobs)
    index = {user.name: position for position, user in enumerate(everyone)}
    order: dict[str, int] = {}
    restrictions: dict[Any, int] = {None: 0}
    wanted: list[tuple[Mapping[str, float], int]] = []  # demand and restriction of each batch
    for position, job in enumerate(given):
        if job.user not in index:
            raise UnknownNameError(f"jobs[{position}].user", job.user, index)
        demand = everyone[index[job.user]].demand if job.demand is None else job.demand
        if not demand:
            rule = f"must be given ({job.user} has no demand of its own)"
            raise InputError(f"jobs[{position}].demand", rule)
        for resource in demand:
            order.setdefault(resource, len(order))
        wanted.append((demand, restrictions.setdefault(job.servers, len(restrictions))))
    # Demands that differ only in resources of which they need none have one shape.
    shapes: dict[tuple[Any, ...], int] = {}
    shape_of: dict[tuple[Mapping[str, float], int], int] = {}
    for pair in wanted:
        if pair not in shape_of:
            row = tuple(pair[0].get(resource, 0.0) for resource in order)
            shape_of[pair] = shapes.setdefault((*row, pair[1]), len(shapes))
    names, batch_job = _named(given)
    batch_user = np.array([index[job.user] for job in given], dtype=np.int64)
    job_user = np.zeros(len(names), dtype=np.int64)
    job_user[batch_job] = batch_user
    seconds = [0.0 if isinstance(job.duration, tuple) else job.duration for job in given]
    return {
        "users": everyone,
        "resources": tuple(order),
        "demand": np.array([s[:-1] for s in shapes]).reshape(len(shapes), len(order)),
        "restrictions": tuple(restrictions),
        "restriction": np.array([s[-1] for s in shapes], dtype=np.int64),
        "batch_user": batch_user,
        "batch_job": np.array(batch_job, dtype=np.int64),
        "batch_arrival": np.array([job.arrival for job in given], dtype=np.float64),
        "batch_shape": np.array([shape_of[pair] for pair in wanted], dtype=np.int64),
        "batch_count": counted(np.array([job.tasks for job in given], dtype=np.int64)),
        "job_user": job_user,
        "_names": names,
        "_seconds": np.array(seconds, dtype=np.float64),
        "_listed": tuple(
            (batch, job.duration)
            for batch, job in enumerate(given)
            if isinstance(job.duration, tuple)
        ),
    }


def _jobs(jobs: Any) -> tuple[Job, ...]:
    if isinstance(jobs, (Job, str, Mapping)) or not isinstance(jobs, Iterable):
        raise InputError("jobs", "must be a list of drfh.Job", jobs)
    given = tuple(jobs)
    for position, job in enumerate(given):
        if not isinstance(job, Job):
            raise InputError(f"jobs[{position}]", "must be a drfh.Job", job)
    return given


def read_users(users: Any) -> tuple[User, ...]:
    """Return the users; a name becomes a user without a demand.

    Examples
    --------
    >>> read_users(["ann", User("bob", {"cpu": 1})])
    (User('ann'), User('bob', {'cpu': 1.0}))
    """
    if isinstance(users, (User, str)) or not isinstance(users, Iterable):
        raise InputError("users", "must be a list of drfh.User or of names", users)
    everyone: list[User] = []
    names: set[str] = set()
    for position, entry in enumerate(users):
        if not isinstance(entry, (User, str)):
            raise InputError(f"users[{position}]", "must be a drfh.User or a name", entry)
        try:
            user = User(entry) if isinstance(entry, str) else entry
        except InputError as error:
            raise error.within(f"users[{position}]") from None
        if user.name in names:
            raise InputError(f"users[{position}].name", "must be unique", user.name)
        names.add(user.name)
        everyone.append(user)
    if not everyone:
        raise InputError("users", "must have at least one user")
    return tuple(everyone)


def read_events(events: Any) -> tuple[ServerEvent, ...]:
    """Return the events in order of time; those of one time as given.

    Examples
    --------
    >>> read_events([RemoveServers(60, "b"), RemoveServers(30, "a")])
    (RemoveServers(30.0, 'a'), RemoveServers(60.0, 'b'))
    """
    kinds = (AddServers, RemoveServers, ResizeServer)
    if isinstance(events, (*kinds, str, Mapping)) or not isinstance(events, Iterable):
        raise InputError("events", "must be a list of server events", events)
    given = tuple(events)
    for position, event in enumerate(given):
        if not isinstance(event, kinds):
            rule = "must be a drfh.AddServers, RemoveServers or ResizeServer"
            raise InputError(f"events[{position}]", rule, event)
    return tuple(sorted(given, key=lambda event: event.time))


def _named(jobs: Sequence[Job]) -> tuple[tuple[str, ...], list[int]]:
    """Return the names of the jobs, and which job each record belongs to."""
    first: dict[str, int] = {}
    for position, job in enumerate(jobs):
        if job.name is not None:
            other = first.setdefault(job.name, position)
            if jobs[other].user != job.user:
                rule = f"must not be that of a job of another user ({jobs[other].user})"
                raise InputError(f"jobs[{position}].name", rule, job.name)
    number: dict[str, int] = {}
    belongs: list[int] = []
    for position, job in enumerate(jobs):
        name = job.name
        if name is None:
            name, again = f"job-{position + 1}", 1
            while name in first:  # somebody calls a job so: number on
                again += 1
                name = f"job-{position + 1}-{again}"
        belongs.append(number.setdefault(name, len(number)))
    return tuple(number), belongs


def counted(count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of tasks, unless these are too many in all.

    Examples
    --------
    >>> counted(np.array([10**8, 1]))
    Traceback (most recent call last):
    drfh.errors.InputError: jobs must have at most 100,000,000 tasks in all, got '100,000,001'
    """
    total = float(count.sum(dtype=np.float64))  # in integers it might overflow
    if total > _MOST_TASKS:
        raise InputError("jobs", f"must have at most {_MOST_TASKS:,} tasks in all", f"{total:,.0f}")
    return count


Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_ARRAYS = (
    "demand",
    "restriction",
    "batch_user",
    "batch_job",
    "batch_arrival",
    "batch_shape",
    "batch_first",
    "batch_count",
    "job_user",
    "duration",
)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Workload:
    """Users, the jobs that they submit over time, and what happens to the servers meanwhile.

    The tasks are kept as arrays, without a Python object for each, so that there may be millions.
    A *shape* is a demand with a restriction, a *batch* is one :class:`Job` record: equal tasks of
    one job that arrive together. Tasks are numbered batch by batch.

    Parameters
    ----------
    users
        Who submits jobs: :class:`~drfh.User` records, or just names. The order breaks ties.
    jobs
        In any order.
    events
        What happens to the servers, in any order; those of one time happen in the order given.

    Attributes
    ----------
    users : tuple of User
        In the order given.
    resources : tuple of str
        Names of the demanded resources in order of first mention.
    demand : float array, shapes × resources
        What one task of each shape needs.
    restrictions : tuple
        The different restrictions of jobs; the first is None. Those of users come on top.
    restriction : int array, shapes
        Which of them each shape has.
    batch_user, batch_job, batch_shape : int array, batches
        Position of the user, of the job and of the shape.
    batch_arrival : float array, batches
        When the tasks arrive, in seconds.
    batch_first, batch_count : int array, batches
        Number of the first task, and how many there are.
    duration : float array, tasks
        How long each task runs, in seconds.
    job_user : int array, jobs
        Position of the user.
    events : tuple
        Ordered by time.

    Examples
    --------
    >>> ann = User("ann", {"cpu": 1})
    >>> workload = Workload([ann, "bob"], [
    ...     Job("ann", duration=60, tasks=100),
    ...     Job("bob", demand={"cpu": 2, "gpu": 1}, duration=[30, 40], arrival=90),
    ... ])
    >>> workload
    Workload(2 users, 2 jobs, 102 tasks, arrivals 0 to 90 s)
    >>> workload.resources, workload.demand.tolist(), workload.batch_first.tolist()
    (('cpu', 'gpu'), [[1.0, 0.0], [2.0, 1.0]], [0, 100])
    """

    users: tuple[User, ...]
    events: tuple[ServerEvent, ...]
    resources: tuple[str, ...]
    demand: Floats
    restrictions: tuple[Restriction | None, ...]
    restriction: Ints
    batch_user: Ints
    batch_job: Ints
    batch_arrival: Floats
    batch_shape: Ints
    batch_first: Ints
    batch_count: Ints
    job_user: Ints
    # Names, if any were given; else numbers, if they are not 0, 1, …
    _names: tuple[str, ...] | None = None
    _numbers: Ints | None = None
    # Seconds of each batch, and of each task where they differ: `duration` is made from these.
    _seconds: Floats | None = None
    _listed: tuple[tuple[int, tuple[float, ...]], ...] = ()

    def __init__(
        self,
        users: Iterable[User | str],
        jobs: Iterable[Job],
        events: Iterable[ServerEvent] = (),
    ) -> None:
        self._set(**gather(users, jobs), events=read_events(events))

    def _set(self, **fields: Any) -> None:
        """Fill in the fields; what is not a field is private, and `batch_first` follows."""
        count = fields["batch_count"]
        fields["batch_first"] = np.cumsum(count) - count
        for value in fields.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(fields)

    @classmethod
    def from_arrays(
        cls,
        users: Iterable[User | str],
        resources: Sequence[str],
        demand: ArrayLike,
        *,
        user: ArrayLike,
        arrival: ArrayLike,
        shape: ArrayLike,
        duration: ArrayLike,
        count: ArrayLike | None = None,
        job: ArrayLike | None = None,
        job_names: Sequence[str] | None = None,
        restrictions: Sequence[Restriction | None] | None = None,
        restriction: ArrayLike | None = None,
        events: Iterable[ServerEvent] = (),
    ) -> Workload:
        """Build a large workload from arrays, without a record for each job.

        Parameters
        ----------
        users
            Who submits jobs, as for :class:`Workload`.
        resources
            Names of the columns of `demand`.
        demand
            What one task of each shape needs, shapes × resources: an array, or a polars, pandas or
            Arrow table, whose columns are taken by name. Equal shapes become one.
        user, arrival, shape
            For each batch of equal tasks: position of its user, when it arrives in seconds, row of
            `demand`.
        duration
            How long tasks run, in seconds: a number for each batch, or one for each task.
        count
            How many tasks each batch has, by default 1.
        job
            For each batch the number of its job, from 0 without gaps; by default each batch is a
            job of its own.
        job_names
            A name for each job, by default ``job-1``, ``job-2``, …
        restrictions
            The different restrictions; the first is None.
        restriction
            Which of them each shape has, by default none.
        events
            What happens to the servers.

        Notes
        -----
        Arrays are copied, unless they are read-only and of the right type already.

        Examples
        --------
        >>> Workload.from_arrays(
        ...     ["ann", "bob"], ["cpu"], [[1], [2]],
        ...     user=[0, 1, 0], arrival=[0, 5, 9], shape=[0, 1, 1], duration=[60, 60, 30],
        ... )
        Workload(2 users, 3 jobs, 3 tasks, arrivals 0 to 9 s)
        """
        everyone = read_users(users)
        demand, resources = resource_columns(demand, resources, "demand")
        columns = arrays.names(resources, "resources", loose=True)
        terms, table, kind, renumber = arrays.shapes(columns, demand, restrictions, restriction)
        owner = arrays.positions(user, "user", None, len(everyone), "a user")
        size = len(owner)
        when = arrays.seconds(arrival, "arrival", (size,), endless=False)
        which = arrays.positions(shape, "shape", size, len(renumber), "a shape")
        if len(table) != len(renumber):
            which = renumber[which]
        counts = np.ones(size, dtype=np.int64) if count is None else arrays.counts(count, size)
        counts = counted(counts)
        tasks = int(counts.sum())
        long = arrays.seconds(duration, "duration", (size, tasks), endless=True)
        named = None if job_names is None else arrays.names(job_names, "job_names")
        batch_job, job_user = arrays.jobs(job, owner, None if named is None else len(named))
        workload = cls.__new__(cls)
        workload._set(
            users=everyone,
            events=read_events(events),
            resources=columns,
            demand=table,
            restrictions=terms,
            restriction=kind,
            batch_user=owner,
            batch_job=batch_job,
            batch_arrival=when,
            batch_shape=which,
            batch_count=counts,
            job_user=job_user,
            _names=named,
            **{"duration" if len(long) == tasks else "_seconds": long},
        )
        return workload

    @cached_property
    def duration(self) -> Floats:
        """How long each task runs, in seconds; one number for each task."""
        seconds: Floats = np.repeat(self._seconds, self.batch_count)  # type: ignore[arg-type]
        for batch, listed in self._listed:
            first = self.batch_first[batch]
            seconds[first : first + len(listed)] = listed
        seconds.flags.writeable = False
        return seconds

    @cached_property
    def job_names(self) -> tuple[str, ...]:
        """Names of the jobs; made on first use if none were given."""
        if self._names is not None:
            return self._names
        return tuple(map(self.job_name, range(self.job_count)))

    def job_name(self, job: int) -> str:
        """Return the name of one job, without making those of all.

        Examples
        --------
        >>> Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=9)]).job_name(0)
        'job-1'
        """
        if self._names is not None:
            return self._names[job]
        return f"job-{(job if self._numbers is None else int(self._numbers[job])) + 1}"

    @property
    def job_count(self) -> int:
        """Number of jobs."""
        return len(self.job_user)

    @property
    def task_count(self) -> int:
        """Number of tasks."""
        return int(self.batch_count.sum())

    def check(self, cluster: Cluster) -> None:
        """Raise if the jobs or the events speak of what the servers do not have.

        A task that is larger than every server is fine: it never runs. A misspelt resource, or a
        restriction to a server that never is, is a mistake.

        Parameters
        ----------
        cluster
            The servers at the start; events may add more.

        Examples
        --------
        >>> from drfh import Server
        >>> workload = Workload(["ann"], [Job("ann", demand={"cpus": 1}, duration=9)])
        >>> workload.check(Cluster([Server({"cpu": 8})]))
        Traceback (most recent call last):
        drfh.errors.UnknownNameError: resource demanded by job-1 must be one of cpu \
(did you mean cpu?), got 'cpus'
        """
        if not isinstance(cluster, Cluster):
            raise InputError("cluster", "must be a drfh.Cluster", cluster)
        check_events(cluster, self.events)
        known = set(cluster.resources)
        for event in self.events:
            if isinstance(event, AddServers):
                known.update(event.server.resources)
            elif isinstance(event, ResizeServer):
                known.update(event.resources)
        for column, resource in enumerate(self.resources):
            if resource not in known:
                asks = np.flatnonzero((self.demand[:, column] > 0)[self.batch_shape])
                if len(asks):
                    who = self.job_name(int(self.batch_job[asks[0]]))
                    raise UnknownNameError(f"resource demanded by {who}", resource, known)
        check_names(self._named_servers(), cluster, self.events)

    def _named_servers(self) -> dict[str, str]:
        """Return who asks for it, by name of a server in a restriction."""
        names: dict[str, str] = {}
        for user in self.users:
            for term in user.servers or ():  # type: ignore[union-attr]
                if isinstance(term, str):
                    names.setdefault(term, user.name)
        for number, terms in enumerate(self.restrictions):
            for term in terms or ():  # type: ignore[union-attr]
                if isinstance(term, str) and term not in names:
                    asks = np.flatnonzero((self.restriction == number)[self.batch_shape])
                    if len(asks):
                        names[term] = self.job_name(int(self.batch_job[asks[0]]))
        return names

    def until(self, time: float) -> Workload:
        """Return the same without the jobs that arrive after `time`.

        A job of several batches keeps those that arrive in time. The events stay.

        Examples
        --------
        >>> jobs = [Job("ann", duration=9, arrival=t, tasks=2) for t in (0, 10, 20)]
        >>> Workload([User("ann", {"cpu": 1})], jobs).until(10)
        Workload(1 user, 2 jobs, 4 tasks, arrivals 0 to 10 s)
        """
        if isinstance(time, bool) or not isinstance(time, (int, float, np.integer, np.floating)):
            raise InputError("time", "must be a number of seconds", time)
        kept = self.batch_arrival <= time
        if kept.all():
            return self
        used = np.zeros(self.job_count, dtype=bool)
        used[self.batch_job[kept]] = True
        old = np.flatnonzero(used)
        renumber = np.zeros(self.job_count, dtype=np.int64)
        renumber[old] = np.arange(len(old))
        names, numbers = self._names, self._numbers
        shorter = Workload.__new__(Workload)
        shorter._set(
            users=self.users,
            events=self.events,
            resources=self.resources,
            demand=self.demand,
            restrictions=self.restrictions,
            restriction=self.restriction,
            batch_user=self.batch_user[kept],
            batch_job=renumber[self.batch_job[kept]],
            batch_arrival=self.batch_arrival[kept],
            batch_shape=self.batch_shape[kept],
            batch_count=self.batch_count[kept],
            job_user=self.job_user[old],
            duration=self.duration[np.repeat(kept, self.batch_count)],
            _names=None if names is None else tuple(names[j] for j in old.tolist()),
            _numbers=old if numbers is None else numbers[old],
        )
        return shorter

    def with_weights(self, weights: Mapping[str, float]) -> Workload:
        """Return the same with other weights of some users, by name.

        Examples
        --------
        >>> workload = Workload([User("ann", {"cpu": 1})], [Job("ann", duration=9)])
        >>> workload.with_weights({"ann": 2}).users
        (User('ann', {'cpu': 1.0}, weight=2.0),)
        """
        other = Workload.__new__(Workload)
        other.__dict__.update(self.__dict__)
        other.__dict__["users"] = tuple(
            replace(user, weight=weights[user.name]) if user.name in weights else user
            for user in self.users
        )
        return other

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, Workload)
            and (self.users, self.events) == (other.users, other.events)
            and (self.resources, self.restrictions) == (other.resources, other.restrictions)
            and all(np.array_equal(getattr(self, a), getattr(other, a)) for a in _ARRAYS)
            and self.job_names == other.job_names
        )

    def __hash__(self) -> int:
        return hash((self.users, self.resources, len(self.batch_user), self.task_count))

    @property
    def summary(self) -> str:
        """How many jobs, tasks and events there are, and when jobs arrive."""
        parts = [format_count(self.job_count, "job"), format_count(self.task_count, "task")]
        if self.events:
            parts.append(format_count(len(self.events), "server event"))
        if len(self.batch_arrival):
            first, last = float(self.batch_arrival.min()), float(self.batch_arrival.max())
            one = f"arrivals at {first:,.6g} s"
            parts.append(one if first == last else f"arrivals {first:,.6g} to {last:,.6g} s")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Workload({format_count(len(self.users), 'user')}, {self.summary})"

    def _repr_html_(self) -> str:
        from drfh.report.tables import workload_table

        return workload_table(self).to_html()
