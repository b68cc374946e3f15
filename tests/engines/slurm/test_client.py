"""Slurm's commands, on a real cluster: many jobs in few calls."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from drfh.engines.cache import SchedulerCache
from drfh.engines.slurm import actions
from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.engines.slurm.config import config_of
from drfh.engines.slurm.controller import SlurmController
from drfh.engines.slurm.sandbox import Sandbox
from tests.engines.slurm.cluster import job, living

ARRAY = "--array=0-39"


class Overheard(Slurm):
    """Keeps what scontrol is told."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox.environment)
        self.lines: list[str] = []
        self.processes = 0

    def scontrol(self, lines: Iterable[str]) -> dict[str, str]:
        lines = list(lines)
        self.lines += lines
        self.processes += bool(lines)
        return super().scontrol(lines)


def controller(slurm: Slurm) -> SlurmController:
    config = config_of(slurm.configuration(), partitions=("main",))
    return SlurmController(slurm, config, SchedulerCache())


def test_tasks_of_an_array_are_placed_in_few_calls(quiet_slurm: Sandbox) -> None:
    array = quiet_slurm.submit("sleep 30", ARRAY)
    slurm = Overheard(quiet_slurm)
    done = controller(slurm).cycle()
    assert len(done.released) == 40
    assert not done.failed
    pins = [line for line in slurm.lines if line.startswith("update")]
    numbers = [line for line in pins if re.match(r"update JobId=\d+ ReqNodeList=", line)]
    assert len(numbers) == 39  # the last one has that of the array, which means all
    assert [line for line in slurm.lines if line.startswith("release")] == [
        f"release {array}_[{','.join(map(str, range(40)))}]"
    ]
    assert slurm.processes == 1 + 4 + 1  # split, pin side by side, release
    where = {one.task: one.server for one in done.placed}
    quiet_slurm.wait(lambda: all_run(quiet_slurm, 40), 30, "the jobs to start")
    assert {name: job(quiet_slurm, name)["nodes"] for name in where} == where
    quiet_slurm.run("scancel", array)


def all_run(sandbox: Sandbox, number: int) -> bool:
    return [one["job_state"] for one in sandbox.jobs()].count("RUNNING") == number


def test_names_do_where_numbers_are_not_to_be_had(quiet_slurm: Sandbox) -> None:
    class Numberless(Overheard):
        def task_job_ids(self, names: Iterable[str]) -> dict[str, str]:
            raise SlurmError("squeue: Socket timed out")

    array = quiet_slurm.submit("sleep 30", ARRAY)
    slurm = Numberless(quiet_slurm)
    done = controller(slurm).cycle()
    assert len(done.released) == 40
    assert not done.failed
    assert f"update JobId={array}_7 " in "\n".join(slurm.lines)
    quiet_slurm.wait(lambda: all_run(quiet_slurm, 40), 30, "the jobs to start")
    quiet_slurm.run("scancel", array)


def test_a_task_cancelled_on_the_way_stops_no_other(quiet_slurm: Sandbox) -> None:
    class Interrupted(Overheard):
        def scontrol_parallel(self, lines: Iterable[str]) -> dict[str, str]:
            quiet_slurm.run("scancel", f"{array}_3", f"{array}_5")
            return super().scontrol_parallel(lines)

    array = quiet_slurm.submit("sleep 30", ARRAY)
    done = controller(Interrupted(quiet_slurm)).cycle()
    assert set(done.failed) == {f"{array}_3", f"{array}_5"}  # by name, though called by number
    assert len(done.released) == 38
    quiet_slurm.wait(lambda: all_run(quiet_slurm, 38), 30, "the others to start")
    quiet_slurm.run("scancel", array)


def test_own_numbers(quiet_slurm: Sandbox) -> None:
    slurm = Slurm(quiet_slurm.environment)
    array, alone = quiet_slurm.submit("true", "--array=0-4"), quiet_slurm.submit("true")
    names = [f"{array}_{task}" for task in range(5)]
    assert slurm.task_job_ids([alone]) == {}
    assert slurm.task_job_ids(names) == {}  # all in one record
    assert slurm.scontrol(actions.hold(names[1:3])) == {}
    found = slurm.task_job_ids([*names, alone])
    assert set(found) == {names[1], names[2]}
    assert job(quiet_slurm, names[1])["job_id"] == int(found[names[1]])
    quiet_slurm.run("scancel", *(f"{array}_{task}" for task in range(4)))
    assert (
        slurm.task_job_ids(names) == {}
    )  # the last one has the number of the array: that means all
    quiet_slurm.run("scancel", array, alone)


def test_errors_of_several_side_by_side(quiet_slurm: Sandbox) -> None:
    slurm = Slurm(quiet_slurm.environment)
    array = quiet_slurm.submit("true", ARRAY)
    lines = [f"update JobId={array}_{task} AdminComment=drfh" for task in range(38)]
    failed = slurm.scontrol_parallel([*lines, "update JobId=999999 AdminComment=drfh", *lines])
    assert set(failed) == {"999999"}
    assert "Invalid job id" in failed["999999"]
    quiet_slurm.run("scancel", array)
    quiet_slurm.wait(lambda: not living(quiet_slurm), 30, "an empty queue")


def test_none_of_several_side_by_side_is_left_behind() -> None:
    ended: list[str] = []

    class Slow(Slurm):
        def scontrol(self, lines: Iterable[str]) -> dict[str, str]:
            lines = list(lines)
            if "0" in lines:
                raise SlurmError("scontrol: no answer in 60 s")
            ended.extend(lines)
            return {}

    with pytest.raises(SlurmError, match="no answer"):
        Slow({}).scontrol_parallel(str(number) for number in range(100))
    assert sorted(ended, key=int) == [str(number) for number in range(100) if number % 4]
