"""Format ``openb``: Alibaba's GPU cluster trace of 2023.

Q. Weng et al., *Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent*, USENIX ATC 2023; ``cluster-trace-gpu-v2023`` of ``alibaba/clusterdata``. A list
of nodes and a list of pods are read.

- A node is a server named by its ``sn``: ``cpu`` in cores, ``memory`` in bytes, ``gpu`` in devices
  (0 for many), and the label ``gpu_model`` where it has any.
- A pod is a job of one task, named by its ``name``. It arrives at ``creation_time`` and runs for
  ``deletion_time`` − ``scheduled_time``. It asks for ``num_gpu`` × ``gpu_milli`` / 1000 of ``gpu``:
  the sum over its devices. Whether a single device has so much left is ignored while tasks
  are placed; :mod:`drfh.simulation.devices` tells afterwards how often none had.
- ``gpu_spec`` (such as ``V100M16|V100M32``) restricts a pod that asks for GPUs to nodes with one
  of these models. If no node has any of them the pod is kept and counted: it was submitted, and
  never runs.
- Pods that never ran (an empty ``scheduled_time``) have no running time; they are left out.
  Failed pods held their node until they failed, so they are kept unless ``failed=drop``.
- The trace has no users: ``user_by`` says which column stands for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from drfh.errors import InputError, UnknownNameError
from drfh.files.reader import Ledger, Progress, read_head, unpacked
from drfh.model.cluster import Cluster, Server
from drfh.model.users import Restriction
from drfh.traces.base import SAMPLING, WINDOW, Format, Option, Signature, TraceReading
from drfh.traces.build import build, keep_sample, keep_window
from drfh.traces.rows import parse_rows, refuse

__all__ = ["FORMAT"]

_RESOURCES = ("cpu", "memory", "gpu")
_MIB = 2.0**20
_LARGEST = 2.0**53
_MOST_GPUS = 10_000
_NODES, _PODS = "openb_node_list_", "openb_pod_list_"
_NODE_COLUMNS = {
    "sn": pl.String,
    "cpu_milli": pl.Float64,
    "memory_mib": pl.Float64,
    "gpu": pl.Int64,
    "model": pl.String,
}
_POD_COLUMNS = {
    "name": pl.String,
    "cpu_milli": pl.Float64,
    "memory_mib": pl.Float64,
    "num_gpu": pl.Int64,
    "gpu_milli": pl.Int64,
    "gpu_spec": pl.String,
    "qos": pl.String,
    "pod_phase": pl.String,
    "creation_time": pl.Float64,
    "deletion_time": pl.Float64,
    "scheduled_time": pl.Float64,
}
_POD_MUST = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time")
_TIMES = ("creation_time", "deletion_time", "scheduled_time")

_OPTIONS = (
    *WINDOW,
    *SAMPLING,
    Option(
        "pods",
        "Which list of pods of the directory: default, or a resample of the publisher such as "
        "cpu050.",
        "text",
        "default",
    ),
    Option(
        "nodes",
        "Which list of nodes of the directory: all, or gpu (those with GPUs).",
        "choice",
        "all",
        ("all", "gpu"),
    ),
    Option(
        "user_by",
        "Who is a user: a column of the pod list, or pod (each pod is a user of its own).",
        "text",
        "qos",
    ),
    Option(
        "arrivals",
        "When pods arrive: created (as they did; the cluster is nearly empty then) or at_once "
        "(all at 0, in that order).",
        "choice",
        "created",
        ("created", "at_once"),
    ),
    Option(
        "failed",
        "Pods that failed: keep (they held their node until then) or drop.",
        "choice",
        "keep",
        ("keep", "drop"),
    ),
    Option(
        "at_cut",
        "Pods still running when the trace ends: cut (they ran until then), run (they never end) "
        "or drop.",
        "choice",
        "cut",
        ("cut", "run", "drop"),
    ),
)


def _read(
    paths: tuple[Path, ...], options: Mapping[str, Any], ledger: Ledger, progress: Progress | None
) -> TraceReading:
    node_list, pod_list = _find_lists(paths, options)
    cluster = _read_nodes(node_list, ledger)
    if progress is not None:
        progress("lists", 1, 2)
    pods = _read_pods(pod_list, options["user_by"], ledger)
    if progress is not None:
        progress("lists", 2, 2)
    latest = pods.select(pl.max_horizontal(*_TIMES).max()).item()
    end = 0.0 if latest is None else float(latest)
    pods = _that_ran(pods, end, options, ledger)
    restriction, restrictions = _restrictions(pods, cluster, ledger)
    batches = pods.select(
        user=pl.col("_user"),
        job="name",
        arrival="creation_time",
        duration="duration",
        cpu=pl.col("cpu_milli") / 1000,
        memory=pl.col("memory_mib") * _MIB,
        gpu=pl.col("num_gpu") * pl.col("gpu_milli") / 1000,
        restriction=restriction,
        qos="qos",
        phase="pod_phase",
        num_gpu="num_gpu",
        gpu_milli="gpu_milli",
        gpu_spec="gpu_spec",
        waited=pl.col("scheduled_time") - pl.col("creation_time"),
    )
    inside = keep_window(batches, options)
    ledger.leave_out("pods", "not created in the window", len(batches) - len(inside))
    kept = keep_sample(inside, options)
    ledger.leave_out("pods", "not in the sample", len(inside) - len(kept))
    ledger.count("pods kept", len(kept))
    if options["arrivals"] == "at_once":
        kept = kept.with_columns(arrival=pl.lit(0.0))
    workload, details = build(kept, _RESOURCES, restrictions=restrictions)
    users = "each pod is one" if options["user_by"] == "pod" else f"{options['user_by']} is taken"
    ledger.remark(f"The trace has no users: {users} (user_by).")
    ledger.remark("A node's GPUs are one pool: a part of one may come from several devices.")
    begin = options["start"] * 3600
    length = end - begin if options["hours"] is None else options["hours"] * 3600
    return TraceReading(cluster, workload, details, window=min(length, end - begin))


def _folder(path: Path) -> Path:
    """Return the directory of the lists: in the publisher's layout it is inside."""
    inside = path / "csv"
    return inside if inside.is_dir() and not any(path.glob(f"{_NODES}*")) else path


