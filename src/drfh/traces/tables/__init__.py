"""Format ``tables``: drfh's own tables, their reader and writer.

==============  ==============================================================================
``servers``     name, count, one column a resource, ``label.X``
``jobs``        user, job, arrival, duration, tasks, one column a resource, servers, ``note.X``
``users``       name, weight, parent, servers, tasks, one column a resource (an own demand)
``events``      time, event (add, remove, resize), name, count, resources, ``label.X``
``trace.json``  where it comes from, its window, what was left out; needed by none of the others
==============  ==============================================================================

Each is a CSV or a Parquet file. Only ``servers`` and ``jobs`` must be there, and in them only the
columns user, duration and one resource. A restriction (``servers``) is a name, or JSON as in a
scenario file. Several durations in one cell are separated by spaces, one for each task.
"""

from __future__ import annotations

__all__ = ["ABOUT", "COLUMNS", "KINDS", "LABEL", "NOTE"]

#: The file that says where a directory of tables comes from.
ABOUT = "trace.json"
KINDS = ("csv", "parquet")
#: Columns that are no resources, by table; the required ones are marked.
COLUMNS: dict[str, dict[str, bool]] = {
    "servers": {"name": False, "count": False},
    "jobs": {
        "user": True,
        "job": False,
        "arrival": False,
        "duration": True,
        "tasks": False,
        "servers": False,
    },
    "users": {"name": True, "weight": False, "parent": False, "servers": False, "tasks": False},
    "events": {"time": True, "event": True, "name": True, "count": False},
}
LABEL = "label."
NOTE = "note."
