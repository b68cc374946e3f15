"""Fit the table of the `google-like` generator to Google's trace of 2011.

    python tools/fit_google_like.py [DIRECTORY] [-o FILE]

DIRECTORY holds ``task_events/`` and ``machine_events/`` (clusterdata-2011-2); by default it is
``clusterdata-2011-2`` in the directory that the environment variable DRFH_DATA names. There are no
random draws here: the same trace gives the same file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import drfh.generators
from drfh.errors import DrfhError
from drfh.generators.base import at_levels
from drfh.generators.google_like import mean_work, tail_mean
from drfh.generators.google_parameters import LEVELS, USUAL, as_stream
from drfh.traces import Trace, read

TABLE = Path(drfh.generators.__file__).with_name("google_like.json")
ABOUT = [
    "Figures of the google-like generator, written by tools/fit_google_like.py.",
    "Fitted to the first 19.5 hours of Google's cluster trace clusterdata-2011-2, published under",
    "CC-BY 4.0 by Google (J. Wilkes and C. Reiss); see C. Reiss, A. Tumanov, G. Ganger, R. Katz,",
    "M. Kozuch: Heterogeneity and dynamicity of clouds at scale: Google trace analysis, SoCC 2012.",
    "These are summaries (counts, quantiles, probabilities); no rows of the trace are contained.",
    "What each field means is in src/drfh/generators/google_parameters.py.",
]

# A user with more than this part of all tasks, jobs or demanded resource time has a profile alone.
ALONE = 0.005
# Jobs of such a user that ask for the same are a stream alone from this part on.
STREAM = 0.006
# Jobs of one class of sizes of such a user are lumped with others below this part.
MINOR = 0.001
SIZE_CLASSES = (1, 2, 10, 100, 1000)
# Users of the other profiles have about as many tasks.
TASK_CLASSES = (1, 2, 4, 10, 30, 100, 400)
# Requests of a stream that are common: at most so many, each of at least this part of the tasks.
PAIRS = 4
PAIR = 0.08
MANY = 100  # tasks
SITTING = 600.0  # seconds without a new job that end a sitting
MOST_VALUES = 10  # of a distribution over jobs or users
Floats = NDArray[np.float64]


def tasks_of(trace: Trace) -> pl.DataFrame:
    """Return one row for each task of a trace; jobs that span the start count as two."""
    workload = trace.workload
    count = workload.batch_count
    demand = workload.demand[workload.batch_shape]
    frame = pl.DataFrame(
        {
            "user": workload.batch_user,
            "start": trace.details["at_start"],
            "job": workload.batch_job * 2 + trace.details["at_start"].to_numpy(),
            "arrival": workload.batch_arrival,
            "cpu": demand[:, workload.resources.index("cpu")],
            "memory": demand[:, workload.resources.index("memory")],
            "end": trace.details["end"].cast(pl.String),
        }
    )
    tasks = frame[np.repeat(np.arange(len(frame)), count)].with_columns(
        pl.Series("seconds", workload.duration)
    )
    # Many tasks of a job that ask for the same are a job of their own: most jobs ask for one thing.
    pair = pl.struct("cpu", "memory").rank("dense").over("job")
    many = pl.len().over("job", "cpu", "memory") >= MANY
    code = pl.struct("job", pl.when(many).then(pair).otherwise(0)).rank("dense")
    return tasks.with_columns(code.alias("job"))


def jobs_of(tasks: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each job: how many tasks it has and what most of them ask for."""
    pairs = (
        tasks.group_by("job", "cpu", "memory", maintain_order=True)
        .agg(pl.len().alias("same"))
        .sort("same", descending=True, maintain_order=True)
        .group_by("job", maintain_order=True)
        .agg(pl.col("cpu", "memory", "same").first(), pl.len().alias("pairs"))
    )
    jobs = tasks.group_by("job", maintain_order=True).agg(
        pl.col("user", "start").first(), pl.col("arrival").min(), pl.len().alias("size")
    )
    jobs = jobs.join(pairs, on="job", how="left", maintain_order="left")
    # In the trace a job that was submitted earlier has a smaller number and comes first.
    rank = pl.col("start").cum_sum() / pl.col("start").sum()
    return jobs.with_columns(
        pl.when("start").then(1 - rank).alias("age"),
        pl.Series("class", np.searchsorted(SIZE_CLASSES, jobs["size"].to_numpy(), side="right")),
    )


