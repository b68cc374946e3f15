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
        "Solution",
        "SolverError",
        "UnknownNameError",
        "User",
        "Workload",
        "__version__",
        "allocate",
        "audit",
        "compare",
        "load_scenario",
        "save_scenario",
        "simulate",
        "traces",
        "warm",
    ]
    for name in drfh.__all__:
        assert getattr(drfh, name) is not None
        assert name in dir(drfh)


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


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert drfh.__version__ == version("drfh")
