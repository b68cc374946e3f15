"""Lines that Slurm's commands print: configuration, error messages, ids of array tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from drfh.errors import InputError
from drfh.wire.slurm.notation import array_indices

__all__ = [
    "is_about_ended_job",
    "jobs_in_message",
    "parse_config",
    "parse_errors",
    "parse_task_ids",
    "slurm_user",
    "submit_plugins",
]

_SETTING = re.compile(r"^(\S+)\s*=\s?(.*)$")
_SLURM_USER = re.compile(r"([^(]*)\((\d+)\)\s*")
_MESSAGE_JOB = re.compile(r"\bjob ?(?:id)?[ =](\d+(?:_\d+)?)\b", re.IGNORECASE)
_MESSAGE_TASKS = re.compile(r"(\d+)_\[?([\d,:-]+)\]?: ")  # 12_3: Invalid …, 12_1,4-6: Job …
_MESSAGE_ENDED = re.compile("already finished|invalid job id", re.IGNORECASE)


def parse_config(output: str) -> dict[str, str]:
    """Return the settings that ``scontrol show config`` prints.

    Examples
    --------
    >>> parse_config("SlurmUser               = slurm(64030)")
    {'SlurmUser': 'slurm(64030)'}
    """
    pairs = (_SETTING.match(line) for line in output.splitlines())
    return {pair[1]: pair[2].strip() for pair in pairs if pair is not None}


def slurm_user(config: Mapping[str, str]) -> tuple[str, int]:
    """Return name and user id of ``SlurmUser``.

    Examples
    --------
    >>> slurm_user({"SlurmUser": "slurm(64030)"})
    ('slurm', 64030)
    """
    found = _SLURM_USER.fullmatch(config.get("SlurmUser", "root(0)"))
    if found is None:
        raise InputError("SlurmUser", "must be as in slurm(64030)", config["SlurmUser"])
    return found[1], int(found[2])


def submit_plugins(config: Mapping[str, str]) -> list[str]:
    """Return the ``JobSubmitPlugins``.

    Examples
    --------
    >>> submit_plugins({"JobSubmitPlugins": "lua,partition"})
    ['lua', 'partition']
    >>> submit_plugins({"JobSubmitPlugins": "(null)"})
    []
    """
    listed = config.get("JobSubmitPlugins", "").split(",")
    return [name for name in listed if name not in ("", "(null)")]


def jobs_in_message(line: str) -> list[str]:
    """Return the jobs that an error of ``scontrol`` names.

    Examples
    --------
    >>> jobs_in_message("12_1,4-5: Job is pending execution")
    ['12_1', '12_4', '12_5']
    >>> jobs_in_message("Invalid job id specified for job 7"), jobs_in_message("no answer")
    (['7'], [])
    """
    tasks = _MESSAGE_TASKS.match(line)
    if tasks is not None:
        try:
            return [f"{tasks[1]}_{index}" for index in array_indices(tasks[2], "tasks")]
        except InputError:
            return []
    job = _MESSAGE_JOB.search(line)
    return [] if job is None else [job[1]]


def parse_errors(output: str) -> dict[str, str]:
    r"""Return the errors of ``scontrol``: job → message, with an empty key if it names none.

    Examples
    --------
    >>> parse_errors("7_1: No error\n7_2: Job is pending execution\nslurm_suspend error: 7")
    {'7_2': '7_2: Job is pending execution'}
    """
    errors: dict[str, str] = {}
    for line in output.splitlines():
        message = line.strip()
        if not message or message.startswith("slurm_suspend error"):  # follows each real one
            continue
        if message.endswith(": No error"):  # of tasks of an array of which others failed
            continue
        errors.update(dict.fromkeys(jobs_in_message(message) or [""], message))
    return errors


def parse_task_ids(output: str) -> dict[str, str]:
    r"""Return the job ids in ``squeue --noheader --array --format="%i %A"``: task → id.

    Examples
    --------
    >>> parse_task_ids("9_3 12\n9_4 9\n")
    {'9_3': '12', '9_4': '9'}
    """
    pairs = (line.split() for line in output.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def is_about_ended_job(line: str) -> bool:
    """Return whether an error of ``scontrol`` says that a job has ended.

    Examples
    --------
    >>> is_about_ended_job("Job/step already completing or completed")
    False
    >>> is_about_ended_job("slurm_update error: Job has already finished")
    True
    """
    return _MESSAGE_ENDED.search(line) is not None
