"""The public surface is what the design says, and importing it does no work."""

import subprocess
import sys

import pytest

import drfh


def test_exported_names() -> None:
    assert drfh.__all__ == [
        "MECHANISMS",
        "PROPERTIES",
        "AddServers",
        "Allocation",
        "Certificate",
        "Cluster",
        "Comparison",
        "DrfhError",
        "InputError",
        "Job",
        "Kind",
        "Placement",
        "Pools",
        "Problem",
        "RemoveServers",
        "Report",
        "ResizeServer",
        "Result",
        "Scenario",
        "Scheduler",
        "Server",
        "ServerView",
        "Solution",
        "SolverError",
        "TaskView",
        "UnknownNameError",
        "User",
        "UserView",
        "Workload",
        "__version__",
        "allocate",
        "audit",
        "compare",
        "generators",
        "load_scenario",
        "policies",
        "save_scenario",
        "simulate",
        "testing",
        "traces",
        "warm",
    ]
    for name in drfh.__all__:
        assert getattr(drfh, name) is not None


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    import drfh.model.cluster  # a package that is loaded is not public for that

    assert dir(drfh) == sorted(drfh.__all__)


@pytest.mark.parametrize("name", ["generators", "policies", "testing", "traces"])
def test_public_packages_are_there_after_one_import(name: str) -> None:
    assert f"drfh.{name}" not in loaded_after("import drfh")
    assert f"drfh.{name}" in loaded_after(f"import drfh; drfh.{name}.__all__")


def test_views_of_policies_are_public() -> None:
    def longest_queue(user: drfh.UserView) -> float:
        return -user.queued

    assert drfh.policies.Policy(turn=longest_queue).name == "longest_queue+best-fit"
    assert drfh.policies.UserView is drfh.UserView


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        drfh.nothing  # noqa: B018


def loaded_after(code: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(shown.stdout.split())


def test_import_does_no_work() -> None:
    assert not {"numpy", "numba", "polars", "altair", "highspy"} & loaded_after("import drfh")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "from drfh.cli import main; import io, contextlib\n"
        "with contextlib.redirect_stdout(io.StringIO()): main(['--help'])"
    )
    assert not {"numpy", "numba", "polars", "altair", "highspy"} & loaded_after(code)


def test_small_allocation_needs_no_numba() -> None:
    code = (
        "import drfh; s = drfh.load_scenario('paper-two-servers'); "
        "drfh.allocate(s.cluster, s.users).explain('ann')"
    )
    loaded = loaded_after(code)
    assert "numpy" in loaded
    assert not {"numba", "altair", "highspy"} & loaded


def test_small_scheduler_needs_no_numba() -> None:
    code = (
        "import drfh; s = drfh.Scheduler(drfh.Cluster([drfh.Server({'cpu': 1})])); "
        "s.add_user('ann'); s.submit('t', 'ann', {'cpu': 1}); s.place(); s.why('t')"
    )
    assert not {"numba", "altair", "highspy", "polars"} & loaded_after(code)


def test_every_verb_takes_a_scenario() -> None:
    scenario = drfh.load_scenario("gpu-day")
    weighted = drfh.load_scenario("paper-two-servers-weighted")
    parts = drfh.allocate(weighted.cluster, weighted.users)
    assert drfh.allocate(weighted).tasks == parts.tasks
    assert drfh.compare(weighted, mechanisms=["drfh"])["drfh"].allocation is not None
    assert drfh.audit(weighted, properties=["fair"])["fair"].verdict == "holds"
    separately = drfh.simulate(scenario.cluster, scenario.workload, "fifo")
    assert drfh.simulate(scenario, policy="fifo").jobs.equals(separately.jobs)


def test_a_scenario_brings_its_mechanism_and_parameters() -> None:
    whole = drfh.load_scenario("claim-h-whole-tasks")
    assert drfh.allocate(whole).whole
    assert drfh.allocate(whole, mechanism="drf").mechanism == "drf"


def test_a_scenario_has_its_own_users_and_workload() -> None:
    scenario = drfh.load_scenario("gpu-day")
    with pytest.raises(drfh.InputError, match="users must be left out"):
        drfh.allocate(scenario, scenario.users)
    with pytest.raises(drfh.InputError, match="workload must be left out"):
        drfh.simulate(scenario, scenario.workload)
    with pytest.raises(drfh.InputError, match="users must be a list of"):
        drfh.allocate(scenario.cluster)
    with pytest.raises(drfh.InputError, match="workload must be given with a cluster"):
        drfh.simulate(scenario.cluster)


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert drfh.__version__ == version("drfh")
