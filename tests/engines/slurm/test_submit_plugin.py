"""The submit script in a real slurmctld: what it holds, refuses, turns into something, leaves."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.config import config_of
from drfh.engines.slurm.controller import release_all
from drfh.engines.slurm.sandbox import Sandbox, SandboxNode
from drfh.engines.slurm.state import DEFERRED_UNTIL, HELD_UNTIL, Annotation
from drfh.engines.slurm.submit_plugin import installation, plugin_source, trusted_uids
from drfh.errors import DrfhError, InputError
from tests.engines.slurm.cluster import job, living, make_quiet, slurm_cluster

DENIED = "Access/permission denied"
FEW = [SandboxNode("n0", 4, 4096), SandboxNode("n1", 4, 4096)]
OWNER = "games"
MARK, HELD, PARKED = str(Annotation()), str(Annotation(held=True)), str(Annotation(deferred=True))


@pytest.fixture(scope="module")
def shared(slurm: Sandbox) -> Iterator[Sandbox]:
    """Return the cluster for tests that do not mind the jobs of others; they end here."""
    make_quiet(slurm)  # other tests drain nodes
    yield slurm
    if living(slurm):
        slurm.run("scancel", *living(slurm), check=False)


def scontrol(cluster: Sandbox, *arguments: str, user: str | None = OWNER) -> str:
    """Return what scontrol says, also when it refuses; nothing if it did as told."""
    for _ in range(100):
        said = cluster.run("scontrol", *arguments, check=False, user=user).strip()
        if "try again in a bit" not in said:
            return said
        time.sleep(0.1)  # Slurm is writing down something about the job
    return said


def change(cluster: Sandbox, number: str, what: str, user: str | None = OWNER) -> str:
    return scontrol(cluster, "update", f"JobId={number}", what, user=user)


def refused(cluster: Sandbox, *options: str) -> str:
    """Return what sbatch says when it must not work; no job may come of it."""
    before = living(cluster)
    with pytest.raises(DrfhError) as error:
        cluster.submit("true", *options, user=OWNER)
    assert set(living(cluster)) <= set(before)
    return str(error.value)


def place(cluster: Sandbox, number: str, node: str) -> None:
    """Do what the controller does to start a job."""
    assert change(cluster, number, f"ReqNodeList={node}", None) == ""
    assert scontrol(cluster, "release", number, user=None) == ""


def runs_on(cluster: Sandbox, number: str, node: str) -> None:
    place(cluster, number, node)
    runs(cluster, number)
    assert job(cluster, number)["nodes"] == node


def runs(cluster: Sandbox, number: str) -> None:
    cluster.wait(lambda: job(cluster, number)["job_state"] == "RUNNING", 30, f"job {number}")


def begins(found: dict[str, Any]) -> int:
    """Return when a job that waits may begin; 0: at once."""
    return int(found["start_time"])


def stays_held(cluster: Sandbox, *numbers: str) -> None:
    """Check that jobs wait, when Slurm has looked at its queue since now."""
    probe = cluster.submit("true", "--partition=other", user="daemon")
    cluster.wait(lambda: probe not in living(cluster), 30, "another job, which must run")
    for number in numbers:
        found = job(cluster, number)
        assert (found["job_state"], found["priority"]) == ("PENDING", 0), number


# Submission


@pytest.mark.parametrize("user", [OWNER, None], ids=["user", "root"])
def test_every_job_of_a_managed_partition_is_held(shared: Sandbox, user: str | None) -> None:
    requests = """
    --partition=main
    --priority=100
    --nice=5
    --begin=now+100
    --qos=high
    --ntasks=4
    --nodes=1-3
    --ntasks=2 --ntasks-per-node=2
    --nodelist=n1
    --exclusive
    --array=1-3
    --dependency=singleton
    """.splitlines()  # the first and the last ask for nothing
    numbers = {shared.submit("true", *r.split(), user=user): r for r in requests}
    stays_held(shared, *numbers)
    found = {str(one["job_id"]): one for one in shared.jobs()}
    for number, request in numbers.items():
        one = found[number]
        assert (one["admin_comment"], one["max_nodes"]) == (MARK, 1), request
        assert begins(one) < HELD_UNTIL, request


def test_an_owner_who_wants_a_hold_has_one_of_his_own(shared: Sandbox) -> None:
    number = shared.submit("true", "--hold", user=OWNER)
    found = job(shared, number)
    assert (found["priority"], found["admin_comment"]) == (0, HELD)
    assert begins(job(shared, number)) == HELD_UNTIL
    assert scontrol(shared, "release", number) == ""
    assert begins(job(shared, number)) <= time.time()
    stays_held(shared, number)  # his hold is over, drfh's is not


def test_several_nodes_are_refused_with_a_way_out(shared: Sandbox) -> None:
    requests = ["--nodes=2", "--nodes=2-4", "--nodelist=n[1-2]", "--ntasks=4 --ntasks-per-node=1"]
    for request in requests:
        said = refused(shared, *request.split())
        assert "drfh places a job on one node" in said, request
        assert "a partition that drfh does not manage: other." in said, request
        assert "Node count specification invalid" in said, request


def test_partitions_of_both_kinds_are_refused(shared: Sandbox) -> None:
    for request in ("--partition=main,other", "--partition=other,main"):
        assert "manages some of the partitions" in refused(shared, request)


def test_heterogeneous_jobs_are_refused(shared: Sandbox) -> None:
    assert "submit them as jobs, or use a partition" in refused(shared, "--ntasks=1", ":")
    # One part that drfh would place is enough.
    assert "a heterogeneous job" in refused(shared, "--partition=other", ":", "--partition=main")


def test_immediate_is_refused(shared: Sandbox) -> None:
    for program in ("salloc", "srun"):
        said = shared.run(program, "--immediate", "true", check=False, user=OWNER)
        assert "drfh decides when a job starts: ask without --immediate" in said


@pytest.mark.slow
@pytest.mark.parametrize("program", ["salloc", "srun"])
def test_interactive_jobs_wait_and_then_run(shared: Sandbox, program: str) -> None:
    before = set(living(shared))
    arguments = [program, "--mem=100", f"--job-name={program}", "echo", "hello"]
    process = subprocess.Popen(
        arguments, env=shared.environment, user=OWNER, cwd="/", text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        shared.wait(lambda: bool(set(living(shared)) - before), 30, "the job")
        (number,) = set(living(shared)) - before
        stays_held(shared, number)
        assert process.poll() is None
        place(shared, number, "n5")
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert "hello" in said.split()


# Jobs that are not drfh's


@pytest.mark.slow
def test_other_partitions_are_left_alone(shared: Sandbox) -> None:
    number = shared.submit("sleep 60", "--partition=other", "--nodes=2", user=OWNER)
    runs(shared, number)
    found = job(shared, number)
    assert (found["admin_comment"], found["node_count"]) == ("", 2)
    waiting = shared.submit("sleep 60", "--partition=other", "--hold", "--nodes=1-2", user=OWNER)
    found = job(shared, waiting)
    assert (found["admin_comment"], found["max_nodes"], begins(job(shared, waiting))) == ("", 2, 0)
    for what in ("ReqNodeList=n4", "NumNodes=2", "NumNodes=1"):
        assert change(shared, waiting, what) == ""
    assert scontrol(shared, "release", waiting) == ""
    runs(shared, waiting)
    # In Slurm's own partitions this ends an owner's hold: it may have begun when we look again.
    nice = shared.submit("sleep 60", "--partition=other", "--hold", user=OWNER)
    assert change(shared, nice, "Nice=3") == ""
    shared.run("scancel", number, waiting, nice)


def test_nobody_comes_or_leaves_by_a_change_of_partition(shared: Sandbox) -> None:
    ours = shared.submit("true", user=OWNER)
    theirs = shared.submit("true", "--partition=other", "--hold", user=OWNER)
    for what in ("Partition=other", "Partition=main,other"):
        assert DENIED in change(shared, ours, what)
    for what in ("Partition=main", "Partition=other,main"):
        assert DENIED in change(shared, theirs, what)
    assert change(shared, ours, "Partition=main") == ""
    assert change(shared, theirs, "Partition=other") == ""
    stays_held(shared, ours)
    assert change(shared, theirs, "Partition=main", None) == ""  # root may


@pytest.mark.slow
def test_reservations_are_left_alone_and_no_way_around(quiet_slurm: Sandbox) -> None:
    cluster = quiet_slurm
    arguments = [
        "ReservationName=lab",
        "StartTime=now",
        "Duration=60",
        f"Users={OWNER}",
        "Nodes=n2",
    ]
    cluster.run("scontrol", "create", "reservation", *arguments)
    inside = cluster.submit("sleep 60", "--reservation=lab", user=OWNER)
    runs(cluster, inside)
    assert (job(cluster, inside)["nodes"], job(cluster, inside)["admin_comment"]) == ("n2", "")
    # Out of the reservation it would be an ordinary job that nobody holds.
    waiting = cluster.submit("true", "--reservation=lab", "--begin=now+1000", user=OWNER)
    assert change(cluster, waiting, "Nice=3") == ""
    assert DENIED in change(cluster, waiting, "Reservation=")
    ours = cluster.submit("true", user=OWNER)
    assert DENIED in change(cluster, ours, "Reservation=lab")
    stays_held(cluster, ours)


@pytest.mark.slow
def test_a_job_without_its_reservation_is_stranded(quiet_slurm: Sandbox) -> None:
    cluster = quiet_slurm
    arguments = [
        "ReservationName=lab",
        "StartTime=now",
        "Duration=60",
        f"Users={OWNER}",
        "Nodes=n2",
    ]
    cluster.run("scontrol", "create", "reservation", *arguments)
    number = cluster.submit("true", "--reservation=lab", "--begin=now+1000", user=OWNER)
    cluster.run("scontrol", "update", "ReservationName=lab", "EndTime=now+1")
    # Slurm looks every half minute.
    cluster.wait(lambda: job(cluster, number)["priority"] == 0, 120, "the reservation to end")
    for what in ("Nice=4", "Partition=other", "Priority=5", "ReqNodeList=n1"):
        assert DENIED in change(cluster, number, what), what
    assert DENIED in scontrol(cluster, "release", number)
    probe = cluster.submit("true", "--partition=other", user=OWNER)
    cluster.wait(lambda: probe not in living(cluster), 30, "another job")
    assert job(cluster, number)["priority"] == 0


# Changes by the owner


def test_what_an_owner_may_not_change(shared: Sandbox) -> None:
    changes = [
        "Priority=4000000000",
        "Nice=10",
        "Nice=0",
        "Nice=-10",
        "ReqNodeList=n1",
        "NodeList=n1",
        "ReqNodeList=",
        "AdminComment=mine",
        "AdminComment=",
        "SiteFactor=100",
        "NumNodes=2",
        "NumNodes=2-3",
        "Reservation=lab",
        "Partition=other",
    ]  # Slurm itself would give a job with another Nice priority 2, and so end its hold
    number = shared.submit("true", user=OWNER)
    before = job(shared, number)
    for what in changes:
        assert DENIED in change(shared, number, what), what
        after = job(shared, number)
        assert {k: v for k, v in before.items() if after[k] != v and "sched" not in k} == {}, what
    stays_held(shared, number)


@pytest.mark.slow
def test_what_an_owner_may_change(shared: Sandbox) -> None:
    changes = [
        ("TimeLimit=7", "time_limit", 7),
        ("NumCPUs=3", "cpus", 3),
        ("NumTasks=2", "tasks", 2),
        ("MinMemoryNode=200", "memory_per_node", 200),
        ("Features=fast", "features", "fast"),
        ("ExcNodeList=n1", "excluded_nodes", "n1"),
        ("Dependency=singleton", "dependency", "singleton(unfulfilled)"),
        ("Comment=mine", "comment", "mine"),
        ("JobName=mine", "name", "mine"),
        ("Gres=accel:1", "tres_per_node", "gres:accel:1"),
        ("NumNodes=1", "max_nodes", 1),
        ("NumNodes=1-3", "max_nodes", 1),
        ("QOS=high", "priority", 0),  # means something only with accounting
        ("Account=physics", "priority", 0),
    ]
    number = shared.submit("true", user=OWNER)
    for what, field, value in changes:
        assert change(shared, number, what) == "", what
        assert job(shared, number)[field] == value, what
    stays_held(shared, number)


def test_an_owner_may_choose_the_begin(shared: Sandbox) -> None:
    number = shared.submit("true", user=OWNER)
    assert change(shared, number, "StartTime=now+1000") == ""
    assert time.time() + 900 < begins(job(shared, number)) < time.time() + 1100
    assert change(shared, number, "StartTime=now") == ""
    assert begins(job(shared, number)) <= time.time()
    stays_held(shared, number)


def test_hold_and_release_by_the_owner(shared: Sandbox) -> None:
    number = shared.submit("true", user=OWNER)
    assert DENIED in scontrol(shared, "release", number)  # it is not his hold
    for word in ("hold", "uhold"):
        assert scontrol(shared, word, number) == ""
        assert begins(job(shared, number)) == HELD_UNTIL
        assert scontrol(shared, "release", number) == ""
        assert begins(job(shared, number)) <= time.time()
    stays_held(shared, number)
    assert "Invalid user" in scontrol(shared, "release", number, user="mail")
    assert job(shared, number)["admin_comment"] == MARK  # for drfh to bring up to date


def test_release_goes_by_the_mark_when_slurmctld_was_restarted(shared: Sandbox) -> None:
    number = shared.submit("true", user=OWNER)
    assert scontrol(shared, "hold", number) == ""
    assert change(shared, number, f"AdminComment={HELD}", None) == ""
    script = shared.directory / "job_submit.lua"
    script.write_text(script.read_text() + "\n-- read me again\n")
    scontrol(shared, "reconfigure", user=None)
    forgotten = shared.submit("true", user=OWNER)
    assert DENIED in scontrol(shared, "release", forgotten)
    assert scontrol(shared, "release", number) == ""
    assert begins(job(shared, number)) <= time.time()
    stays_held(shared, number, forgotten)


@pytest.mark.slow
def test_tasks_of_an_array(quiet_slurm: Sandbox) -> None:
    cluster = quiet_slurm
    number = cluster.submit("sleep 60", "--array=1-4", user=OWNER)
    assert DENIED in scontrol(cluster, "release", f"{number}_[3-4]")
    for which in (number, f"{number}_2"):
        assert DENIED in scontrol(cluster, "release", which)
        assert DENIED in change(cluster, which, "Nice=5")
    assert DENIED in change(cluster, f"{number}_2", "ReqNodeList=n1")
    for user in (OWNER, None):  # by task only, also for root
        assert "not supported for job arrays" in change(cluster, number, "ReqNodeList=n1", user)
    runs_on(cluster, f"{number}_2", "n9")
    assert job(cluster, f"{number}_2")["admin_comment"] == MARK
    # A task that leaves a held array takes the hold of its owner with it, and he can end it.
    assert "no longer pending" in scontrol(cluster, "hold", number)  # one task runs
    assert change(cluster, f"{number}_3", "ReqNodeList=n8", None) == ""
    assert begins(job(cluster, f"{number}_3")) == HELD_UNTIL
    scontrol(cluster, "release", f"{number}_3")
    assert begins(job(cluster, f"{number}_3")) <= time.time()
    assert begins(job(cluster, f"{number}_4")) == HELD_UNTIL
    stays_held(cluster, f"{number}_3", f"{number}_4")
    assert "Array" not in scontrol(cluster, "release", "jobname=wrap")
    stays_held(cluster, f"{number}_3", f"{number}_4")


# What root and the controller do


@pytest.mark.slow
def test_root_places(quiet_slurm: Sandbox) -> None:
    cluster = quiet_slurm
    number = cluster.submit("sleep 60", user=OWNER)
    runs_on(cluster, number, "n6")
    assert DENIED in change(cluster, number, "Nice=5")
    assert "no longer pending" in scontrol(cluster, "hold", number)
    # Many tasks do not spread from the named node to others, as they would without max_nodes.
    fills = cluster.submit("sleep 60", cpus=2, user=OWNER)
    runs_on(cluster, fills, "n0")
    many = cluster.submit("sleep 60", "--ntasks=4", user=OWNER)
    place(cluster, many, "n0")
    probe = cluster.submit("true", "--partition=other", user=OWNER)
    cluster.wait(lambda: probe not in living(cluster), 30, "another job")
    assert job(cluster, many)["job_state"] == "PENDING"
    # Released and waiting: its owner may hold it, and drfh is to hold it again before he goes on.
    assert DENIED in change(cluster, many, "StartTime=now+5")
    assert scontrol(cluster, "hold", many) == ""
    assert DENIED in scontrol(cluster, "release", many)
    assert DENIED in change(cluster, many, "StartTime=now")
    cluster.run("scancel", fills)
    probe = cluster.submit("true", "--partition=other", "--nodelist=n0", user=OWNER)
    cluster.wait(lambda: probe not in living(cluster), 30, "another job")
    assert job(cluster, many)["job_state"] == "PENDING"
    assert scontrol(cluster, "hold", many, user=None) == ""
    assert scontrol(cluster, "release", many) == ""
    assert job(cluster, many)["priority"] == 0


def test_a_job_that_waits_for_another(quiet_slurm: Sandbox) -> None:
    cluster = quiet_slurm
    first = cluster.submit("sleep 60", user=OWNER)
    number = cluster.submit("sleep 60", f"--dependency=afterany:{first}", user=OWNER)
    # As drfh parks it: not held, so that Slurm looks at the other job, but with a begin time.
    far = datetime.fromtimestamp(DEFERRED_UNTIL).isoformat()
    arguments = [f"JobId={number}", f"StartTime={far}", f"AdminComment={PARKED}"]
    assert scontrol(cluster, "update", *arguments, user=None) == ""
    assert scontrol(cluster, "release", number, user=None) == ""
    assert job(cluster, number)["priority"] > 0
    for what in ("StartTime=now", "StartTime=now+1", "Nice=1", "ReqNodeList=n1"):
        assert DENIED in change(cluster, number, what), what
    assert DENIED in scontrol(cluster, "release", number)
    assert scontrol(cluster, "hold", number) == ""
    assert begins(job(cluster, number)) == HELD_UNTIL
    assert scontrol(cluster, "release", number) == ""
    assert begins(job(cluster, number)) == DEFERRED_UNTIL
    assert change(cluster, number, "Dependency=") == ""
    cluster.run("scancel", first)
    probe = cluster.submit("true", "--partition=other", user=OWNER)
    cluster.wait(lambda: probe not in living(cluster), 30, "another job")
    found = job(cluster, number)
    assert (found["job_state"], begins(found), found["dependency"]) == (
        "PENDING",
        DEFERRED_UNTIL,
        "",
    )


@pytest.mark.slow
def test_a_job_that_its_owner_runs_again(quiet_slurm: Sandbox) -> None:
    cluster = quiet_slurm
    number = cluster.submit("sleep 60", "--hold", user=OWNER)
    assert scontrol(cluster, "release", number) == ""
    assert "is pending" in scontrol(cluster, "requeue", number)
    runs_on(cluster, number, "n6")
    assert scontrol(cluster, "requeue", number) == ""
    cluster.wait(lambda: job(cluster, number)["job_state"] == "PENDING", 30, "the job to wait")
    # No hook is called: it is pinned, not held, and starts in two minutes. Its owner cannot make
    # that earlier, so there is time to hold it.
    found = job(cluster, number)
    assert (found["required_nodes"], found["restart_cnt"]) == ("n6", 1)
    assert found["priority"] > 0
    assert begins(job(cluster, number)) > time.time() + 60
    assert DENIED in change(cluster, number, "StartTime=now")
    assert DENIED in scontrol(cluster, "release", number)
    assert scontrol(cluster, "hold", number, user=None) == ""
    assert change(cluster, number, "StartTime=now") == ""
    stays_held(cluster, number)
    runs_on(cluster, number, "n7")
    assert scontrol(cluster, "requeuehold", number) == ""
    cluster.wait(lambda: job(cluster, number)["job_state"] == "PENDING", 30, "the job to wait")
    assert change(cluster, number, "StartTime=now") == ""
    stays_held(cluster, number)


@pytest.mark.slow
def test_top_does_not_start_a_held_job() -> None:
    parameters = "defer,batch_sched_delay=0,sched_interval=1,enable_user_top"
    settings = {"SchedulerParameters": parameters}
    groups = {"main": ["n0", "n1"], "other": ["n0"]}
    with slurm_cluster(FEW, groups, settings) as cluster:
        numbers = [cluster.submit("true", user=OWNER) for _ in range(3)]
        assert "held state" in scontrol(cluster, "top", numbers[2])
        stays_held(cluster, *numbers)


# Other partitions, other scripts


def test_the_default_partition_may_be_one_that_drfh_leaves() -> None:
    groups = {"other": ["n0", "n1"], "main": ["n0", "n1"]}  # the first is the default
    with slurm_cluster(FEW, groups) as cluster:
        free = cluster.submit("sleep 60", user=OWNER)
        ours = cluster.submit("sleep 60", "--partition=main", user=OWNER)
        runs(cluster, free)
        assert job(cluster, free)["admin_comment"] == ""
        stays_held(cluster, ours)


def test_all_partitions() -> None:
    groups = {"main": ["n0", "n1"], "other": ["n0", "n1"]}
    with slurm_cluster(FEW, groups, script=plugin_source()) as cluster:
        for name in groups:
            number = cluster.submit("true", f"--partition={name}", user=OWNER)
            assert (job(cluster, number)["priority"], job(cluster, number)["admin_comment"]) == (
                0,
                MARK,
            )
            said = refused(cluster, f"--partition={name}", "--nodes=2")
            assert "this one needs several: ask for one node." in said
        assert change(cluster, number, "Partition=main") == ""


@pytest.mark.slow
def test_a_site_with_its_own_script_and_the_way_out() -> None:
    """Follow the instructions at the top of the file, word by word."""
    ours = plugin_source(["main"])
    ours = ours[: ours.index("function slurm_job_submit")]
    site = """
    function slurm_job_submit(job_desc, part_list, submit_uid)
       if job_desc.time_limit == slurm.NO_VAL then
          return slurm.ESLURM_MISSING_TIME_LIMIT
       end
       CALL1
    end
    function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
       CALL2
    end
    return slurm.SUCCESS
    """
    for call in re.findall(r"-- +(return drfh_.*)", ours):
        site = re.sub("CALL.", call, site, count=1)
    assert "CALL" not in site
    groups = {"main": ["n0", "n1"], "other": ["n0"]}
    with slurm_cluster(FEW, groups, script="") as cluster:
        before = [cluster.submit("sleep 60", "--hold", *w, user=OWNER) for w in ([], ["-N2"])]
        cluster.plugin_source = ours + site
        cluster.write_configuration()
        scontrol(cluster, "reconfigure", user=None)
        # Jobs from before are Slurm's.
        for number in before:
            for what in ("Nice=5", "Partition=other,main", "NumNodes=2", "Partition=main"):
                assert change(cluster, number, what) == "", what
        for number in before:
            assert scontrol(cluster, "release", number) == ""
            runs(cluster, number)
            cluster.run("scancel", number)
        assert "Time limit" in refused(cluster)
        limit = "--time=5"
        waiting, held, array = (
            cluster.submit("sleep 60", limit, option, user=OWNER)
            for option in ("--nice=0", "--hold", "--array=1-2")
        )
        for number in (waiting, array):
            assert DENIED in scontrol(cluster, "release", number)
        assert change(cluster, waiting, "ReqNodeList=n1", None) == ""

        cluster.plugin_source = ""
        cluster.write_configuration()
        scontrol(cluster, "reconfigure", user=None)
        slurm = Slurm(cluster.environment)
        names, failed = release_all(slurm, config_of(slurm.configuration()))
        assert not failed
        assert set(names) == {waiting, held, f"{array}_1", f"{array}_2"}
        for number in (waiting, f"{array}_1", f"{array}_2"):
            runs(cluster, number)
        assert (job(cluster, held)["priority"], begins(job(cluster, held))) == (0, 0)
        assert scontrol(cluster, "release", held) == ""
        runs(cluster, held)


# The text


def test_names_become_strings_of_lua() -> None:
    names = ['quo"te', "back\\slash", "grüße", "a%sb", "a]]b", "$x"]
    with slurm_cluster(
        FEW, {"main": ["n0", "n1"]}, script=plugin_source([*names, "main"])
    ) as cluster:
        number = cluster.submit("true", user=OWNER)
        assert job(cluster, number)["admin_comment"] == MARK
        assert "drfh places a job on one node" in refused(cluster, "--nodes=2")


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a\nb", "a\x00b", "a\x7f"])
def test_names_that_no_partition_has(name: str) -> None:
    with pytest.raises(InputError, match=r"^partitions must be names without spaces and commas"):
        plugin_source(["main", name])


@pytest.mark.parametrize("uid", [-1, 2**32 - 2, 2**32 - 1])
def test_ids_that_no_user_has(uid: int) -> None:
    with pytest.raises(InputError, match=r"^trusted must be user ids from 0 to"):
        plugin_source(trusted=[0, uid])


def test_instructions_know_the_cluster(slurm: Sandbox) -> None:
    lines = slurm.run("scontrol", "show", "config").splitlines()
    config = {k.strip(): v.strip() for k, _, v in (line.partition("=") for line in lines)}
    text = installation(config, ["main"])
    assert f"Save this file as {slurm.directory}/job_submit.lua" in text
    assert "JobSubmitPlugins=lua  (now: lua)" in text
    assert "local DRFH_TRUSTED = {[0] = true}" in text
    text = installation({"JobSubmitPlugins": "lua,cray_aries", "SlurmUser": "slurm(64030)"})
    assert "/etc/slurm/job_submit.lua" in text
    assert "JobSubmitPlugins=cray_aries,lua  (now: lua,cray_aries)\n" in text
    assert "local DRFH_TRUSTED = {[0] = true, [64030] = true}" in text
    assert "local DRFH_PARTITIONS = nil" in text
    text = installation({"SLURM_CONF": "/etc/slurm.conf", "JobSubmitPlugins": "(null)"}, ["main"])
    assert "In /etc/slurm.conf: JobSubmitPlugins=lua\n" in text
    assert not [line for line in text.splitlines() if len(line) > 100 or line != line.rstrip()]


def test_a_slurm_user_that_cannot_be_read() -> None:
    with pytest.raises(InputError, match=r"^SlurmUser must be as in slurm.64030., got 'slurm'"):
        trusted_uids({"SlurmUser": "slurm"})
