"""Imports point one way: a room may import only rooms to its left."""

import ast
from functools import cache
from pathlib import Path

import drfh

ROOT = Path(drfh.__file__).parent

# Left to right. Modules in one tuple may import each other.
ORDER: list[tuple[str, ...]] = [
    ("errors",),
    ("formatting",),
    ("model",),
    ("files",),
    ("kernels",),
    ("wire",),
    ("traces",),
    ("generators",),
    ("allocation",),
    ("policies",),
    ("scheduler",),
    ("mechanisms",),
    ("auditor",),
    ("simulation",),
    ("testing",),
    ("experiments",),
    ("engines",),
    ("warm",),
    ("report",),
    ("web",),
    ("cli", "__main__"),
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}

# A method of a record that hands over to a room on the right, when it is called and not before.
LATE = {("allocation", "report")}

NUMBA_ROOMS = {"kernels", "mechanisms", "scheduler", "simulation", "traces"}


def room(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


@cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """Return (module, whether inside a function) for every import that runs."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, late: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found.extend((alias.name, late) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: write imports in full"
                base = child.module or ""
                if base == "drfh":
                    found.extend((f"drfh.{alias.name}", late) for alias in child.names)
                else:
                    found.append((base, late))
            visit(child, late or isinstance(child, ast.FunctionDef | ast.Lambda))

    visit(ast.parse(path.read_text()), late=False)
    return found


def sources() -> list[Path]:
    return [p for p in sorted(ROOT.rglob("*.py")) if p != ROOT / "__init__.py"]


def test_every_room_has_a_place() -> None:
    assert {room(path) for path in sources()} <= set(RANK)


def test_imports_point_left() -> None:
    wrong = []
    for path in sources():
        here = room(path)
        for module, late in imports(path):
            if not module.startswith("drfh."):
                continue
            there = module.split(".")[1]
            if there not in RANK:  # a public name such as drfh.__version__
                continue
            if RANK[there] > RANK[here] and not (late and (here, there) in LATE):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_kernels_are_private_to_solvers_and_alone_know_numba() -> None:
    for path in sources():
        for module, _ in imports(path):
            if module.split(".")[0] == "numba":
                assert room(path) in {"kernels", "warm"}, path
            if module.startswith("drfh.kernels"):
                assert room(path) in NUMBA_ROOMS, path


def test_modules_stay_short() -> None:
    for path in sources():
        assert len(path.read_text().splitlines()) <= 800, path


def test_only_the_slurm_verbs_name_the_slurm_engine() -> None:
    """The live view and the verbs on live clusters work on any engine: see engines/engine.py."""
    slurm = "drfh.engines.slurm"
    wrong = []
    for path in sources():
        relative = path.relative_to(ROOT)
        if relative.parts[0] not in ("web", "cli") or relative.parts[:2] == ("cli", "slurm"):
            continue
        text = path.read_text()
        names = {module for module, _ in imports(path)}
        if slurm in text or any(name.startswith(slurm) for name in names):
            wrong.append(str(relative))
    assert not wrong


def test_engines_in_common_name_no_engine() -> None:
    for path in (ROOT / "engines").rglob("*.py"):
        inside = path.relative_to(ROOT / "engines").parts
        if len(inside) == 1 or inside[0] == "journal":
            names = [module for module, _ in imports(path)]
            assert not [n for n in names if n.startswith("drfh.engines.slurm")], path
