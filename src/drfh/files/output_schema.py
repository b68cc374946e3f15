"""JSON Schemas of what commands print with ``--json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from drfh.errors import UnknownNameError

__all__ = ["JSON_VERSION", "OUTPUTS", "RECORDS", "Fields", "Output", "output_schema", "versioned"]

#: Version of every JSON output. It grows when a field goes, or means something else.
JSON_VERSION = 1

Schema: TypeAlias = dict[str, Any]
#: Name → schema, what it is and, where it may be left out, OPTIONAL.
Fields: TypeAlias = Mapping[str, tuple[Any, ...]]

OPTIONAL = "optional"
#: In place of a name: all other fields, as they depend on the cluster.
OTHERS = ""

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {}


def _of(record: str) -> Schema:
    return {"$ref": f"#/$defs/{record}"}


def _maybe(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def _many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _by_name(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


_PARTS = _by_name(NUMBER)
_COUNTS = _by_name(WHOLE)
_TEXTS = _many(TEXT)
_MEANS: Fields = {"mean": (NUMBER, "mean"), "median": (NUMBER, "median"),
                  "p95": (NUMBER, "95 % quantile")}  # fmt: skip

_ALLOCATION: Fields = {
    "mechanism": (TEXT, "the mechanism"),
    "method": (TEXT, "the solver that found the answer"),
    "seconds": (NUMBER, "from records to answer"),
    "servers": (WHOLE, "how many servers there are"),
    "utilisation": (_PARTS, "used part of each resource of the pool"),
    "users": (_many(_of("user")), "who gets what"),
    "groups": (_many(_of("group")), "how full server groups are"),
    "placement": (_many(_of("placed")), "who runs where"),
    "certificate": (_of("certificate"), "the proof, of mechanisms that have one", OPTIONAL),
    "filling": (_maybe(TEXT), "with whole tasks: `best` or `paper`", OPTIONAL),
    "loss": (NUMBER, "with whole tasks: what the one hurt most loses, from 0 to 1", OPTIONAL),
    "divisible": (_of("allocation"), "with whole tasks: the divisible optimum", OPTIONAL),
    "notes": (_TEXTS, "remarks, such as tasks that fit no server", OPTIONAL),
}
_FINDING: Fields = {
    "property": (TEXT, "name of the property"),
    "verdict": (
        {"enum": ["holds", "fails", "not found", "measured", "not applicable"]},
        "`holds` and `fails` were measured, `not found`: a search without a result",
    ),
    "amount": (NUMBER, "what the one hurt most misses of what it should have, from 0 to 1"),
    "text": (TEXT, "what was found"),
    "hurt": (_TEXTS, "who is hurt, the worst first"),
    "proof": (_maybe(TEXT), "where the property is proven, if its assumptions hold here"),
    "outside": (_TEXTS, "assumptions of the proof that do not hold here"),
    "known": (_maybe(TEXT), "why it is known to fail in other cases"),
    "tries": (_maybe(WHOLE), "of a search: how many cases were tried"),
    "seconds": (NUMBER, "how long it took"),
    "counterexample": (_maybe(_of("counterexample")), "a case that shows it"),
}
_TRACE: Fields = {
    "format": (TEXT, "name of the format or generator"),
    "source": (TEXT, "the files"),
    "window": (_maybe(NUMBER), "its length in seconds; null: none is known"),
    "options": (_by_name(ANY), "options of the reading"),
    "counts": (_COUNTS, "what was counted, and what an option left out"),
    "oddities": (_many(_of("oddity")), "what is broken, by kind"),
    "remarks": (_TEXTS, "what the data cannot tell, and what was decided for it"),
    "nodes": (_by_name(_TEXTS), "of a snapshot: names of the nodes in each group", OPTIONAL),
}
_TRACE_INFO: Fields = {
    **_TRACE,
    "span": (NUMBER, "seconds until the end"),
    "servers": (WHOLE, "servers"),
    "server_shapes": (WHOLE, "different capacities"),
    "labelled_shapes": (WHOLE, "different capacities and labels"),
    "capacity": (_PARTS, "sum of each resource"),
    "server_events": (_COUNTS, "events `add`, `remove` and `resize`"),
    "users": (WHOLE, "users"),
    "users_with_tasks": (WHOLE, "users with a task"),
    "jobs": (WHOLE, "jobs"),
    "tasks": (WHOLE, "tasks"),
    "requests": (WHOLE, "different demands"),
    "tasks_at_the_start": (WHOLE, "tasks that are there at the start"),
    "endless_tasks": (WHOLE, "tasks without an end"),
    "last_arrival": (NUMBER, "in seconds"),
    "load": (_by_name(_of("load")), "demand over capacity of each resource"),
    "distributions": (_by_name(_of("distribution")), "requests, durations, sizes, arrivals"),
    "shapes": (_many(_of("shape")), "the different servers"),
    "heaviest_users": (_many(_of("heavy_user")), "users by the work they ask for"),
    "load_over_time": (
        _by_name(_many(_maybe(NUMBER))),
        "columns `time` and `end` in seconds, `demand.X`, `capacity.X` and `load.X`",
    ),
}
_SUMMARY: Fields = {
    "policy": (TEXT, "the policy"),
    "seed": (WHOLE, "start of its draws"),
    "horizon": (NUMBER, "seconds simulated"),
    "tasks": (
        _COUNTS,
        "`submitted`, `started`, `completed`, `running` and `queued` at the end, `never` (fit no "
        "server), `evictions`",
    ),
    "jobs": (_COUNTS, "`submitted` and `completed`"),
    "completion_ratio": (_maybe(NUMBER), "tasks completed of those submitted"),
    "utilisation": (_by_name(_maybe(NUMBER)), "used part of each resource, over the whole run"),
    "mean_waiting": (_maybe(NUMBER), "seconds, of the tasks that started"),
    "turnaround": (_maybe(_of("spread")), "seconds, of the jobs that are complete"),
    "stretch": (_maybe(_of("spread")), "turnaround over longest task, of the same jobs"),
    "jain": (_maybe(NUMBER), "Jain's index of the users' mean shares"),
    "fair": (_maybe(_by_name(NUMBER)), "with `--fair`: distances from fair, mean and largest"),
    "placements": (WHOLE, "tasks placed, again after an eviction"),
    "seconds": (_by_name(_maybe(NUMBER)), "wall time, and parts of it"),
}
_MEASURES: Fields = {
    "run": (TEXT, "`observed`, or the name of a policy"),
    "tasks": (WHOLE, "tasks"),
    "started": (WHOLE, "tasks that started"),
    "done": (WHOLE, "tasks that ended"),
    "mean_waiting": (_maybe(NUMBER), "seconds"),
    "mean_turnaround": (_maybe(NUMBER), "seconds"),
}
_EXPLANATION: Fields = {
    "job": (TEXT, "the job"),
    "user": (_maybe(TEXT), "whose it is"),
    "state": (TEXT, "where it stands"),
    "text": (TEXT, "why, in a sentence"),
    "nodes": (_TEXTS, "where it runs"),
    "slurm": (TEXT, "the reason that Slurm gives"),
    "why": (_maybe(_of("why")), "what it lacks, and who is ahead"),
    "tasks": (_COUNTS, "of an array: tasks by state"),
    "first": (_maybe(_of("explanation")), "of an array: its first waiting task"),
}
_SCARCITY: Fields = {
    "resource": (TEXT, "the resource"),
    "servers": (TEXT, "where it is used up"),
}
_QUANTILES = ("min", "p10", "p25", "median", "p75", "p90", "p99", "max")

#: Records inside the outputs.
RECORDS: dict[str, Fields] = {
    "allocation": _ALLOCATION,
    "user": {
        "user": (TEXT, "name"),
        "weight": (NUMBER, "weight"),
        "limit": (_maybe(NUMBER), "tasks that it has; null: no end"),
        "tasks": (NUMBER, "tasks that it gets"),
        "share": (NUMBER, "global dominant share"),
        "level": (NUMBER, "what DRFH equalises: share over weight"),
        "dominant": (TEXT, "the resource of that share"),
        "promised": (NUMBER, "tasks that a pooled mechanism promises", OPTIONAL),
        "divisible": (NUMBER, "with whole tasks: tasks in the divisible optimum", OPTIONAL),
        "why": (TEXT, "what limits it; left out where that would take long", OPTIONAL),
        "kinds": (_many(_of("kind")), "its kinds of tasks, if it has several", OPTIONAL),
    },
    "kind": {
        "kind": (_maybe(TEXT), "name"),
        "ratio": (NUMBER, "how many of it rise together with the others"),
        "limit": (_maybe(NUMBER), "tasks that there are; null: no end"),
        "tasks": (NUMBER, "tasks that run"),
        "why": (TEXT, "what limits it", OPTIONAL),
    },
    "group": {
        "group": (TEXT, "name"),
        "servers": (WHOLE, "how many there are"),
        OTHERS: (_maybe(NUMBER), "used part of each resource; null: it has none"),
    },
    "placed": {
        "user": (TEXT, "name"),
        "kind": (_maybe(TEXT), "kind of tasks, where a user has several", OPTIONAL),
        "group": (TEXT, "server group", OPTIONAL),
        "server": (TEXT, "with `--expand`: a single server", OPTIONAL),
        "tasks": (NUMBER, "tasks"),
    },
    "certificate": {
        "proves": (TEXT, "what it proves"),
        "gap": (NUMBER, "relative gap between answer and bound"),
        "tolerance": (NUMBER, "the largest gap that counts as closed"),
        "closed": (FLAG, "whether the gap is closed"),
        "prices": (_by_name(_PARTS), "servers → resource → price, of what is not free", OPTIONAL),
        "rounds": (_many(_of("round")), "rounds of a leximin answer", OPTIONAL),
    },
    "round": {
        "level": (_maybe(NUMBER), "at which it ends; null: no end"),
        "bound": (_maybe(NUMBER), "the most that the prices allow"),
        "gap": (NUMBER, "between them"),
        "users": (_TEXTS, "who stops there"),
        "prices": (_by_name(_PARTS), "servers → resource → price, of what is not free"),
    },
    "answer": {
        "fair": (FLAG, "whether nobody has less than its fair share now"),
        "within_a_task": (FLAG, "whether each team that is short lacks less than one task"),
        "missing": (NUMBER, "missing share: part of all fair shares that teams do not have"),
        "missing_later": (NUMBER, "the same, had the waiting tasks started that fit now"),
        "worst_off": (_maybe(TEXT), "who has the least of its fair share; null: nobody is short"),
        "worst_missing": (NUMBER, "the part of its fair share that it lacks"),
        "teams": (_many(_of("team")), "the shortest first"),
        "free": (_PARTS, "part of each resource that nobody holds"),
        "overfull": (FLAG, "whether more is held on a server than it has"),
        "fits": (NUMBER, "waiting tasks that fit on what is free, together and nothing moved"),
        "waiting": (_maybe(NUMBER), "tasks that wait; null: no end"),
        "truthful": (_of("truthfulness"), "misreporting in the fair allocation"),
        "bottlenecks": (_many(_of("bottleneck")), "what limits most teams there, first"),
        "closed": (FLAG, "whether the fair allocation is proven exact"),
        "gap": (NUMBER, "its relative gap"),
        "sentences": (_many(_of("sentence")), "the answer in words"),
    },
    "team": {
        "team": (TEXT, "name"),
        "weight": (NUMBER, "weight"),
        "now": (NUMBER, "dominant share now"),
        "fair": (NUMBER, "dominant share in the fair allocation"),
        "difference": (NUMBER, "now less fair"),
        "tasks": (NUMBER, "tasks now"),
        "fair_tasks": (NUMBER, "tasks in the fair allocation"),
        "waiting": (_maybe(NUMBER), "tasks that wait; null: no end"),
        "fits": (NUMBER, "of these, tasks that would start now, the lowest team first"),
        "resource": (TEXT, "the resource of which it has the largest part"),
        "amount": (NUMBER, "what it has of it now"),
        "fair_amount": (NUMBER, "what it has of it in the fair allocation"),
        "beyond": (NUMBER, "tasks now beyond those of the scenario"),
        "limit": (TEXT, "what limits it in the fair allocation: `used-up`, `all-tasks`, …"),
        "scarce": (_many(_of("scarcity")), "resources that are used up there"),
        "limited_by": (TEXT, "the same in words"),
        "held_by": (_TEXTS, "teams above their fair share that hold what it lacks"),
        "kinds": (_many(_of("kind_share")), "its kinds of tasks"),
    },
    "kind_share": {
        "kind": (TEXT, "name; empty if there is one kind"),
        "tasks": (NUMBER, "tasks now"),
        "fair_tasks": (NUMBER, "tasks in the fair allocation"),
        "waiting": (_maybe(NUMBER), "tasks that wait; null: no end"),
        "fits": (NUMBER, "of these, tasks that would start now"),
        "limited_by": (TEXT, "what limits it in the fair allocation, in words"),
    },
    "scarcity": _SCARCITY,
    "bottleneck": {**_SCARCITY, "teams": (_TEXTS, "whom it limits")},
    "truthfulness": {
        "proven": (FLAG, "whether nobody gains by misreporting, for divisible tasks"),
        "source": (TEXT, "where that is proven"),
        "outside": (_TEXTS, "assumptions of the proof that do not hold here"),
    },
    "sentence": {
        "about": (TEXT, "`fair`, `tasks`, `short`, `waste`, `truthful`, `change` or `exact`"),
        "text": (TEXT, "the sentence"),
    },
    "finding": _FINDING,
    "counterexample": {
        "story": (TEXT, "what to see"),
        "before": (_PARTS, "tasks in the audited case"),
        "after": (_PARTS, "tasks in this one"),
        "scenario": (TEXT, "with `--show`: the case as a scenario file", OPTIONAL),
    },
    "trace": _TRACE,
    "oddity": {
        "kind": (TEXT, "field and rule"),
        "count": (WHOLE, "how often"),
        "first": (TEXT, "the first, with its place"),
        "what": (TEXT, "what is counted"),
    },
    "promise": {
        "mechanism": (TEXT, "who promises"),
        "user": (TEXT, "to whom"),
        "promised": (_maybe(NUMBER), "tasks promised"),
        "placed": (_maybe(NUMBER), "tasks that can be placed"),
        "gap": (_maybe(NUMBER), "part of the promise that cannot"),
    },
    "compared": {
        "mechanism": (TEXT, "name"),
        "seconds": (NUMBER, "to the answer"),
        "why_not": (TEXT, "why it has no answer; then nothing follows", OPTIONAL),
        "tasks": (_by_name(_maybe(NUMBER)), "by user", OPTIONAL),
        "shares": (_by_name(_maybe(NUMBER)), "global dominant shares by user", OPTIONAL),
        "promised": (_maybe(_by_name(_maybe(NUMBER))), "tasks promised by user", OPTIONAL),
        "promise_gap": (_maybe(NUMBER), "largest part of a promise that fails", OPTIONAL),
        "utilisation": (_by_name(_maybe(NUMBER)), "used part of each resource", OPTIONAL),
        "total_tasks": (_maybe(NUMBER), "tasks of all users", OPTIONAL),
        "worst_off": (TEXT, "who is furthest below its DRFH level, or nobody", OPTIONAL),
        "distance": (_maybe(NUMBER), "from fair, from 0 to 1", OPTIONAL),
        "certificate_gap": (_maybe(NUMBER), "of its proof", OPTIONAL),
        "certificate_closed": (_maybe(FLAG), "whether that is closed", OPTIONAL),
        "properties": (_by_name(_of("finding")), "by name", OPTIONAL),
    },
    "run": {
        "run": (TEXT, "name of the run"),
        **_SUMMARY,
        "devices": (_by_name(_maybe(NUMBER)), "tasks with parts of GPUs on devices", OPTIONAL),
        "directory": (_maybe(TEXT), "its run directory, if there is one"),
    },
    "summary": _SUMMARY,
    "spread": _MEANS,
    "load": {"mean": (_maybe(NUMBER), "over time"), "peak": (_maybe(NUMBER), "largest")},
    "distribution": {
        "count": (WHOLE, "how many are known"),
        "mean": (_maybe(NUMBER), "mean"),
        **{name: (_maybe(NUMBER), "quantile") for name in _QUANTILES},
    },
    "shape": {
        "servers": (WHOLE, "how many"),
        "share": (NUMBER, "part of all servers"),
        "labels": (_many(ANY), "their labels"),
        "first": (TEXT, "name of the first"),
        OTHERS: (NUMBER, "`capacity.X`: amount of each resource"),
    },
    "heavy_user": {
        "user": (TEXT, "name"),
        "jobs": (WHOLE, "jobs"),
        "tasks": (WHOLE, "tasks"),
        "work": (_maybe(NUMBER), "part of the capacity over time, of its dominant resource"),
        OTHERS: (_maybe(NUMBER), "`work.X`: the same of each resource"),
    },
    "trace_name": {"format": (TEXT, "format"), "source": (TEXT, "files")},
    "measure": {
        "measure": (TEXT, "what is compared"),
        "distance": (NUMBER, "Kolmogorov and Smirnov's, from 0 to 1"),
        "count.a": (WHOLE, "how many in A"),
        "count.b": (WHOLE, "how many in B"),
        OTHERS: (_maybe(NUMBER), "mean and quantiles: `median.a`, `median.b`, …"),
    },
    "simulated": {
        "policy": (TEXT, "the policy"),
        "a": (_by_name(_maybe(NUMBER)), "used parts in A"),
        "b": (_by_name(_maybe(NUMBER)), "used parts in B"),
        "points": (_PARTS, "difference in percentage points"),
    },
    "format": {
        "title": (TEXT, "what it is"),
        "snapshot": (FLAG, "whether it is of one moment", OPTIONAL),
        "options": (_many(_of("option")), "its options"),
    },
    "option": {
        "name": (TEXT, "name"),
        "kind": (TEXT, "what its value is"),
        "default": (ANY, "value if it is not given"),
        "choices": (_TEXTS, "all values, if they are few", OPTIONAL),
        "help": (TEXT, "what it does"),
    },
    "claim": {
        "id": (TEXT, "short name"),
        "figure": (TEXT, "figure or table of the paper"),
        "text": (TEXT, "what is claimed"),
        "paper": (TEXT, "the paper's value"),
        "ours": (_maybe(NUMBER), "our value"),
        "verdict": (TEXT, "whether it holds"),
        OTHERS: (ANY, "spread, condition, note and unit"),
    },
    "status_user": {
        "name": (TEXT, "name"),
        "weight": (NUMBER, "weight"),
        "share": (NUMBER, "global dominant share now"),
        "resource": (_maybe(TEXT), "of which resource"),
        "level": (NUMBER, "share over weight"),
        "ideal": (_maybe(NUMBER), "share in the fair allocation; null: not active"),
        "uneven": (FLAG, "whether its jobs differ in more than size"),
        "running": (WHOLE, "jobs that run"),
        "starting": (WHOLE, "jobs that are released and will run"),
        "waiting": (WHOLE, "jobs that wait"),
        "never": (WHOLE, "jobs that no node could hold"),
        "aside": (_COUNTS, "jobs that must not be placed now, by reason"),
        "fulfilled": (_maybe(NUMBER), "part of its ideal share that it has"),
    },
    "node": {
        "name": (TEXT, "name"),
        "state": (TEXT, "whether it is up"),
        "size": (_PARTS, "what it has"),
        "used": (_PARTS, "what its jobs hold"),
        "jobs": (WHOLE, "how many run there"),
        "fullness": (NUMBER, "of its fullest resource, from 0 to 1"),
    },
    "total": {"capacity": (NUMBER, "of all nodes"), "used": (NUMBER, "of that")},
    "controller": {
        "running": (_maybe(FLAG), "whether one runs; null: not known"),
        "pid": (ANY, "its process"),
        "host": (ANY, "its machine"),
        "started": (ANY, "when"),
    },
    "explanation": _EXPLANATION,
    "why": {
        "task": (TEXT, "the task"),
        "user": (_maybe(TEXT), "whose it is"),
        "state": (TEXT, "where it stands"),
        "text": (TEXT, "why, in a sentence"),
        "missing": (_many(_of("shortage")), "what servers lack"),
        "ahead": (_many(_of("user_ahead")), "who goes first"),
        "earlier": (WHOLE, "tasks of the same user that go first"),
    },
    "shortage": {
        "group": (_maybe(TEXT), "group or server; null: several groups"),
        "servers": (WHOLE, "how many"),
        "capacity": (_PARTS, "of one"),
        "lacks": (_many(_of("lack")), "what is short"),
        OTHERS: (ANY, "`nearest` server, and whether they are `too_small`"),
    },
    "lack": {
        "resource": (TEXT, "the resource"),
        "needed": (NUMBER, "what the task needs"),
        "free": (NUMBER, "the most that is free"),
    },
    "user_ahead": {
        "user": (TEXT, "name"),
        "level": (NUMBER, "its level"),
        "own_level": (NUMBER, "the level of the task's user"),
        "reason": (TEXT, "why it goes first"),
    },
    "journal": {
        "path": (TEXT, "the file"),
        "engine": (TEXT, "whose it is"),
        "policy": (TEXT, "policy of the last controller"),
        "seed": (WHOLE, "start of its draws"),
        "controls": (FLAG, "whether it placed the jobs"),
        "looks": (WHOLE, "snapshots"),
        "restarts": (WHOLE, "how often it was started again"),
        "seconds": (NUMBER, "how long it is"),
    },
    "replay": {
        "same": (_maybe(FLAG), "whether all decisions are reproduced; null: there are none"),
        "controls": (FLAG, "whether the recorder placed the jobs"),
        "policies": (_TEXTS, "policies in the journal"),
        "looks": (WHOLE, "snapshots"),
        "asked": (WHOLE, "snapshots with a decision"),
        "recorded": (WHOLE, "placements in the journal"),
        "replayed": (WHOLE, "placements now"),
        "matching": (WHOLE, "placements that are the same"),
        "starts": (WHOLE, "times the scheduler was started"),
        "difference": (_maybe(_of("difference")), "the first difference"),
    },
    "difference": {
        "t": (NUMBER, "seconds since the start"),
        "line": (WHOLE, "line of the journal"),
        "recorded": (ANY, "placement in the journal"),
        "replayed": (ANY, "placement now"),
    },
    "what_if_run": {
        **_MEASURES,
        "makespan": (_maybe(NUMBER), "seconds until all ended; null: not all did"),
        "utilisation": (_by_name(_maybe(NUMBER)), "used part of each resource"),
        "as_recorded": (WHOLE, "tasks that started when and where they really did"),
        "evictions": (_maybe(WHOLE), "tasks that were put back"),
        "directory": (_maybe(TEXT), "its run directory, if there is one"),
    },
    "what_if_user": {
        "user": (TEXT, "name"),
        "weight": (NUMBER, "weight"),
        **_MEASURES,
        "mean_share": (_maybe(NUMBER), "mean dominant share"),
    },
    "demo_user": {
        "user": (TEXT, "name"),
        "cpus": (NUMBER, "of one job"),
        "memory_mib": (NUMBER, "of one job"),
        "completed": (WHOLE, "jobs that ran"),
        "mean_share": (_maybe(NUMBER), "mean dominant share"),
        "mean_ideal": (_maybe(NUMBER), "mean fair share"),
    },
    "demo_look": {
        "seconds": (NUMBER, "since the start"),
        "distance_from_fair": (NUMBER, "from 0 to 1"),
        "users": (_by_name(_by_name(_maybe(NUMBER))), "by name: share, ideal, numbers of jobs"),
        "news": (_TEXTS, "what happened"),
    },
}


@dataclass(frozen=True)
class Output:
    """What a command prints as JSON.

    Attributes
    ----------
    command : str
        The command.
    about : str
        What it is.
    fields : Fields
        Without the version, which comes first in all.
    instead : sequence of Fields
        What lines may have instead, of commands that print several.
    """

    command: str
    about: str
    fields: Fields
    instead: Sequence[Fields] = field(default=())


_CONVERTED: Fields = {
    "directory": (TEXT, "where the tables are"),
    "files": (_COUNTS, "bytes by file name"),
    **_TRACE_INFO,
}
_AUDIT: Fields = {
    "subject": (TEXT, "the mechanism, or `observed allocation`"),
    "title": (TEXT, "of the scenario"),
    "answer": (_of("answer"), "of what was observed: who has what now, and what is fair", OPTIONAL),
    "answer_before": (_of("answer"), "with edits: the same of the cluster as it was", OPTIONAL),
    "edits": (_TEXTS, "with edits: as they were given", OPTIONAL),
    "tasks": (_PARTS, "tasks by user (`user/kind`, where it has several)"),
    "seconds": (NUMBER, "how long it took"),
    "warnings": (_TEXTS, "what makes the report less than it seems"),
    "findings": (_many(_of("finding")), "one a property, the worst first"),
    "trace": (_of("trace"), "with `--trace`: how it was read", OPTIONAL),
}
_LOOK: Fields = {
    "time": (NUMBER, "seconds since 1970"),
    "policy": (TEXT, "the policy"),
    "users": (_many(_of("status_user")), "who has what"),
    "totals": (_by_name(_of("total")), "by resource"),
    "nodes": (_many(_of("node")), "the nodes"),
    "worst": (_maybe(TEXT), "who is furthest below its ideal share"),
    "outside": (_COUNTS, "jobs that drfh does not manage, by reason"),
    "broken": (_TEXTS, "what could not be read"),
    "notes": (_TEXTS, "remarks"),
    "distance_from_fair": (NUMBER, "of the worst-off user, from 0 to 1"),
    "cluster": (TEXT, "name of the cluster"),
    "controller": (_of("controller"), "the controller of this cluster"),
}

#: Every JSON output by the name of its schema.
OUTPUTS: dict[str, Output] = {
    "allocate": Output("drfh allocate", "an allocation; `--save FILE.json` writes the same", {
        **_ALLOCATION,
        "before": (_of("allocation"), "with what-if: the scenario as it was", OPTIONAL),
        "warnings": (_TEXTS, "what looks odd in the scenario", OPTIONAL),
        "trace": (_of("trace"), "with `--trace`: how it was read", OPTIONAL),
    }),
    "compare": Output("drfh compare", "mechanisms side by side", {
        "title": (TEXT, "of the scenario"),
        "properties": (_TEXTS, "properties that were marked"),
        "same_as_drfh": (_TEXTS, "mechanisms that give everybody the same tasks as DRFH"),
        "promises": (_many(_of("promise")), "what pooled mechanisms promise"),
        "mechanisms": (_many(_of("compared")), "a row each"),
        "trace": (_of("trace"), "with `--trace`: how it was read", OPTIONAL),
    }),
    "compare-list": Output("drfh compare --list", "the mechanisms", {
        "mechanisms": (_by_name(TEXT), "name → what it does"),
    }),
    "audit": Output("drfh audit", "a report card", _AUDIT),
    "audit-show": Output("drfh audit --show PROPERTY", "one finding", _FINDING),
    "audit-list": Output("drfh audit --list", "the properties", {
        "properties": (_by_name(TEXT), "name → what it asks"),
    }),
    "simulate": Output("drfh simulate", "summaries of runs", {
        "title": (TEXT, "of the scenario or trace"),
        "trace": (_of("trace"), "with `--trace`: how it was read", OPTIONAL),
        "runs": (_many(_of("run")), "a run for each policy and seed"),
        "figures": (_TEXTS, "with `--figures`: the files", OPTIONAL),
    }),
    "simulate-list": Output("drfh simulate --list", "the policies", {
        "policies": (_TEXTS, "names"),
        "parts": (_by_name(_TEXTS), "part → names"),
    }),
    "report": Output("drfh report", "what was read and written", {
        "page": (TEXT, "the page"),
        "runs": (_TEXTS, "names of the runs"),
        "figures": (_TEXTS, "with `--figures`: the files", OPTIONAL),
    }),
    "reproduce": Output("drfh reproduce", "the paper's evaluation", {
        "setup": (_by_name(ANY), "every choice that was made"),
        "numbers": (_by_name(ANY), "what was measured"),
        "claims": (_many(_of("claim")), "the paper's claims with verdicts"),
        "directory": (TEXT, "where everything is"),
        "page": (TEXT, "the page"),
    }),
    "scenario-check": Output("drfh scenario check", "what is in a scenario file", {
        "file": (TEXT, "the file"),
        "title": (TEXT, "its title"),
        "servers": (WHOLE, "servers"),
        "groups": (WHOLE, "server groups"),
        "resources": (_PARTS, "sum of each"),
        "users": (_TEXTS, "names"),
        "mechanism": (TEXT, "the mechanism"),
        "jobs": (WHOLE, "jobs", OPTIONAL),
        "tasks": (WHOLE, "tasks of the jobs", OPTIONAL),
        "events": (WHOLE, "server events", OPTIONAL),
        "warnings": (_TEXTS, "what looks odd"),
    }),
    "scenario-list": Output("drfh scenario list", "the shipped scenarios", {
        "scenarios": (_by_name(TEXT), "name → title"),
    }),
    "trace-info": Output("drfh trace info", "what is in a trace", _TRACE_INFO),
    "trace-convert": Output("drfh trace convert", "a trace and the tables written", _CONVERTED),
    "trace-generate": Output("drfh trace generate", "a trace and the tables written", _CONVERTED),
    "trace-compare": Output("drfh trace compare", "how far apart two traces are", {
        "a": (_of("trace_name"), "the first"),
        "b": (_of("trace_name"), "the second"),
        "measures": (_many(_of("measure")), "distances"),
        "endless_tasks": (_many(NUMBER), "part of the tasks without an end, in A and B"),
        "tasks_at_the_start": (_many(NUMBER), "part of the tasks at the start, in A and B"),
        "remarks": (_TEXTS, "what to mind"),
        "simulated": (_maybe(_of("simulated")), "with `--policy`: both simulated"),
        "notes": (_TEXTS, "options that one of them does not have"),
    }),
    "trace-formats": Output("drfh trace formats", "formats and generators", {
        "formats": (_by_name(_of("format")), "by name"),
        "generators": (_by_name(_of("format")), "by name"),
    }),
    "explore": Output("drfh explore", "where the page is served, one line", {
        "url": (TEXT, "address of the page"),
        "host": (TEXT, "address of the server"),
        "port": (WHOLE, "its port"),
        "token": (TEXT, "who has it may see the page", OPTIONAL),
    }),
    "tour": Output("drfh tour", "the clusters of the tour", {
        "allocations": (_by_name(_of("allocation")), "by scenario"),
        "simulations": (_by_name(_of("summary")), "by scenario"),
    }),
    "slurm-status": Output(
        "drfh slurm status", "a cluster now; with `--watch`, a line each time", _LOOK,
        [{"time": (NUMBER, "seconds since 1970"), "error": (TEXT, "why nothing can be read")}],
    ),
    "slurm-why": Output("drfh slurm why JOB", "why a job waits", _EXPLANATION),
    "slurm-audit": Output("drfh slurm audit", "a report card of what runs now", {
        **_AUDIT,
        **{name: (*_AUDIT[name], OPTIONAL) for name in ("title", "seconds", "warnings")},
    }),
    "slurm-run": Output(
        "drfh slurm run", "a line for each busy cycle",
        {
            "time": (NUMBER, "seconds since 1970"),
            "placed": (_many(_TEXTS), "task, user and node of each placement"),
            "released": (_TEXTS, "jobs that were released"),
            "taken_back": (_by_name(TEXT), "jobs that were held again → why"),
            "failed": (_by_name(TEXT), "jobs that an action failed for → why"),
            "decision_seconds": (NUMBER, "how long the decision took"),
            "seconds": (NUMBER, "how long the cycle took"),
        },
        [{"time": (NUMBER, "seconds since 1970"), "says": (TEXT, "what it starts or stops"),
          OTHERS: (ANY, "`started`, `metrics`, `live_view`")}],
    ),
    "slurm-record": Output("drfh slurm record", "the journal that was written", {
        "log": (TEXT, "the file"),
        "looks": (WHOLE, "snapshots"),
        "jobs": (WHOLE, "jobs"),
    }),
    "slurm-replay": Output("drfh slurm replay", "a journal again, and other policies", {
        "journal": (_of("journal"), "what was read"),
        "replay": (_of("replay"), "the same scheduler again"),
        "runs": (_many(_of("what_if_run")), "what was observed, and each policy"),
        "users": (_many(_of("what_if_user")), "a row for each user and run"),
        "remarks": (_TEXTS, "what the journal cannot tell"),
    }),
    "slurm-release-all": Output("drfh slurm release-all", "jobs that were given back", {
        "released": (_TEXTS, "jobs"),
        "failed": (_by_name(TEXT), "jobs that could not be → why"),
        "still_holds": (FLAG, "whether job_submit.lua still holds new jobs"),
    }),
    "slurm-demo": Output("drfh slurm demo", "the demonstration", {
        "nodes": (WHOLE, "nodes"),
        "seconds": (NUMBER, "how long it ran"),
        "policy": (TEXT, "the policy"),
        "stopped": (FLAG, "whether it was stopped early"),
        "users": (_many(_of("demo_user")), "its users"),
        "looks": (_many(_of("demo_look")), "samples"),
    }),
}  # fmt: skip


def versioned(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an output with its version first.

    Examples
    --------
    >>> versioned({"page": "a.html"})
    {'version': 1, 'page': 'a.html'}
    """
    return {"version": JSON_VERSION, **data}