def _is_node_list(path: Path) -> bool:
    return read_head(path, 200).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"sn,cpu_milli")


def _find_lists(paths: tuple[Path, ...], options: Mapping[str, Any]) -> tuple[Path, Path]:
    """Return the list of nodes and the list of pods."""
    if len(paths) == 1 and paths[0].is_dir():
        folder = _folder(paths[0])
        nodes = _find_list(folder, _NODES, f"{options['nodes']}_node", "nodes")
        return nodes, _find_list(folder, _PODS, options["pods"], "pods")
    if len(paths) != 2 or any(path.is_dir() for path in paths):
        rule = "must be a directory with openb lists, or two files: a list of nodes and one of pods"
        raise InputError("path", rule, ", ".join(map(str, paths)))
    first, second = paths
    swapped = _is_node_list(second) and not _is_node_list(first)
    return (second, first) if swapped else (first, second)


def _find_list(folder: Path, prefix: str, name: str, option: str) -> Path:
    found = {
        path.name.removeprefix(prefix).removesuffix(".gz").removesuffix(".csv"): path
        for path in sorted(folder.glob(f"{prefix}*.csv*"), reverse=True)  # rather .csv than .csv.gz
    }
    if name in found:
        return found[name]
    if not found:
        rule = f"must be a directory with {prefix}*.csv or .csv.gz"
        raise InputError("path", rule, str(folder))
    known = found if option == "pods" else {n.removesuffix("_node") for n in found}
    raise UnknownNameError(option, name if option == "pods" else name[: -len("_node")], known)