def with_importance(tasks: pl.DataFrame) -> pl.DataFrame:
    """Add what part of all tasks, jobs, CPU time and memory time each task is."""
    share = [
        (pl.col(r) * pl.col("seconds") / (pl.col(r) * pl.col("seconds")).sum()).alias(f"_{r}")
        for r in ("cpu", "memory")
    ]
    return tasks.with_columns(
        *share,
        (1 / pl.len()).alias("_tasks"),
        (1 / pl.len().over("job") / pl.col("job").n_unique()).alias("_jobs"),
    )


IMPORTANCE = pl.max_horizontal(pl.col("_cpu", "_memory", "_tasks", "_jobs").sum())


def several(values: Floats, digits: int = 0) -> list[float]:
    """Return a few values that stand for equally many of `values` each; the mean is kept."""
    ordered = np.sort(values)
    parts = np.array_split(ordered, min(len(ordered), MOST_VALUES))
    found = [round(float(part.mean()), digits) for part in parts]
    return [found[0]] if len(set(found)) == 1 else found


def levels(values: Floats, mean: float) -> list[float]:
    """Return the quantiles of run times, to three digits; the last so that the mean is right."""
    known = np.quantile(values, LEVELS)
    ranks = (np.arange(1000) + 0.5) / 1000
    low, high = known[-2], known[-1]
    for _ in range(50):
        known[-1] = (low + high) / 2
        if at_levels(ranks, LEVELS, known).mean() > mean:
            high = known[-1]
        else:
            low = known[-1]
    found = [float(f"{v:.3g}") for v in known]
    return [found[0]] if len(set(found)) == 1 else found


def mean_seconds(tasks: pl.DataFrame) -> float:
    """Return the mean run time, as CPU and memory feel it: tasks that ask for more count more."""
    means = [
        float((weight * tasks["seconds"]).sum()) / float(weight.sum())
        for weight in (tasks["cpu"], tasks["memory"])
        if float(weight.sum()) > 0
    ]
    return float(np.mean(means))


def uncut(tasks: pl.DataFrame) -> pl.DataFrame:
    """Lengthen run times that the end of the window cut short, of tasks that came later.

    Such a task gets the median run time of those that ran longer than it had by then, among jobs
    of its class of sizes.
    """
    parts = []
    for key, part in tasks.sort("class").group_by("class", maintain_order=True):
        del key
        later = part.filter(~pl.col("start") & (pl.col("end") != "cut"))["seconds"].sort()
        ended, seconds = later.to_numpy(), part["seconds"].to_numpy()
        beyond = np.searchsorted(ended, seconds, side="right")
        middle = (beyond + len(ended)) // 2
        longer = ended[np.minimum(middle, len(ended) - 1)] if len(ended) else seconds
        wanted = ~part["start"].to_numpy() & (part["end"] == "cut").to_numpy()
        parts.append(
            part.with_columns(
                pl.Series("seconds", np.where(wanted, np.maximum(longer, seconds), seconds))
            )
        )
    return pl.concat(parts)


def spread(tasks: pl.DataFrame, window: float) -> float:
    """Return how far run times of one job lie apart, in ranks among those of the stream.

    0 if all tasks of a job run equally long, 2 if they differ as if they were of different jobs.
    """
    still = tasks["start"] & (tasks["end"] == "cut")
    time = tasks["seconds"].zip_with(~still, pl.Series([window * 10]).new_from_index(0, len(tasks)))
    rank = pl.DataFrame({"job": tasks["job"], "rank": time.rank("average") / len(tasks)})
    if rank["job"].n_unique() == 1:
        return 2.0
    inside = rank.with_columns((pl.col("rank") - pl.col("rank").mean().over("job")) ** 2)
    freedom = len(tasks) - rank["job"].n_unique()
    total = float(rank["rank"].var() or 0.0)  # type: ignore[arg-type]
    if freedom < 5 or total < 1e-9:
        return 0.5
    part = min(1.0, float(inside["rank"].sum()) / freedom / total)
    grid = np.linspace(0, 2, 41)
    place, step = (np.arange(200) + 0.5) / 200, np.arange(-199, 200, 2) / 400
    shown = [np.abs(place[:, None] + w * step[None, :]) for w in grid]
    shown = [np.where(s > 1, 2 - s, s) for s in shown]
    known = [float(s.var(axis=1).mean()) * 12 for s in shown]
    return round(float(np.interp(part, np.maximum.accumulate(known), grid)), 2)


def kept_mean(center: float, deviation: float, mean: float) -> float:
    """Return a deviation of logarithms, at most `deviation`, that gives about the mean."""
    low, high = 0.0, deviation
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if tail_mean(center, middle) < mean else (low, middle)
    return high


