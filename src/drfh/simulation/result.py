"""Result of a simulation, and its run directory."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from drfh.errors import InputError
from drfh.files.atomic import read_text, shown_path, whole_directory, writing_into
from drfh.formatting import format_count, format_percent, plural

if TYPE_CHECKING:
    import polars
    from altair import TopLevelMixin as Chart

__all__ = ["RUN_FILE", "Result", "common_jobs", "fair_numbers", "mixed_note"]

#: The file by which a run directory is known.
RUN_FILE = "run_info.json"


@dataclass(frozen=True, eq=False)
class Result:
    """What a simulation found out. Times are in seconds.

    Attributes
    ----------
    jobs : polars.DataFrame
        A row for each job: ``job``, ``user``, ``tasks``, ``done`` (tasks that ended),
        ``submission``, ``first_start``, ``finish``, ``waiting``, ``turnaround``, ``stretch``
        (turnaround / longest duration of its tasks). Null where it did not come to that.
    users : polars.DataFrame
        A row for each user: ``user``, ``weight``, tasks ``submitted``, ``started`` and
        ``completed``, ``evictions``, ``completion_ratio``, ``mean_waiting`` of started tasks,
        ``mean_share`` (the dominant share, integrated over time), ``below_fair`` (seconds; null
        unless the run looked at fairness).
    samples : polars.DataFrame
        A row for each sample: ``time``, ``utilisation.RESOURCE``, tasks ``running`` and
        ``queued``, ``share.USER``; with fairness ``fair.missing`` (the missing share),
        ``fair.distance`` and ``fair.worst`` (what the worst-off user lacks, and who it is), and
        ``fair_level.USER``.
    tasks : polars.DataFrame or None
        A row for each task, if they were logged: ``job``, ``user``, ``task``, ``submission``,
        ``duration``, ``first_start``; ``start``, ``end`` and ``server`` of the run that ended or
        still goes on (null if it waits, also after it was put back); ``evictions`` (how often it
        was put back), ``lost`` (seconds of the runs that were cut short), ``demand.RESOURCE``.
    cut : polars.DataFrame or None
        The runs that were cut short, if tasks were logged: row of `tasks`, ``start``, ``end`` and
        ``server``. It is not saved.
    config : dict
        What was asked for.
    info : dict
        Versions, machine, seed and wall time.

    Examples
    --------
    >>> import drfh
    >>> workload = drfh.Workload(["ann"], [drfh.Job("ann", demand={"cpu": 1}, duration=5, tasks=3)])
    >>> result = drfh.simulate(drfh.Cluster([drfh.Server({"cpu": 2})]), workload)
    >>> result.users.select("user", "completed", "mean_share").rows()
    [('ann', 3, 0.75)]
    >>> result
    Result(best-fit-drfh, 3 of 3 tasks completed in 10 s: cpu 75.0 %)
    """

    jobs: polars.DataFrame
    users: polars.DataFrame
    samples: polars.DataFrame
    tasks: polars.DataFrame | None
    config: Mapping[str, Any]
    info: Mapping[str, Any]
    numbers: Mapping[str, Any]
    cut: polars.DataFrame | None = None

    @property
    def policy(self) -> str:
        """Name of the policy."""
        return str(self.numbers["policy"])

    @property
    def seed(self) -> int:
        """Start of the policy's draws."""
        return int(self.numbers["seed"])

    @property
    def horizon(self) -> float:
        """When the simulation ended."""
        return float(self.numbers["horizon"])

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the run as plain data."""
        return copy.deepcopy(dict(self.numbers))

    def shares(self) -> polars.DataFrame:
        """Return dominant shares, a row for each sample and user.

        Examples
        --------
        >>> import drfh
        >>> workload = drfh.Workload(["ann"], [drfh.Job("ann", demand={"cpu": 1}, duration=5)])
        >>> result = drfh.simulate(drfh.Cluster([drfh.Server({"cpu": 2})]), workload, interval=5)
        >>> result.shares().rows()
        [(0.0, 'ann', 0.5), (5.0, 'ann', 0.0)]
        """
        import polars as pl

        def long(prefix: str, name: str) -> pl.DataFrame:
            columns = [c for c in self.samples.columns if c.startswith(prefix)]
            table = self.samples.select("time", *columns)
            table = table.unpivot(index="time", variable_name="user", value_name=name)
            return table.with_columns(pl.col("user").str.strip_prefix(prefix))

        shares = long("share.", "share")
        if "fair.distance" in self.samples.columns:
            shares = shares.with_columns(long("fair_level.", "fair_level")["fair_level"])
        rank = {name: position for position, name in enumerate(self.users["user"].to_list())}
        order = shares["user"].replace_strict(rank, return_dtype=pl.Int64)
        return shares.with_columns(order.alias("")).sort("time", "").drop("")

    def plot(self, figure: str = "utilisation", *, beside: Sequence[Result] = ()) -> Chart:
        """Return a figure of the run, and of others beside it.

        Parameters
        ----------
        figure
            ``utilisation``, ``tasks``, ``shares``, ``fair``, ``turnaround``, ``waiting``,
            ``longest-waiting`` or ``ratios``.
        beside
            Other runs in the same figure, by the names of their policies.

        Returns
        -------
        altair chart
            To show in a notebook, or to save; :func:`drfh.report.save_figures` writes figures
            for papers.

        Examples
        --------
        >>> import drfh
        >>> day = drfh.load_scenario("gpu-day")
        >>> fifo, fair = (drfh.simulate(day, policy=p) for p in ("fifo", "best-fit-drfh"))
        >>> fair.plot("turnaround", beside=[fifo]).title.text
        'Jobs complete within a time'
        """
        from drfh.report.charts.runs import run_plot
        from drfh.report.figures import file_chart
        from drfh.report.pages.runs import name_runs

        return file_chart(run_plot(name_runs([self, *beside]), figure), caption=False)

    def to_latex(self, *, beside: Sequence[Result] = ()) -> str:
        """Return the numbers of the run as a LaTeX table (booktabs).

        Parameters
        ----------
        beside
            Other runs, a column each. Times of jobs are then of those that finished in all.
        """
        from drfh.report.tables import result_table

        return result_table(self, beside).to_latex()

    def _repr_html_(self) -> str:
        from drfh.report.tables import result_table

        return result_table(self).to_html()

    def save(self, directory: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write a run directory: whole, or not at all.

        Parameters
        ----------
        directory
            Where: a new or empty one.
        force
            Whether to replace a run directory that is there.

        Examples
        --------
        >>> import drfh
        >>> from tempfile import TemporaryDirectory
        >>> workload = drfh.Workload(["ann"], [drfh.Job("ann", demand={"cpu": 1}, duration=5)])
        >>> result = drfh.simulate(drfh.Cluster([drfh.Server({"cpu": 2})]), workload)
        >>> with TemporaryDirectory() as folder:
        ...     result.save(f"{folder}/run")
        ...     Result.load(f"{folder}/run").summary() == result.summary()
        True
        """
        with whole_directory(directory, RUN_FILE, force=force) as draft:
            self.write(draft)

    def write(self, folder: Path) -> None:
        """Write the files of a run directory into an existing folder."""
        config = yaml.safe_dump(dict(self.config), sort_keys=False, allow_unicode=True)
        texts = {"config.yaml": config}
        for name, data in (("summary.json", self.numbers), (RUN_FILE, self.info)):
            texts[name] = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        with writing_into(folder):
            for name in ("jobs", "users", "samples", "tasks"):
                table = getattr(self, name)
                if table is not None:
                    table.write_parquet(folder / f"{name}.parquet")
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Result:
        """Read a run directory.

        Examples
        --------
        >>> Result.load("no-such-run")
        Traceback (most recent call last):
        drfh.errors.InputError: no-such-run: the directory must be one that a simulation wrote \
(run_info.json is missing)
        """
        import polars as pl

        folder = Path(directory)
        place = shown_path(os.fspath(directory))
        names = ("config.yaml", "summary.json", RUN_FILE)
        tables = ("jobs", "users", "samples")
        for name in (RUN_FILE, *names, *(f"{table}.parquet" for table in tables)):
            if not (folder / name).is_file():
                rule = f"must be one that a simulation wrote ({name} is missing)"
                raise InputError("the directory", rule, place=place)
        frames: dict[str, Any] = {"tasks": None}
        try:
            for name in (*tables, "tasks"):
                if (folder / f"{name}.parquet").is_file():
                    frames[name] = pl.read_parquet(folder / f"{name}.parquet")
            config, numbers, info = (
                (yaml.safe_load if name.endswith(".yaml") else json.loads)(
                    read_text(str(folder / name))
                )
                for name in names
            )
        except (pl.exceptions.PolarsError, ValueError, OSError, yaml.YAMLError) as error:
            if isinstance(error, InputError):
                raise
            reason = " ".join(str(error).split())[:100]
            raise InputError("the directory", f"must be readable ({reason})", place=place) from None
        if "fair.distance" in frames["samples"].columns:  # runs of old: without the missing share
            frames["samples"] = _with_missing_share(frames["samples"], frames["users"])
            numbers["fair"] = fair_numbers(frames["samples"]) | numbers["fair"]
        return cls(**frames, config=config, info=info, numbers=numbers)

    def __repr__(self) -> str:
        tasks = self.numbers["tasks"]
        used = self.numbers["utilisation"].items()
        full = ", ".join(f"{name} {format_percent(part)}" for name, part in used)
        return (
            f"Result({self.policy}, {tasks['completed']:,} of {tasks['submitted']:,} tasks "
            f"completed in {self.horizon:,.6g} s: {full})"
        )


