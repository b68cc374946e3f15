"""The controller against a real Slurm, round by round: requests, holds, accidents."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from drfh.engines.service import Service
from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.engines.slurm.controller import release_all
from drfh.engines.slurm.sandbox import Sandbox
from drfh.errors import DrfhError
from tests.engines.slurm.cluster import MANAGED, UNMANAGED, living, make_quiet, slurm_cluster
from tests.engines.slurm.driver import Driver, Faults

ALL = {f"n{i}" for i in range(16)}
FAST = {f"n{i}" for i in range(8, 16)}
ACCEL = {f"n{i}" for i in range(12, 16)}


@pytest.fixture
def ours(quiet_slurm: Sandbox) -> Driver:
    return Driver(quiet_slurm)


@pytest.fixture
def faults(quiet_slurm: Sandbox, tmp_path: Path) -> Faults:
    return Faults(tmp_path / "bin", quiet_slurm)


@pytest.fixture(scope="module")
def bare() -> Iterator[Sandbox]:
    """Return a cluster without job_submit.lua."""
    with slurm_cluster(script="") as sandbox:
        yield sandbox


@pytest.fixture
def quiet_bare(bare: Sandbox) -> Sandbox:
    make_quiet(bare)
    return bare


def test_every_request_goes_where_it_may(ours: Driver) -> None:
    submit = ours.sandbox.submit
    listed = submit("sleep 60", "--nodelist=n3", user="games")
    excluded = submit("sleep 60", "--exclude=n[0-11,13]", user="games")
    fast = submit("sleep 60", "--constraint=fast", user="mail")
    accel = [submit("sleep 60", "--gres=accel:2", user="mail") for _ in range(4)]
    alone = submit("sleep 60", "--exclusive", user="news")
    arguments = ("sbatch", "--parsable", "--output=/dev/null", "--chdir=/", "--wrap=sleep 60")
    greedy = ours.sandbox.run(*arguments, user="news").strip()
    several = submit("sleep 60", "--ntasks=6", user="news")
    impossible = submit("sleep 60", "--constraint=slow", "--gres=accel:1", user="games")
    names = [listed, excluded, fast, *accel, alone, greedy, several]
    ours.run_all(*names)
    where = {name: ours.node(name) for name in names}
    assert where[listed] == "n3"
    assert where[excluded] in {"n12", "n14", "n15"}
    assert where[fast] in FAST
    assert {where[name] for name in accel} == ACCEL
    assert where[several] in ALL  # one node, not a list
    assert list(where.values()).count(where[alone]) == 1
    jobs = ours.jobs()
    size = ours.sandbox.nodes[where[greedy]].memory
    assert f"mem={size // 1024}G" in jobs[greedy]["tres_alloc_str"]
    assert [where[name] for name in names if name != greedy].count(where[greedy]) == 0
    assert ours.states(impossible) == ["PENDING"]
    with pytest.raises(DrfhError, match="places a job on one node, and this one needs several"):
        submit("sleep 60", "--nodes=2", user="games")


@pytest.mark.slow
def test_an_array_keeps_its_limit(ours: Driver) -> None:
    array = ours.sandbox.submit("sleep 0.3", "--array=1-5%2", user="games")
    names = [f"{array}_{index}" for index in range(1, 6)]
    most = 0
    while not ours.ended(*names):
        ours.round()
        # Slurm keeps to the limit as well; but a task that it may start has a place on a node.
        jobs = ours.jobs().items()
        live = [job for name, job in jobs if name in names and job["job_state"] != "COMPLETED"]
        most = max(most, sum(job["priority"] != 0 for job in live))
        assert most <= 2
    assert most == 2


@pytest.mark.parametrize("options", [("--exclusive", "--mem=100"), ()], ids=["node", "memory"])
def test_whole_nodes(ours: Driver, options: tuple[str, ...]) -> None:
    arguments = ("sbatch", "--parsable", "--output=/dev/null", "--chdir=/", "--wrap=sleep 60")
    where = "--exclude=n[0-3,8-15]"
    names = [ours.sandbox.run(*arguments, where, *options, user="games").strip() for _ in range(5)]
    done = ours.round()
    assert sorted(one.server for one in done.placed) == ["n4", "n5", "n6", "n7"]
    ours.run_all(*names[:4])
    assert ours.states(names[4]) == ["PENDING"]


@pytest.mark.slow
def test_dependencies_and_begin_times_are_slurms(ours: Driver) -> None:
    submit = ours.sandbox.submit
    first = submit("sleep 0.5", user="games")
    fails = submit("exit 3", user="games")
    after = submit("sleep 60", f"--dependency=afterok:{first}", user="games")
    never = submit("sleep 60", f"--dependency=afterok:{fails}", user="games")
    later = submit("sleep 60", "--begin=now+1hour", user="games")
    array = submit("sleep 60", f"--dependency=afterok:{first}", "--array=1-2", user="mail")
    ours.round()
    assert str(ours.task(after).blocked).startswith(f"waits for another job (afterok:{first}")
    ours.run_all(after, f"{array}_1", f"{array}_2")
    ours.rounds(2)
    assert ours.states(never, later) == ["PENDING", "PENDING"]
    assert str(ours.task(never).blocked).startswith(f"waits for another job (afterok:{fails}")
    assert str(ours.task(later).blocked).startswith("must not start before 20")
    # Its owner is tired of waiting for what never comes.
    assert ours.as_user("games", "scontrol", "update", f"JobId={never}", "Dependency=")
    assert ours.as_user("games", "scontrol", "update", f"JobId={later}", "StartTime=now")
    ours.run_all(never, later)


@pytest.mark.slow
def test_what_an_owner_holds(ours: Driver) -> None:
    submit = ours.sandbox.submit
    held, other = submit("sleep 60", "--hold", user="games"), submit("sleep 60", user="games")
    waiting = submit("sleep 60", user="games")
    filler = submit("sleep 60", "--exclusive", "--nodelist=n0", user="mail")
    late = submit("sleep 60", "--nodelist=n0", user="games")
    assert ours.as_user("games", "scontrol", "hold", other)
    ours.run_all(waiting, filler)
    ours.rounds(2)
    assert ours.states(held, other) == ["PENDING"] * 2
    assert [str(ours.task(name).blocked) for name in (held, other)] == ["held by its owner"] * 2
    assert ours.annotation(held) == ours.annotation(other) == "drfh;held"
    # One that must wait is let into the queue, and not past it.
    assert ours.as_user("games", "scontrol", "hold", late)
    ours.rounds(2)
    assert ours.as_user("games", "scontrol", "release", late)
    ours.rounds(2)
    assert ours.states(late) == ["PENDING"]
    assert ours.as_user("games", "scontrol", "release", held)
    assert ours.as_user("games", "scontrol", "release", other)
    assert ours.states(held, other) == ["PENDING"] * 2, "only into the queue"
    ours.run_all(held, other)
    assert ours.annotation(held).startswith("drfh;pin=n")


@pytest.mark.parametrize("hold", [False, True])
def test_an_owner_cannot_jump_the_queue(ours: Driver, hold: bool) -> None:
    name = ours.sandbox.submit("sleep 60", user="games")
    array = ours.sandbox.submit("sleep 60", "--array=1-3", user="games")
    if hold:  # what he may lift is his own hold, not ours
        assert ours.as_user("games", "scontrol", "hold", name)
    for arguments in (
        ("release", name),
        ("update", f"JobId={name}", "Priority=4294967294"),
        ("update", f"JobId={name}", "Nice=1"),
        ("update", f"JobId={name}", "ReqNodeList=n4"),
        ("update", f"JobId={name}", f"Partition={UNMANAGED}"),
        ("update", f"JobId={name}", "AdminComment=drfh;pin=n4"),
        ("top", name),
        ("requeue", name),
        ("release", f"{array}_2"),
        ("release", array),
    ):
        allowed = hold and arguments == ("release", name)
        assert ours.as_user("games", "scontrol", *arguments) is allowed, arguments
        time.sleep(0.05)
        states = ours.states(name, *(f"{array}_{index}" for index in (1, 2, 3)))
        assert set(states) == {"PENDING"}, arguments
    time.sleep(1.2)  # Slurm's scheduler has looked
    assert ours.states(name) == ["PENDING"]
    ours.run_all(name)


def test_other_jobs_count_and_are_not_touched(ours: Driver) -> None:
    submit = ours.sandbox.submit
    foreign = submit("sleep 60", f"--partition={UNMANAGED}", user="games", cpus=3)
    waiting = submit("sleep 60", f"--partition={UNMANAGED}", "--begin=now+1hour", user="mail")
    ours.sandbox.wait(lambda: ours.running(foreign), 20, "the job")
    before = {name: job for name, job in ours.jobs().items() if name in (foreign, waiting)}
    mine = submit("sleep 60", "--exclusive", f"--nodelist={ours.node(foreign)}", user="news")
    ours.rounds(3)
    after = ours.jobs()
    for name in (foreign, waiting):
        keys = ("job_state", "nodes", "priority", "admin_comment", "required_nodes")
        assert {k: after[name][k] for k in keys} == {k: before[name][k] for k in keys}
    assert ours.task(foreign).on == ours.node(foreign)
    assert ours.controller.cache.scheduler.running("games") == 1
    assert ours.states(mine) == ["PENDING"]


def test_shares_count_what_others_started(quiet_slurm: Sandbox) -> None:
    """Who has much already, from another partition, waits for the others to catch up."""
    foreign = quiet_slurm.submit(
        "sleep 60", f"--partition={UNMANAGED}", "--nodelist=n8", user="games", cpus=8
    )
    quiet_slurm.wait(lambda: Driver(quiet_slurm).running(foreign), 20, "the job")
    names = {
        user: [quiet_slurm.submit("sleep 60", user=user, cpus=4) for _ in range(3)]
        for user in ("games", "mail")
    }
    ours = Driver(quiet_slurm, batch=4)
    placed = [one.user for one in ours.round().placed]
    assert sorted(placed) == ["games", "mail", "mail", "mail"]
    assert names
    assert placed[:2] == ["mail", "mail"]


def test_accounts_partitions_and_weights(quiet_slurm: Sandbox) -> None:
    for account in ("physics", "biology"):
        for _ in range(6):
            quiet_slurm.submit("sleep 60", user="games", account=account)
    ours = Driver(quiet_slurm, user_by="account", weights={"physics": 2.0}, batch=6)
    placed = [one.user for one in ours.round().placed]
    assert (placed.count("physics"), placed.count("biology")) == (4, 2)
    by_partition = Driver(quiet_slurm, user_by="partition")
    assert {one.user for one in by_partition.round().placed} == {MANAGED}


@pytest.mark.slow
def test_an_administrators_hold(ours: Driver) -> None:
    submit, run = ours.sandbox.submit, ours.sandbox.run
    first = submit("sleep 0.3", user="games")
    held, freed = submit("sleep 60", user="games"), submit("sleep 60", user="games")
    depends = submit("sleep 60", f"--dependency=afterany:{first}", user="games")
    for name in (held, depends):
        run("scontrol", "hold", name)
    run("scontrol", "release", freed)
    ours.until(lambda: ours.ended(first), "the first job")
    ours.rounds(3)
    assert ours.states(held, depends) == ["PENDING"] * 2
    assert {str(ours.task(one).blocked) for one in (held, depends)} == {"held by an administrator"}
    assert ours.running(freed), "an administrator may start what he wants"
    assert not ours.as_user("games", "scontrol", "release", held)
    for name in (held, depends):
        run("scontrol", "uhold", name)  # back into the queue
    ours.run_all(held, depends)


def test_an_administrator_releases_what_its_owner_holds(ours: Driver) -> None:
    name = ours.sandbox.submit("sleep 60", "--hold", user="games")
    ours.rounds(1)
    ours.sandbox.run("scontrol", "release", name)
    ours.run_all(name)
    assert "pin=" in ours.annotation(name)


def test_a_job_that_changes_while_it_waits(ours: Driver) -> None:
    name = ours.sandbox.submit("sleep 60", user="games", cpus=1, account="physics")
    moved = ours.sandbox.submit("sleep 60", user="games")
    for one in (name, moved):
        ours.sandbox.run("scontrol", "hold", one)
    ours.rounds(1)  # the scheduler knows them as they were
    for one in (name, moved):
        ours.sandbox.run("scontrol", "uhold", one)
    change = ("scontrol", "update", f"JobId={name}", "NumCPUs=12", "MinMemoryNode=3000")
    assert ours.as_user("games", *change)
    ours.sandbox.run("scontrol", "update", f"JobId={name}", "Account=biology")
    ours.sandbox.run("scontrol", "update", f"JobId={moved}", f"Partition={UNMANAGED}")
    ours.run_all(name, moved)
    assert ours.node(name) in {f"n{i}" for i in range(8, 12)}, "the only ones with 12 CPUs"
    assert ours.annotation(moved) == ""


def test_a_job_cancelled_between_decision_and_release(ours: Driver) -> None:
    names = [ours.sandbox.submit("sleep 60", user="games") for _ in range(3)]
    array = ours.sandbox.submit("sleep 60", "--array=1-3", user="mail")
    scontrol = ours.controller.slurm.scontrol
    calls = []

    def cancelling(lines: Iterable[str]) -> dict[str, str]:
        calls.append(lines)
        if len(calls) <= 2:  # before the pins; between the pins and the release
            gone = (names[0], f"{array}_2") if len(calls) == 1 else (names[1], f"{array}_1")
            ours.sandbox.run("scancel", *gone)
        return scontrol(lines)

    ours.controller.slurm.scontrol = cancelling  # type: ignore[method-assign]
    done = ours.round()
    assert len(done.placed) == 6
    assert {names[0], f"{array}_2"} <= set(done.failed)
    ours.run_all(names[2], f"{array}_3")
    assert set(ours.states(names[0], names[1])) == {"CANCELLED"}
    assert not {f"{array}_1", f"{array}_2"} & set(living(ours.sandbox))
    again = ours.round()
    assert not again.failed
    assert not again.placed


def test_nodes_drained_and_resumed(ours: Driver) -> None:
    node = "NodeName=n[12-14]"
    ours.sandbox.run("scontrol", "update", node, "State=DRAIN", "Reason=test")
    names = [
        ours.sandbox.submit("sleep 60", "--gres=accel:2", user=user) for user in ("games", "mail")
    ]
    ours.rounds(3)
    assert sorted(ours.states(*names)) == ["PENDING", "RUNNING"]
    assert {ours.node(name) for name in names} == {"n15", ""}
    ours.sandbox.run("scontrol", "update", node, "State=RESUME")
    ours.run_all(*names)


def test_a_node_drained_after_the_release(ours: Driver) -> None:
    blocker = ours.sandbox.submit(
        "sleep 60", f"--partition={UNMANAGED}", "--exclusive", "--nodelist=n12", user="mail"
    )
    ours.sandbox.wait(lambda: ours.running(blocker), 20, "the job")
    name = ours.sandbox.submit("sleep 60", "--gres=accel:2", user="games")
    read_state = ours.controller.read_state
    state = read_state()
    # A state that is too old: the job is sent where somebody else is by now.
    jobs = {name: job for name, job in state.jobs.items() if name != blocker}
    nodes = {name: node for name, node in state.nodes.items() if name == "n12"}
    old = type(state)(state.time, nodes, jobs)
    ours.controller.read_state = lambda: old  # type: ignore[method-assign]
    assert [one.server for one in ours.round().placed] == ["n12"]
    ours.controller.read_state = read_state  # type: ignore[method-assign]
    assert not ours.round().recalled
    assert ours.states(name) == ["PENDING"]
    ours.sandbox.run("scontrol", "update", "NodeName=n12", "State=DRAIN", "Reason=test")
    recalled = ours.round().recalled
    assert {name: str(why) for name, why in recalled.items()} == {name: "n12 takes no new jobs"}
    ours.run_all(name)
    assert ours.node(name) in ACCEL - {"n12"}


def test_one_that_does_not_start_is_recalled(ours: Driver) -> None:
    blocker = ours.sandbox.submit(
        "sleep 60", f"--partition={UNMANAGED}", "--exclusive", "--nodelist=n4", user="mail"
    )
    name = ours.sandbox.submit("sleep 60", user="games")
    annotation = "AdminComment=drfh;pin=n4;nodes=n[4-5];restarts=0"
    ours.sandbox.wait(lambda: ours.running(blocker), 20, "the job")
    # A controller has released it, and was killed; n4 is full.
    ours.sandbox.run("scontrol", "update", f"JobId={name}", "ReqNodeList=n4", annotation)
    ours.sandbox.run("scontrol", "release", name)
    assert not ours.rounds(2)[-1].recalled, "patience"
    ours.controller.patience = 0.0
    assert list(ours.round().recalled) == [name]
    ours.controller.patience = 60.0
    ours.run_all(name)
    assert ours.node(name) == "n5", "the other one that its owner allows"


@pytest.mark.slow
@pytest.mark.parametrize("reported", [True, False])
def test_a_node_dies_and_comes_back(ours: Driver, reported: bool) -> None:
    name = ours.sandbox.submit("sleep 60", "--requeue", "--nodelist=n2", user="games")
    ours.run_all(name)
    ours.sandbox.kill("n2")
    if reported:  # as Slurm does by itself, half a minute later
        ours.sandbox.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
    ours.until(lambda: ours.states(name) == ["PENDING"], "requeued", 40)
    ours.until(
        lambda: "it was requeued" in str(ours.task(name).blocked) or held(ours, name), "taken back"
    )
    ours.rounds(2)
    assert ours.states(name) == ["PENDING"]
    assert held(ours, name)
    ours.sandbox.start_node("n2")
    if reported:
        ours.sandbox.wait(lambda: resumed(ours, "n2"), 20, "the node")
    ours.run_all(name)
    assert ours.jobs()[name]["restart_cnt"] == 1
    assert ours.node(name) == "n2"


def resumed(ours: Driver, node: str) -> bool:
    """Resume a node; Slurm refuses while it does not know that the node answers again."""
    ours.sandbox.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
    return "down" not in ours.sandbox.run("sinfo", "-h", "-n", node, "-o", "%T")


def held(ours: Driver, name: str) -> bool:
    return bool(ours.jobs()[name]["priority"] == 0)


@pytest.mark.slow
def test_requeued_by_its_owner(ours: Driver) -> None:
    name = ours.sandbox.submit("sleep 60", "--nodelist=n0", user="games", cpus=4)
    ours.run_all(name)
    other = ours.sandbox.submit("sleep 60", "--nodelist=n0", user="mail", cpus=4)
    ours.rounds(1)
    assert ours.as_user("games", "scontrol", "requeue", name)
    assert not ours.as_user("games", "scontrol", "update", f"JobId={name}", "StartTime=now")
    # Who has nothing comes first.
    ours.run_all(other)
    assert ours.states(name) == ["PENDING"]
    assert held(ours, name)
    ours.sandbox.run("scancel", other)
    ours.run_all(name)


@pytest.mark.slow
@pytest.mark.parametrize("user", ["root", "games"])
def test_requeued_under_a_hold(ours: Driver, user: str) -> None:
    name = ours.sandbox.submit("sleep 60", user="games")
    ours.run_all(name)
    assert ours.as_user(user, "scontrol", "requeuehold", name)
    ours.until(lambda: ours.states(name) == ["PENDING"], "requeued")
    ours.rounds(3)
    assert ours.states(name) == ["PENDING"]
    assert str(ours.task(name).blocked) == "held by its owner"
    assert ours.as_user(user, "scontrol", "release", name)
    ours.run_all(name)
    if user == "root":
        return
    # And once more: the first time is over.
    assert ours.as_user("games", "scontrol", "requeue", name)
    ours.until(lambda: ours.states(name) == ["PENDING"], "requeued")
    ours.run_all(name)


@pytest.mark.slow
def test_a_suspended_job(ours: Driver) -> None:
    name = ours.sandbox.submit("sleep 60", "--nodelist=n0", user="games", cpus=4)
    ours.run_all(name)
    ours.sandbox.run("scontrol", "suspend", name)
    # Slurm gives its CPUs to others: there is more on the node than it has.
    foreign = ours.sandbox.submit(
        "sleep 60", f"--partition={UNMANAGED}", "--nodelist=n0", user="mail", cpus=4
    )
    ours.sandbox.wait(lambda: ours.running(foreign), 20, "the job")
    waiting = ours.sandbox.submit("sleep 60", "--nodelist=n0", user="news")
    elsewhere = ours.sandbox.submit("sleep 60", user="daemon")
    ours.run_all(elsewhere)
    assert ours.states(waiting) == ["PENDING"]
    ours.sandbox.run("scancel", foreign)
    ours.rounds(2)
    ours.sandbox.run("scontrol", "resume", name)
    ours.run_all(name)
    assert ours.states(waiting) == ["PENDING"]
    ours.sandbox.run("scancel", name)
    ours.run_all(waiting)


@pytest.mark.slow
def test_slurmctld_restarts(ours: Driver, caplog: pytest.LogCaptureFixture) -> None:
    names = [ours.sandbox.submit("sleep 60", user=user) for user in ("games", "mail", "news")]
    held_by_owner = ours.sandbox.submit("sleep 60", "--hold", user="mail")
    ours.sandbox.run("scontrol", "update", "NodeName=n15", "State=DRAIN", "Reason=test")
    waiting = ours.sandbox.submit("sleep 60", "--nodelist=n15", user="daemon")
    by_admin = ours.sandbox.submit("sleep 60", user="daemon")
    ours.sandbox.run("scontrol", "hold", by_admin)
    deferred = ours.sandbox.submit("sleep 60", f"--dependency=afterany:{waiting}", user="mail")
    ours.round()
    ours.sandbox.kill("slurmctld", signal.SIGTERM)
    ours.slurm.timeout = 1.0
    service = Service(ours.controller, interval=0.05)
    service.run(1)
    assert len(caplog.messages) == 1
    assert service.failures == 1
    ours.sandbox.start_controller()
    names += [ours.sandbox.submit("sleep 60", user=user) for user in ("games", "mail", "news")]
    ours.slurm.timeout = 60.0
    ours.run_all(*names)
    assert ours.as_user("mail", "scontrol", "release", held_by_owner)
    ours.run_all(held_by_owner)
    ours.sandbox.run("scontrol", "reconfigure")
    ours.rounds(1)
    assert ours.states(waiting, by_admin, deferred) == ["PENDING"] * 3
    ours.sandbox.run("scontrol", "update", "NodeName=n15", "State=RESUME")
    ours.run_all(waiting)
    ours.sandbox.run("scancel", waiting)
    ours.run_all(deferred)
    assert str(ours.task(by_admin).blocked) == "held by an administrator"


def test_slurmctld_is_killed(ours: Driver) -> None:
    """What it had not saved is gone: pins, releases and holds. What is left must go on."""
    names = [ours.sandbox.submit("sleep 60", user=user) for user in ("games", "mail") * 4]
    ours.controller.batch = 3
    ours.round()
    ours.sandbox.kill("slurmctld", signal.SIGKILL)
    ours.slurm.timeout = 1.0
    with pytest.raises(SlurmError):
        ours.controller.cycle()
    ours.sandbox.start_controller()
    ours.slurm.timeout, ours.controller.batch = 60.0, 200
    left = [name for name in names if name in living(ours.sandbox)]
    ours.run_all(*left)


SLOW = "sleep 0.5"
TOO_SLOW = "exec sleep 30"
ACCIDENTS = {
    "slow": SLOW,
    "too slow": TOO_SLOW,
    "fails": "echo 'slurm_update error: Socket timed out on send/recv' >&2; exit 1",
    "dies": "kill -9 $$",
    "done, but fails": '"$real" "$@" >/dev/null 2>&1; exit 1',
    "done, but too slow": f'"$real" "$@" >/dev/null 2>&1; {TOO_SLOW}',
    "half done": 'head -n 2 | "$real" >/dev/null 2>&1; kill -9 $$',
    "half done, with a word": 'head -n 2 | "$real"; echo "gone for job 1" >&2; kill -9 $$',
}


class Impatient(Slurm):
    """Waits for long, as the machine may be busy; but not for a command that will never answer."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults.environment)
        self.faults = faults

    def _run(self, arguments: Sequence[str], stdin: IO[bytes] | int) -> tuple[int, str, str]:
        self.timeout = 1.5 if TOO_SLOW in self.faults.following(arguments[0]) else 60.0
        return super()._run(arguments, stdin)


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["pins", "release"])
def test_accidents_of_scontrol(quiet_slurm: Sandbox, faults: Faults, which: int) -> None:
    ours = Driver(quiet_slurm, slurm=Impatient(faults))
    for label, accident in ACCIDENTS.items():
        names = [
            quiet_slurm.submit("sleep 60", "--nodelist=n9", user="games"),
            *(quiet_slurm.submit("sleep 60", user=user) for user in ("mail", "news")),
        ]
        array = quiet_slurm.submit("sleep 60", "--array=1-3", user="games")
        names += [f"{array}_{index}" for index in (1, 2, 3)]
        faults.plan("scontrol", *[""] * which, accident)
        done = ours.round()
        assert len(done.placed) == 6, label
        assert not faults.left(), label
        assert bool(done.failed) == (accident != SLOW), label
        if which == 0 and not label.startswith(("slow", "done")):
            assert len(done.released) < 6, label
        ours.run_all(*names)
        assert ours.node(names[0]) == "n9", label
        for name, job in ours.jobs().items():
            if name in names:
                assert f"pin={job['nodes']};" in job["admin_comment"], f"{label}: without its pin"
        quiet_slurm.run("scancel", *names)