def requests_of(jobs: pl.DataFrame, known: dict[tuple[float, float], int]) -> dict[str, Any]:
    """Return what the jobs of a stream ask for: common pairs with weights, and a tail."""
    pairs = (
        jobs.group_by("cpu", "memory", maintain_order=True)
        .agg(pl.col("size").sum().alias("tasks"))
        .sort("tasks", descending=True, maintain_order=True)
    )
    total = int(pairs["tasks"].sum())
    common = pairs.with_row_index().filter(
        ((pl.col("index") < PAIRS) & (pl.col("tasks") >= PAIR * total))
        | (pl.col("cpu") == 0)
        | (pl.col("memory") == 0)
    )
    rest = pairs.join(common, on=["cpu", "memory"], how="anti", maintain_order="left")
    if len(rest) < 3:
        common, rest = pairs, pairs.clear()
    found: dict[str, Any] = {"ask": []}
    for cpu, memory, tasks in common.select("cpu", "memory", "tasks").iter_rows():
        number = known.setdefault((cpu, memory), len(known))
        found["ask"] += [number, round(tasks / total, 3)]
    if len(rest):
        weight = rest["tasks"].to_numpy() / rest["tasks"].sum()
        logs = np.log(rest.select("cpu", "memory").to_numpy())
        mean = weight @ logs
        cov = (weight[:, None] * (logs - mean)).T @ (logs - mean)
        deviation = [
            kept_mean(m, s, float(w))
            for m, s, w in zip(mean, np.sqrt(np.diag(cov)), weight @ np.exp(logs), strict=True)
        ]
        corr = cov[0, 1] / max(np.sqrt(cov[0, 0] * cov[1, 1]), 1e-12)
        tail = [rest["tasks"].sum() / total, *mean, *deviation, corr]
        found["tail"] = [round(float(v), 3) for v in tail]
    return found


def stream_of(
    jobs: pl.DataFrame,
    tasks: pl.DataFrame,
    users: int,
    window: float,
    known: dict[tuple[float, float], int],
) -> dict[str, Any]:
    """Return the figures of jobs that are alike; `tasks` are those of `jobs`."""
    start = bool(jobs["start"][0])
    per_user = jobs.group_by("user", maintain_order=True).len()["len"].to_numpy()
    counts = np.concatenate([per_user, np.zeros(users - len(per_user))])
    stream: dict[str, Any] = {"jobs": several(counts, 1)}
    stream["sizes"] = several(jobs["size"].to_numpy().astype(float))
    stream |= requests_of(jobs, known)
    stream["spread"] = spread(tasks, window)
    if start:
        age = np.quantile(jobs["age"].to_numpy(), (0.05, 0.95))
        stream["age"] = [round(float(a), 4) for a in age]
    over = tasks.filter((pl.col("end") != "cut") | ~pl.lit(start))
    if start and len(over) < len(tasks):
        stays = tasks.filter(pl.col("end") == "cut")["seconds"].to_numpy()
        stream["stay"] = round(len(stays) / len(tasks), 4)
        late = np.maximum(1 - stays / window, 0).round(4)
        late_levels = levels(late, float(late.mean()))
        if late.mean() >= 0.002:
            stream["late"] = late_levels
    if len(over):
        stream["seconds"] = levels(over["seconds"].to_numpy(), mean_seconds(over))
        rank = over["seconds"].rank("ordinal").to_numpy()
        third = (rank - 1) * 3 // len(over)
        killed = (over["end"] == "kill").to_numpy()
        known_end = (over["end"] != "cut").to_numpy()
        kill = [
            round(float(killed[known_end & (third == t)].mean()), 2)
            if (known_end & (third == t)).any()
            else 0.0
            for t in range(3)
        ]
        stream["kill"] = [kill[0]] if len(set(kill)) == 1 else kill
    stream = {name: value for name, value in stream.items() if value != USUAL.get(name)}
    if "tail" in stream:
        match_work(stream, jobs, tasks, window, known)
    return stream


def match_work(
    stream: dict[str, Any],
    jobs: pl.DataFrame,
    tasks: pl.DataFrame,
    window: float,
    known: dict[tuple[float, float], int],
) -> None:
    """Shift the tail of requests so that the stream asks for as much resource time as it did.

    Its figures leave out that tasks which ask for more may run longer, or be of larger jobs.
    """
    pairs = np.array(list(known)).reshape(-1, 2)
    modelled = mean_work(as_stream(stream, start=bool(jobs["start"][0])), pairs, window)
    seconds = pl.min_horizontal("seconds", window - pl.col("arrival"))
    real = tasks.select((pl.col("cpu", "memory") * seconds).sum() / window).row(0)
    tail = stream["tail"]
    for column in range(2):
        share = tail[0] * tail_mean(tail[1 + column], tail[3 + column])
        asked = share + sum(
            pairs[number, column] * weight
            for number, weight in zip(stream["ask"][::2], stream["ask"][1::2], strict=True)
        )
        ratio = real[column] / len(jobs) / modelled[column]
        needed = 1 + (ratio - 1) * asked / share
        tail[1 + column] = round(tail[1 + column] + float(np.log(np.clip(needed, 0.6, 1.6))), 3)


