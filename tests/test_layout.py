"""How the source is laid out: imports point left, modules and packages are not too large."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import drfh

ROOT = Path(drfh.__file__).parent

# Left to right. Modules in one tuple may import each other.
ORDER: list[tuple[str, ...]] = [
    ("formatting",),
    ("errors",),
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
    ("precompile",),
    ("report",),
    ("web",),
    ("cli", "__main__"),
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}

# Methods of records that hand over to the report on their right, when they are called.
LATE = {(package, "report") for package in ("model", "allocation", "auditor", "simulation")}
LATE_METHODS = {"plot", "to_latex", "_repr_html_"}

MOST_LINES = 800  # of a module
MOST_MODULES = 18  # of a package, without its __init__.py
REGISTRIES = {"mechanisms", "cli"}  # one file an entry, so they grow with the entries

NUMBA_PACKAGES = {"kernels", "mechanisms", "scheduler", "simulation", "traces"}


def package(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


@cache
def imports(path: Path) -> list[tuple[str, str]]:
    """Return (module, the function that it is in, if any) for every import that runs."""
    found: list[tuple[str, str]] = []

    def visit(node: ast.AST, function: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found.extend((alias.name, function) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: write imports in full"
                base = child.module or ""
                if base == "drfh":
                    found.extend((f"drfh.{alias.name}", function) for alias in child.names)
                else:
                    found.append((base, function))
            inside = child.name if isinstance(child, ast.FunctionDef) else ""
            visit(child, function or inside)

    visit(ast.parse(path.read_text()), "")
    return found


def sources() -> list[Path]:
    return [p for p in sorted(ROOT.rglob("*.py")) if p != ROOT / "__init__.py"]


def test_every_package_has_a_place() -> None:
    assert {package(path) for path in sources()} <= set(RANK)


def test_imports_point_left() -> None:
    wrong = []
    for path in sources():
        here = package(path)
        for module, function in imports(path):
            if not module.startswith("drfh."):
                continue
            there = module.split(".")[1]
            if there not in RANK:  # a public name such as drfh.__version__
                continue
            late = (here, there) in LATE and function in LATE_METHODS
            if RANK[there] > RANK[here] and not late:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_kernels_are_private_to_solvers_and_alone_know_numba() -> None:
    for path in sources():
        for module, _ in imports(path):
            if module.split(".")[0] == "numba":
                assert package(path) in {"kernels", "precompile"}, path
            if module.startswith("drfh.kernels"):
                assert package(path) in NUMBA_PACKAGES, path


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


# Ways to take a text apart, to change it, or to look something up by it.
TEXT_METHODS = {
    "casefold", "count", "endswith", "find", "index", "lower", "lstrip", "partition",
    "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip",
    "split", "splitlines", "startswith", "upper",
}  # fmt: skip
PATTERN_METHODS = {"findall", "finditer", "fullmatch", "match", "search", "split", "sub"}
LOOKUPS = {"get", "pop", "setdefault"}
# How the text of an error, a warning or an explanation is got.
MESSAGES = {"content", "message", "outcome", "reason", "rule", "story", "text", "verdict"}
CODES = {"reason", "verdict"}  # some are, and may be compared
EXPLAINERS = {"explain"}
# What an error is called where it is caught, and what then is its text.
ERRORS = {"err", "error", "exc", "exception", "failure", "problem"}
TEXTS_OF_ERRORS = {"args", "field"}
# What the system or a library says, kept short: nothing is decided by it.
SHORTENED = {"split", "splitlines"}


def depends_on_text(tree: ast.AST) -> list[str]:
    """Return the expressions that take a repr or a message apart, compare it or look it up."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            of_repr = isinstance(node.value, ast.Call) and _name(node.value.func) == "repr"
            wrong = of_repr or _is_message(node.value) or _is_key(node.slice)
        elif isinstance(node, ast.Compare):
            wrong = _is_compared(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            wrong = _is_taken_apart(node.func.value, node.func.attr, node.args)
        else:
            wrong = False
        if wrong:
            found.append(ast.unparse(node))
    return found


def _is_compared(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        if isinstance(op, ast.In | ast.NotIn) and (_is_key(left) or _is_message(right)):
            return True
        if isinstance(op, ast.Eq | ast.NotEq) and (_is_key(left) or _is_key(right)):
            return True
    return False


def _is_taken_apart(value: ast.expr, method: str, arguments: list[ast.expr]) -> bool:
    if method in TEXT_METHODS and _is_message(value, method):
        return True
    if method in LOOKUPS:
        return any(map(_is_key, arguments[:1]))
    # Of the module re, or of a compiled pattern, which is a constant.
    pattern = _name(value) == "re" or _name(value).isupper()
    return pattern and method in PATTERN_METHODS and any(map(_is_message, arguments))


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _is_key(node: ast.AST) -> bool:
    """Return whether a text decides: not a code, nor a number that is shown alike."""
    shown = isinstance(node, ast.Call) and _name(node.func).startswith("format_")
    return _name(node) not in CODES and not shown and _is_message(node)


def _is_message(node: ast.AST, method: str = "") -> bool:
    if isinstance(node, ast.Attribute):
        if node.attr in TEXTS_OF_ERRORS:
            return _name(node.value) in ERRORS
        return node.attr in MESSAGES
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in TEXT_METHODS:
            return _is_message(node.func.value, node.func.attr)
        if _name(node.func) in EXPLAINERS or _name(node.func).startswith("format_"):
            return True
        of_error = any(_name(a) in ERRORS for a in node.args)
        return _name(node.func) in {"str", "repr"} and of_error and method not in SHORTENED
    return False


def test_nothing_depends_on_the_text_of_a_message() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {expression}"
        for path in sources()
        if path != ROOT / "errors.py"  # it makes the text, and its field is a path
        for expression in depends_on_text(ast.parse(path.read_text()))
    ]
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "repr(cluster)[8:-1]",
        "error.rule.replace('force', '--force')",
        "error.rule[4:]",
        "str(error).partition(', got ')[0]",
        "str(exception) == 'no such file'",
        "allocation.explain('ann').rstrip('.').partition(': ')",
        "'used up' in str(error)",
        "issue.message.removeprefix('warning: ')",
        "'left out' in finding.reason",
        "format_percent(part).removesuffix(' %')",
        "error.field == 'trace'",
        "error.field in ('path', 'servers')",
        "'servers' in error.field",
        "error.field.startswith('servers')",
        "error.field.partition('.')[0]",
        "error.field[:7]",
        "finding.text != example.story",
        "sign.content.split()[0]",
        "counts[explanation.text]",
        "lines.setdefault(found.outcome, [])",
        "re.match(r'Fig. (\\d+)', claim.text)",
        "_FIGURE.fullmatch(claim.text)",
    ],
)
def test_dependence_on_text_is_found(line: str) -> None:
    assert depends_on_text(ast.parse(line))