def output_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an output.

    Fields may be added without a new version, so a schema allows others.

    Parameters
    ----------
    name
        A name of :data:`OUTPUTS`.

    Examples
    --------
    >>> schema = output_schema("report")
    >>> schema["title"], schema["required"]
    ('drfh report --json', ['version', 'page', 'runs'])
    """
    if name not in OUTPUTS:
        raise UnknownNameError("schema", str(name), OUTPUTS)
    output = OUTPUTS[name]
    version = {"version": ({"const": JSON_VERSION}, "version of this output")}
    records = [_record({**version, **fields}) for fields in (output.fields, *output.instead)]
    body = records[0] if len(records) == 1 else {"anyOf": records}
    used: dict[str, Schema] = {}
    _collect(body, used)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{output.command} --json",
        "description": output.about,
        **body,
        **({"$defs": dict(sorted(used.items()))} if used else {}),
    }


def _record(fields: Fields) -> Schema:
    named = {name: entry for name, entry in fields.items() if name != OTHERS}
    schema: Schema = {
        "type": "object",
        "properties": {name: {**e[0], "description": e[1]} for name, e in named.items()},
        "required": [name for name, entry in named.items() if OPTIONAL not in entry[2:]],
    }
    if OTHERS in fields:
        schema["additionalProperties"] = {**fields[OTHERS][0], "description": fields[OTHERS][1]}
    return schema


def _collect(schema: Any, used: dict[str, Schema]) -> None:
    """Add the records that a schema refers to, and those that they refer to."""
    if isinstance(schema, Mapping):
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name and name not in used:
            used[name] = _record(RECORDS[name])
            _collect(used[name], used)
        for value in schema.values():
            _collect(value, used)
    elif isinstance(schema, list):
        for value in schema:
            _collect(value, used)