def sittings_of(jobs: pl.DataFrame) -> tuple[list[float], Floats]:
    """Return jobs in a sitting and the mean gap between them; and when sittings begin."""
    later = jobs.filter(~pl.col("start")).sort("user", "arrival", maintain_order=True)
    if not len(later):
        return [], np.zeros(0)
    gap = later.select(pl.col("arrival").diff().over("user"))["arrival"]
    fresh = gap.is_null() | (gap > SITTING)
    inside = gap.filter(~fresh)
    mean = float(inside.mean() or 0.0)  # type: ignore[arg-type]
    return (
        [round(len(later) / int(fresh.sum()), 2), round(mean, 1)],
        later["arrival"].filter(fresh).to_numpy(),
    )


def profiles_of(tasks: pl.DataFrame, jobs: pl.DataFrame, window: float) -> dict[str, Any]:
    """Return the profiles, heaviest first, and the requests they speak of."""
    users = tasks.group_by("user", maintain_order=True).agg(
        IMPORTANCE.alias("importance"), pl.len().alias("tasks"), pl.col("start").mean()
    )
    tasks_class = np.searchsorted(TASK_CLASSES, users["tasks"].to_numpy(), side="right")
    # 0: all there at the start, 1: all later, 2: both.
    kind = np.where(users["start"] == 1, 0, np.where(users["start"] == 0, 1, 2))
    alone = users["importance"].to_numpy() >= ALONE
    number = np.where(alone, 1000 + np.arange(len(users)), kind * 10 + tasks_class)
    users = users.with_columns(pl.Series("profile", number)).sort(
        "importance", descending=True, maintain_order=True
    )
    order = users.group_by("profile", maintain_order=True).agg(
        pl.len().alias("users"), pl.col("importance").mean()
    )
    order = order.sort("importance", descending=True, maintain_order=True)
    jobs = jobs.join(users.select("user", "profile"), on="user", maintain_order="left")
    weight = tasks.group_by("job", maintain_order=True).agg(
        pl.col("_cpu", "_memory", "_tasks", "_jobs").sum()
    )
    jobs = jobs.join(weight, on="job", maintain_order="left")
    jobs = jobs.with_columns(
        IMPORTANCE.over("profile", "start", "class", "cpu", "memory").alias("importance")
    )
    apart = (pl.col("importance") >= STREAM) & (pl.col("profile") >= 1000)
    jobs = jobs.with_columns(
        pl.when(apart).then(pl.col("cpu")).otherwise(-1.0).alias("own_cpu"),
        pl.when(apart).then(pl.col("memory")).otherwise(-1.0).alias("own_memory"),
    )
    known: dict[tuple[float, float], int] = {}
    profiles = []
    minor = (IMPORTANCE.over("profile", "start", "class") < MINOR) & (pl.col("profile") >= 1000)
    jobs = jobs.with_columns(pl.when(minor).then(0).otherwise(pl.col("class")).alias("class"))
    by_profile = {key[0]: part for key, part in jobs.group_by("profile", maintain_order=True)}
    keys = ["start", "class", "own_cpu", "own_memory"]
    for profile, size in order.select("profile", "users").iter_rows():
        mine = by_profile[profile].sort(keys, descending=True, maintain_order=True)
        streams: dict[str, list[Any]] = {"start": [], "later": []}
        for _, part in mine.group_by(keys, maintain_order=True):
            theirs = tasks.join(part.select("job"), on="job", how="semi", maintain_order="left")
            when = "start" if part["start"][0] else "later"
            streams[when].append(stream_of(part, theirs, size, window, known))
        entry: dict[str, Any] = {"users": size}
        sitting, _ = sittings_of(mine)
        if sitting:
            entry["sitting"] = sitting
        profiles.append(entry | {when: found for when, found in streams.items() if found})
    return {"requests": [list(pair) for pair in known], "profiles": profiles}