@pytest.mark.parametrize(
    "line",
    [
        "name.partition('@')[0]",
        "' '.join(str(error).split())",
        "f'{error.rule} now'",
        "error.item == column",
        "column.field == 'name'",
        "finding.verdict == 'fails'",
        "MARKS[finding.verdict]",
        "error.text if error.text else str(error)",
    ],
)
def test_text_may_be_shown_and_codes_compared(line: str) -> None:
    assert not depends_on_text(ast.parse(line))


def test_percentages_are_formatted_in_one_place() -> None:
    # A percent sign after a number with digits; style sheets have no blank before it.
    pattern = re.compile(r"\{[^{}]*:[^{}]*[efg]\} (?:%|points)")
    found = [
        str(path.relative_to(ROOT))
        for path in sources()
        if path.name != "formatting.py" and pattern.search(path.read_text())
    ]
    assert not found


def test_modules_have_at_most_800_lines() -> None:
    sizes = {path: len(path.read_text().splitlines()) for path in ROOT.rglob("*.py")}
    assert {str(path): size for path, size in sizes.items() if size > MOST_LINES} == {}


def test_packages_have_at_most_18_modules() -> None:
    modules: dict[str, int] = defaultdict(int)
    for path in ROOT.rglob("*.py"):
        if path.name != "__init__.py":
            modules[str(path.parent.relative_to(ROOT))] += 1
    assert modules.keys() >= REGISTRIES
    large = {name for name, count in modules.items() if count > MOST_MODULES}
    assert large <= REGISTRIES


def test_class_names_are_unique() -> None:
    places = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