def _read_nodes(path: Path, ledger: Ledger) -> Cluster:
    data = unpacked(path, ledger)
    place = path.name
    must = ("sn", "cpu_milli", "memory_mib", "gpu")
    frame = parse_rows(data, _NODE_COLUMNS, ledger, place, header=True, required=must)
    frame = _stripped(frame)
    for column, most in (("cpu_milli", _LARGEST), ("memory_mib", _LARGEST), ("gpu", _MOST_GPUS)):
        frame = _in_range(frame, column, most, ledger, place)
    frame = refuse(frame, pl.col("cpu_milli") == 0, "cpu_milli", "must be > 0", ledger, place)
    frame = refuse(frame, pl.col("sn").is_null(), "sn", "must be given", ledger, place)
    again = ~pl.col("sn").is_first_distinct()
    frame = refuse(frame, again, "sn", "must be unique", ledger, place)
    if not len(frame):
        raise InputError("nodes", "must have at least one row that can be read", place=place)
    ledger.count("nodes", len(frame))
    ledger.count("nodes without GPUs", int((frame["gpu"] == 0).sum()))
    shapes = frame.select("cpu_milli", "memory_mib", "gpu", "model").n_unique()
    ledger.count("shapes of nodes", shapes)
    return Cluster(
        Server(
            {"cpu": cpu / 1000, "memory": memory * _MIB, "gpu": gpus},
            name=name,
            labels={"gpu_model": model} if gpus and model else None,
        )
        for name, cpu, memory, gpus, model in frame.select(*_NODE_COLUMNS).iter_rows()
    )


def _read_pods(path: Path, user_by: str, ledger: Ledger) -> pl.DataFrame:
    """Return the pods in order of their creation; ``_user`` is the user."""
    data = unpacked(path, ledger)
    place = path.name
    column = "name" if user_by == "pod" else user_by
    types = {**_POD_COLUMNS}
    types.setdefault(column, pl.String)
    first = data.partition(b"\n")[0].decode("utf-8", "replace")
    there = [name.strip(' \t\r"\ufeff') for name in first.split(",")]
    frame = parse_rows(data, types, ledger, place, header=True, required=_POD_MUST)
    if column not in there:
        raise UnknownNameError("user_by", user_by, ["pod", *there], place=place)
    frame = _stripped(frame)
    most = {"cpu_milli": _LARGEST, "memory_mib": _LARGEST, "num_gpu": _MOST_GPUS, "gpu_milli": 1000}
    for name, largest in (most | dict.fromkeys(_TIMES, _LARGEST)).items():
        frame = _in_range(frame, name, largest, ledger, place)
    asks = pl.col("num_gpu") > 0
    rule = "must be > 0 for a pod with num_gpu > 0"
    frame = refuse(frame, asks & (pl.col("gpu_milli") == 0), "gpu_milli", rule, ledger, place)
    nothing = (pl.col("cpu_milli") == 0) & (pl.col("memory_mib") == 0) & ~asks
    rule = "must be > 0 for a pod that asks for nothing else"
    frame = refuse(frame, nothing, "cpu_milli", rule, ledger, place)
    frame = refuse(frame, pl.col("name").is_null(), "name", "must be given", ledger, place)
    again = ~pl.col("name").is_first_distinct()
    frame = refuse(frame, again, "name", "must be unique", ledger, place)
    ends_first = pl.col("deletion_time") < pl.col("scheduled_time")
    rule = "must be at least scheduled_time"
    frame = refuse(frame, ends_first, "deletion_time", rule, ledger, place)
    ledger.count("pods", len(frame))
    for name in ("pod_phase", "qos"):
        for value, number in frame[name].value_counts(sort=True).head(12).rows():
            ledger.count(f"pods with {name} {value or '(empty)'}", number)
    ledger.count("pods without GPUs", int((frame["num_gpu"] == 0).sum()))
    part = (frame["num_gpu"] > 0) & (frame["gpu_milli"] < 1000)
    ledger.count("pods with a part of a GPU", int(part.sum()))
    ledger.count("pods listed after a later one", int((frame["creation_time"].diff() < 0).sum()))
    user = pl.col(column).cast(pl.String).fill_null("none")
    return frame.with_columns(_user=user).sort("creation_time", maintain_order=True)