def servers_of(trace: Trace) -> list[list[float]]:
    """Return the shapes of servers, CPU and memory, with how many have each."""
    cluster = trace.cluster
    columns = [cluster.resources.index(r) for r in ("cpu", "memory")]
    shapes, which = np.unique(cluster.capacity[:, columns], axis=0, return_inverse=True)
    counts = np.bincount(which.reshape(-1), weights=cluster.counts)
    order = np.argsort(-counts, kind="stable")
    return [[*map(float, shapes[i]), int(counts[i])] for i in order]


def fit(trace: Trace) -> dict[str, Any]:
    """Return the table."""
    tasks = tasks_of(trace)
    window = float(trace.window or tasks["arrival"].max())  # type: ignore[arg-type]
    jobs = jobs_of(tasks)
    tasks = with_importance(tasks)
    tasks = tasks.join(jobs.select("job", "class"), on="job", maintain_order="left")
    hours = np.ceil(window / 3600)
    begun = np.histogram(sittings_of(jobs)[1], np.minimum(np.arange(hours + 1) * 3600, window))[0]
    rate = begun / np.diff(np.minimum(np.arange(hours + 1) * 3600, window))
    smooth = np.convolve(np.pad(rate, 1, mode="edge"), [0.25, 0.5, 0.25], mode="valid")
    ends = {}
    for name, start in (("start", True), ("later", False)):
        over = tasks.filter((pl.col("start") == start) & (pl.col("end") != "cut"))
        ends[name] = {
            end: round(float((over["end"] == end).mean() or 0.0), 4)  # type: ignore[arg-type]
            for end in ("evict", "fail", "lost")
        }
    plural = jobs.filter(pl.col("start") & (pl.col("size") > 1))
    mixed = plural.filter(pl.col("pairs") > 1)
    table: dict[str, Any] = {
        "about": ABOUT,
        "window": round(window, 1),
        "users": int(jobs["user"].n_unique()),
        "servers": servers_of(trace),
        "hours": [round(float(v), 2) for v in smooth / smooth.mean()],
        "other_ends": ends,
        "mixed": [
            round(len(mixed) / max(1, len(plural)), 4),
            several((1 - mixed["same"] / mixed["size"]).to_numpy(), 3) if len(mixed) else [0.0],
        ],
    }
    return table | profiles_of(uncut(tasks), jobs, window)


def text_of(table: dict[str, Any]) -> str:
    """Return the table as JSON with a line for each stream."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    def line(value: Any) -> str:
        return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)

    lines = ["{", '"about": [', ",\n".join("  " + line(text) for text in table["about"]), "],"]
    lines += [
        f"{json.dumps(key)}: {line(table[key])},"
        for key in table
        if key not in ("about", "requests", "profiles")
    ]
    pairs = [line(pair) for pair in table["requests"]]
    rows = [", ".join(pairs[i : i + 6]) for i in range(0, len(pairs), 6)]
    lines += ['"requests": [', ",\n".join(rows), "],", '"profiles": [']
    entries = []
    for profile in table["profiles"]:
        parts = [f'"{key}": {line(profile[key])}' for key in ("users", "sitting") if key in profile]
        for key in ("start", "later"):
            if key in profile:
                body = ",\n".join("  " + line(stream) for stream in profile[key])
                parts.append(f'"{key}": [\n{body}]')
        entries.append(f"{{{', '.join(parts)}}}")
    lines += [",\n".join(entries), "]", "}"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Fit the table, write it and say what is in it."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("directory", nargs="?", help="the trace (default: DRFH_DATA)")
    parser.add_argument("-o", "--output", type=Path, default=TABLE, help="where the table goes")
    parser.add_argument("--hours", type=float, help="fit to so many hours only")
    given = parser.parse_args()
    folder = given.directory
    if folder is None:
        if "DRFH_DATA" not in os.environ:
            parser.error("name the directory of the trace, or set DRFH_DATA")
        folder = Path(os.environ["DRFH_DATA"]) / "clusterdata-2011-2"
    try:
        trace = read("google-2011", folder, hours=given.hours)
    except DrfhError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    table = fit(trace)
    text = text_of(table)
    given.output.write_text(text, encoding="utf-8")
    starts, laters = (
        sum(len(profile.get(when, ())) for profile in table["profiles"])
        for when in ("start", "later")
    )
    alone = sum(profile["users"] == 1 for profile in table["profiles"])
    print(f"read     {trace.workload}")
    print(f"profiles {len(table['profiles'])}, {alone} of them of one user")
    print(f"streams  {starts} at the start, {laters} later")
    print(f"requests {len(table['requests'])} common pairs")
    print(f"wrote    {given.output}, {len(text.encode()):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