READ = {
    "cut": "echo '{\"jobs\": ['; exit 0",
    "fails": "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
    "other": "echo '[]'; exit 0",
    "empty": 'echo \'{"jobs": [], "nodes": []}\'; exit 0',
    "nonsense": 'echo \'{"jobs": [7, {}], "nodes": [7, {}]}\'; exit 0',
    "too slow": TOO_SLOW,
}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["squeue", "sinfo"])
def test_accidents_of_what_is_read(
    quiet_slurm: Sandbox, faults: Faults, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    ours = Driver(quiet_slurm, slurm=Impatient(faults))
    service = Service(ours.controller, interval=0.01)
    names = [quiet_slurm.submit("sleep 60", user=user) for user in ("games", "mail")]
    ours.run_all(*names)
    for label, accident in READ.items():
        name = quiet_slurm.submit("sleep 60", user="news")
        faults.plan(command, accident)
        service.cycles = 0
        caplog.clear()
        service.run(1)
        assert not faults.left(), label
        assert ours.states(*names, name) == ["RUNNING"] * len(names) + ["PENDING"], label
        assert caplog.messages or label == "empty", label
        names.append(name)
        ours.run_all(*names)


ALL_NODES = "NodeName=n[0-15]"


def test_release_all_gives_everything_back(quiet_slurm: Sandbox, faults: Faults) -> None:
    ours = Driver(quiet_slurm, slurm=Slurm(faults.environment))
    submit, run = quiet_slurm.submit, quiet_slurm.run
    run("scontrol", "update", ALL_NODES, "State=DRAIN", "Reason=test")
    plain, listed = submit(user="games"), submit("sleep 60", "--nodelist=n9", user="games")
    other = submit("sleep 60", user="games")
    array = submit("sleep 60", "--array=1-4", user="mail")
    held_by_owner = submit("sleep 60", "--hold", user="mail")
    held_task = submit("sleep 60", "--array=1-2", user="news")
    assert ours.as_user("news", "scontrol", "hold", f"{held_task}_1")
    by_admin = submit("sleep 60", user="mail")
    run("scontrol", "hold", by_admin)
    depends = submit("sleep 60", f"--dependency=after:{plain}", user="news")
    later = submit("sleep 60", "--begin=now+1hour", user="news")
    ours.rounds(2)
    # The controller was killed after it had pinned these.
    for name, nodes in ((listed, "nodes=n9;"), (other, ""), (f"{array}_3", "")):
        annotation = f"AdminComment=drfh;pin=n5;{nodes}restarts=0"
        run("scontrol", "update", f"JobId={name}", "ReqNodeList=n5", annotation)
    for step in range(3):  # of the three calls, this one breaks off after so many lines
        for lines in (0, 1, 3, 6):
            broken = f'head -n {lines} | "$real" >/dev/null 2>&1; kill -9 $$'
            faults.plan("scontrol", *[""] * step, broken)
            if not release_all(ours.slurm, ours.config)[1]:
                faults.forget()  # nothing was left to do in this step
    assert not release_all(ours.slurm, ours.config)[1]
    jobs = ours.jobs()
    assert {jobs[name]["admin_comment"] for name in jobs if name in living(quiet_slurm)} <= {""}
    assert jobs[listed]["required_nodes"] == "n9"
    assert jobs[other]["required_nodes"] == jobs[f"{array}_3"]["required_nodes"] == ""
    run("scontrol", "update", ALL_NODES, "State=RESUME")
    free = [plain, listed, other, *(f"{array}_{i}" for i in range(1, 5)), depends, f"{held_task}_2"]
    done = ("RUNNING", "COMPLETING", "COMPLETED")
    quiet_slurm.wait(lambda: set(ours.states(*free)) <= set(done), 40, "all jobs")
    assert ours.node(listed) == "n9"
    jobs = ours.jobs()
    held = [(held_by_owner, "User"), (f"{held_task}_1", "User"), (by_admin, "Admin")]
    for name, kind in held:
        assert jobs[name]["state_reason"] == f"JobHeld{kind}"
        run("scontrol", "release", name)  # no begin time of ours is left
    quiet_slurm.wait(lambda: ours.running(*(name for name, _ in held)), 20, "the held ones")
    assert ours.states(later) == ["PENDING"]
    assert ours.jobs()[later]["state_reason"] in ("BeginTime", "None")


@pytest.mark.slow
def test_without_the_script(quiet_bare: Sandbox) -> None:
    ours = Driver(quiet_bare, hold_by="controller")
    submit, run = quiet_bare.submit, quiet_bare.run
    first = submit("sleep 60", user="games")
    quiet_bare.wait(lambda: ours.running(first), 20, "Slurm's own scheduler")
    run("scontrol", "update", ALL_NODES, "State=DRAIN", "Reason=test")
    name, held_by_owner = submit("sleep 60", user="games"), submit("sleep 60", "-H", user="mail")
    several = submit("sleep 60", "--nodes=2", user="news")
    spread = submit("sleep 60", "--ntasks=6", user="news")
    array = submit("sleep 60", "--array=1-3", user="mail")
    depends = submit("sleep 60", f"--dependency=after:{name}", user="news")
    tasks = [f"{array}_{index}" for index in (1, 2, 3)]
    ours.rounds(3)
    assert {ours.annotation(one) for one in (name, spread, *tasks)} == {"drfh"}
    assert ours.annotation(several).startswith(
        "drfh;refused=needs 2 nodes at once, and drfh places"
    )
    assert ours.annotation(held_by_owner) == "", "it is its owner's"
    for arguments in (
        ("release", name),
        ("release", array),
        ("update", f"JobId={name}", "Priority=9"),
    ):
        assert not ours.as_user("games", "scontrol", *arguments)
        assert not ours.as_user("mail", "scontrol", *arguments)
        assert {ours.jobs()[one]["state_reason"] for one in (name, *tasks)} == {"JobHeldAdmin"}
    # Slurm lets this end the hold; we take it back.
    assert ours.as_user("games", "scontrol", "update", f"JobId={name}", "Nice=1")
    assert not held(ours, name)
    assert list(ours.round().recalled) == [name]
    assert held(ours, name)
    assert ours.as_user("mail", "scontrol", "release", held_by_owner)
    ours.rounds(2)
    assert ours.annotation(held_by_owner) == "drfh"
    run("scontrol", "update", ALL_NODES, "State=RESUME")
    ours.run_all(first, name, *tasks, spread, held_by_owner, depends)
    assert ours.node(spread) in ALL
    assert ours.states(several) == ["PENDING"]
    assert ours.annotation(first) == "", "it ran before; nobody has touched it"
    assert not release_all(ours.slurm, ours.config)[1]
    quiet_bare.wait(lambda: ours.running(several), 20, "Slurm's own scheduler")


@pytest.mark.slow
def test_an_owners_hold_without_the_script(quiet_bare: Sandbox) -> None:
    """One that was released, did not start, and is held by its owner: not past the queue later."""
    ours = Driver(quiet_bare, hold_by="controller")
    quiet_bare.run("scontrol", "update", ALL_NODES, "State=DRAIN", "Reason=test")
    name, unmanaged = (quiet_bare.submit("sleep 60", user="games") for _ in range(2))
    ours.rounds(1)
    for one in (name, unmanaged):
        annotation = "AdminComment=drfh;pin=n4;restarts=0"
        quiet_bare.run("scontrol", "update", f"JobId={one}", "ReqNodeList=n4", annotation)
        quiet_bare.run("scontrol", "release", one)
        assert ours.as_user("games", "scontrol", "hold", one)
    ours.rounds(2)
    assert str(ours.task(name).blocked) == "held by its owner"
    assert ours.as_user("games", "scontrol", "release", name)
    assert list(ours.round().recalled) == [name]
    assert ours.task(name).blocked is None
    assert not release_all(ours.slurm, ours.config)[1]
    quiet_bare.run("scontrol", "update", ALL_NODES, "State=RESUME")
    quiet_bare.wait(lambda: ours.running(name), 20, "Slurm's own scheduler")
    assert ours.jobs()[unmanaged]["state_reason"] == "JobHeldUser"


@pytest.mark.slow
def test_requeued_and_deferred_without_the_script(quiet_bare: Sandbox, tmp_path: Path) -> None:
    faults = Faults(tmp_path / "bin", quiet_bare)
    ours = Driver(quiet_bare, hold_by="controller", slurm=Slurm(faults.environment))
    first = quiet_bare.submit("sleep 60", "--nodelist=n0", user="games", cpus=4)
    depends = quiet_bare.submit("sleep 60", f"--dependency=afterany:{first}", user="games")
    quiet_bare.wait(lambda: ours.running(first), 20, "Slurm's own scheduler")
    ours.round()  # holds what depends
    faults.plan("scontrol", "", ACCIDENTS["fails"])  # it is deferred, and not released
    ours.round()
    assert held(ours, depends)
    ours.rounds(1)
    assert not held(ours, depends)
    other = quiet_bare.submit("sleep 60", "--nodelist=n0", user="mail", cpus=4)
    ours.rounds(1)
    assert ours.as_user("games", "scontrol", "requeue", first)
    ours.run_all(other)
    assert ours.states(first, depends) == ["PENDING"] * 2
    assert ours.jobs()[first]["state_reason"] == "JobHeldAdmin"
    quiet_bare.run("scancel", other, first)
    ours.run_all(depends)


def test_naming_another_partition_is_no_way_past_the_queue(
    ours: Driver, quiet_bare: Sandbox
) -> None:
    both = f"--partition={MANAGED},{UNMANAGED}"
    with pytest.raises(DrfhError, match="name partitions of one kind"):
        ours.sandbox.submit("sleep 60", both, user="games")
    bare = Driver(quiet_bare, hold_by="controller")
    quiet_bare.run("scontrol", "update", ALL_NODES, "State=DRAIN", "Reason=test")
    name = quiet_bare.submit("sleep 60", both, user="games")
    bare.rounds(1)
    assert held(bare, name)
    quiet_bare.run("scontrol", "update", ALL_NODES, "State=RESUME")
    bare.run_all(name)
    assert "pin=" in bare.annotation(name)


def test_strange_names_hide_nothing(quiet_slurm: Sandbox) -> None:
    ours = Driver(quiet_slurm, user_by="account")
    strange = [" ", "a/b c", "\t", "\N{SNOWMAN}", "drfh;pin=n0"]
    names = [quiet_slurm.submit("sleep 60", user="games", account=one) for one in strange]
    ours.run_all(*names)
    assert not ours.round().state.broken


def test_nodes_that_are_reserved_for_others(ours: Driver) -> None:
    run, submit = ours.sandbox.run, ours.sandbox.submit
    who = ("Duration=60", "Users=root")
    run("scontrol", "create", "reservation", "StartTime=now", *who, "Nodes=n[12-14]")
    run("scontrol", "create", "reservation", "StartTime=now+2hours", *who, "Nodes=n[0-2]")
    now = [submit("sleep 60", "--gres=accel:2", user="games") for _ in range(2)]
    long = submit("sleep 60", "--exclude=n[4-15]", user="mail", memory=9000)
    short = [submit("sleep 60", "--exclude=n[3-15]", "--time=5", user="news") for _ in range(2)]
    ours.run_all(long, *short)
    ours.until(lambda: "RUNNING" in ours.states(*now), "one of two")
    assert ours.node(long) == "n3"
    assert {ours.node(name) for name in now} == {"n15", ""}
    assert {ours.node(name) for name in short} <= {"n0", "n1", "n2"}