def _that_ran(
    pods: pl.DataFrame, end: float, options: Mapping[str, Any], ledger: Ledger
) -> pl.DataFrame:
    """Return the pods of which the running time is known, with it."""
    ran = pods.filter(pl.col("scheduled_time").is_not_null())
    ledger.leave_out("pods", "never ran", len(pods) - len(ran))
    if options["failed"] == "drop":
        kept = ran.filter(pl.col("pod_phase").ne_missing("Failed"))
        ledger.leave_out("pods", "failed", len(ran) - len(kept), "failed=keep")
        ran = kept
    still = (pl.col("pod_phase").eq_missing("Running") & (pl.col("deletion_time") == end)) | (
        pl.col("deletion_time").is_null()
    )
    ran = ran.with_columns(
        _still=still.fill_null(False),
        duration=pl.col("deletion_time").fill_null(end) - pl.col("scheduled_time"),
    )
    number = int(ran["_still"].sum())
    if options["at_cut"] == "drop":
        ran = ran.filter(~pl.col("_still"))
        ledger.leave_out("pods", "still running at the end", number, "at_cut=cut")
    else:
        ledger.count("pods still running at the end", number)
    if options["at_cut"] == "run":
        endless = pl.when("_still").then(float("inf")).otherwise("duration")
        ran = ran.with_columns(duration=endless)
    ledger.count("pods that ran 0 s", int((ran["duration"] == 0).sum()))
    early = ran["scheduled_time"] < ran["creation_time"]
    ledger.count("pods scheduled before they were created", int(early.sum()))
    return ran


def _restrictions(
    pods: pl.DataFrame, cluster: Cluster, ledger: Ledger
) -> tuple[pl.Series, list[Restriction | None]]:
    """Return for each pod the number of its restriction, and the restrictions."""
    models = {server.labels.get("gpu_model") for server in cluster}
    restrictions: list[Restriction | None] = [None]
    number: dict[str | None, int] = {None: 0}
    lost: dict[str, int] = {}
    asked = pods["gpu_spec"].set(pods["num_gpu"] == 0, None)
    for spec, pod_count in asked.value_counts().sort(asked.name).rows():
        asked_models = list(dict.fromkeys(m.strip() for m in (spec or "").split("|") if m.strip()))
        if not asked_models:
            number[spec] = 0
            continue
        number[spec] = len(restrictions)
        restrictions.append({"gpu_model": asked_models})
        if not models.intersection(asked_models):
            lost[spec] = pod_count
    ledger.count("pods restricted to GPU models", int(asked.is_not_null().sum()))
    ledger.count("pods that ask for a GPU model that no node has", sum(lost.values()))
    if lost:
        shown = ", ".join(list(lost)[:5])[:200]
        ledger.remark(f"No node has a GPU of these models, so pods that ask for them wait: {shown}")
    codes = [number[spec] for spec in asked.to_list()]
    return pl.Series(codes, dtype=pl.Int64), restrictions


def _stripped(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table without spaces around texts; nothing is left of an empty one."""
    return frame.with_columns(pl.col(pl.String).str.strip_chars().replace("", None))


def _in_range(
    frame: pl.DataFrame, column: str, most: float, ledger: Ledger, place: str
) -> pl.DataFrame:
    wrong = ~pl.col(column).is_between(0, most)  # also of NaN
    return refuse(frame, wrong, column, f"must be from 0 to {most:,.0f}", ledger, place)


#: The reader.
FORMAT = Format(
    title="Alibaba GPU 2023: nodes with GPU models, pods with parts of GPUs",
    read=_read,
    signature=Signature(folders=((f"{_NODES}*",), (f"csv/{_NODES}*",)), heads=(r"\Asn,cpu_milli",)),
    options=_OPTIONS,
)