def fair_numbers(samples: polars.DataFrame) -> dict[str, float]:
    """Return mean and most over the samples of both distances from fair.

    Examples
    --------
    >>> import polars as pl
    >>> fair_numbers(pl.DataFrame({"fair.missing": [0.0, 0.5], "fair.distance": [0.0, 1.0]}))
    {'mean_missing': 0.25, 'max_missing': 0.5, 'mean_distance': 0.5, 'max_distance': 1.0}
    """
    found: dict[str, float] = {}
    for name in ("missing", "distance"):
        column: Any = samples[f"fair.{name}"]
        found |= {f"mean_{name}": float(column.mean()), f"max_{name}": float(column.max())}
    return found


def mixed_note(users: int) -> str:
    """Return the note on users whose tasks differ.

    Examples
    --------
    >>> mixed_note(1)
    '1 user had tasks that differ: its fair level is that of the mean task, which may mislead'
    """
    whose = plural(users, "its", "their")
    return (
        f"{format_count(users, 'user')} had tasks that differ: {whose} fair level is that of the "
        "mean task, which may mislead"
    )


def _with_missing_share(samples: polars.DataFrame, users: polars.DataFrame) -> polars.DataFrame:
    """Return the samples with the missing share, from shares and fair levels."""
    import numpy as np
    import polars as pl

    from drfh.allocation.fairness import missing_share

    if "fair.missing" in samples.columns:
        return samples
    names = users["user"].to_list()
    share, fair = (
        samples.select(pl.col(f"{part}.{name}").fill_null(np.nan) for name in names).to_numpy()
        for part in ("share", "fair_level")
    )
    missing = pl.Series("fair.missing", missing_share(share, users["weight"].to_numpy(), fair))
    return samples.insert_column(samples.get_column_index("fair.distance"), missing)


def common_jobs(results: Sequence[Result]) -> list[polars.DataFrame]:
    """Return the jobs of each result that finished in all of them.

    If the results are not of the same jobs, those that finished in each.

    Examples
    --------
    >>> import drfh
    >>> workload = drfh.Workload(["ann", "bob"], [
    ...     drfh.Job("ann", demand={"cpu": 1}, duration=5),
    ...     drfh.Job("bob", demand={"cpu": 2}, duration=5),
    ... ])
    >>> small, large = (drfh.simulate(drfh.Cluster([drfh.Server({"cpu": n})]), workload, until=8)
    ...                 for n in (2, 3))
    >>> [table["job"].to_list() for table in common_jobs([small, large])]
    [['job-1'], ['job-1']]
    """
    import polars as pl

    tables = [result.jobs for result in results]
    asked = [table.select("job", "user", "tasks", "submission") for table in tables]
    if not all(one.equals(asked[0]) for one in asked[1:]):
        return [table.drop_nulls("finish") for table in tables]
    finished = pl.DataFrame([table["finish"].alias(str(i)) for i, table in enumerate(tables)])
    in_all = finished.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    return [table.filter(in_all) for table in tables]
