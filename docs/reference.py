"""Write the reference of mechanisms and the table of properties: ``make reference``.

A page for each mechanism comes from its docstring. The table of mechanisms × properties comes from
the auditor: every mechanism is audited on the same small cases, shipped ones and seeded random
ones. Nothing on these pages is written by hand, and ``tests/test_reference.py`` writes them again.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import drfh
from drfh.auditor import Finding
from drfh.files.output_schema import OUTPUTS, RECORDS, Fields
from drfh.mechanisms.gavel import gavel
from drfh.mechanisms.hug import hug
from drfh.mechanisms.quincy import quincy
from drfh.mechanisms.shared.card import Card, card_of
from drfh.testing import SYMMETRIES, random_scenario

DOCS = Path(__file__).parent

FAMILIES = {
    "max-min:RESOURCE": "max-min:cpu",
    "norm:P": "norm:2",
    "pooled:MECHANISM": "pooled:asset-fairness",
}
WHOLE = "whole-tasks"
PLAIN: tuple[Callable[..., Any], ...] = (hug, gavel, quincy)

SHIPPED = (
    "paper-two-servers",
    "nsdi11-single-server",
    "claim-a-zero-demands",
    "claim-b-user-leaves",
    "claim-c-skewed-servers",
    "claim-d-low-utilisation",
    "claim-f-common-bottleneck",
    "claim-g-finite-tasks",
    "claim-h-whole-tasks",
    "claim-i-leaves-with-bundle",
    "paper-two-servers-finite",
    "paper-two-servers-weighted",
    "three-resources",
    "tree-of-users",
)
RANDOM = 14
ONE_RESOURCE = 4
TRIES = 60
NOISE = 1e-4  # a smaller loss is not counted as a failure

#: The columns of the tables; price-of-fairness is a number without a line between good and bad.
TABLES = {
    "Is one allocation good?": (
        "pareto", "envy-free", "envy-free-literal", "envy-free-1", "sharing-incentive",
        "dedicated-cloud",
    ),
    "Against a yardstick": (
        "fair", "promise-kept", "bottleneck-fair", "bottleneck-share", "bbf", "single-server",
        "single-resource",
    ),
    "What a mechanism would do": (
        "truthful", "group-truthful", "split-proof", "population-monotone", "resource-monotone",
        "consistent",
    ),
}  # fmt: skip

ALWAYS = ("feasible", "non-wasteful")

_SECTION = re.compile(r"^(\w+)\n-+$", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")


# Pages from docstrings


def file_name(name: str) -> str:
    """Return the file of a mechanism; a family is called by what stands before the colon.

    Parameters
    ----------
    name
        As in the registry.
    """
    return f"{name.partition(':')[0]}.md"


def sections(function: Callable[..., Any]) -> dict[str, str]:
    """Return the underlined sections of a docstring by name.

    Parameters
    ----------
    function
        What has the docstring.
    """
    text = inspect.getdoc(function) or ""
    found = list(_SECTION.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {
        match[1]: text[match.end() : end].strip("\n")
        for match, end in zip(found, ends, strict=True)
    }


def parameter_lines(text: str) -> list[str]:
    """Return parameters as table rows, the problem left out.

    Parameters
    ----------
    text
        The section of a docstring.
    """
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            rows.append([line, ""])
        elif rows:
            rows[-1][1] += f" {line.strip()}"
    return [f"| `{name}` | {marked(words.strip())} |" for name, words in rows if name != "problem"]


def marked(text: str) -> str:
    """Return docstring text as Markdown.

    Parameters
    ----------
    text
        With roles and double backticks.
    """
    text = _ROLE.sub(r"`\1`", text).replace("``", "`")
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


def outside_code(text: str) -> str:
    """Return text with underscores kept inside code spans.

    Parameters
    ----------
    text
        Markdown.
    """
    return re.sub(r"`[^`]*`", lambda m: m[0].replace("\\_", "_").replace("\\|", "|"), text)


def card_rows(card: Card, names: Iterable[str]) -> list[str]:
    """Return the claims of a card as table rows.

    Parameters
    ----------
    card
        Of a mechanism.
    names
        In the order of the rows.
    """
    rows = []
    for name in names:
        if (claim := card.claims.get(name)) is None:
            continue
        holds = "✔ proven" if claim.holds else "✘ fails"
        link = f"[{name}](../properties.md#{name})" if name in drfh.PROPERTIES else name
        rows.append(f"| {link} | {holds} | {', '.join(claim.assumes)} | {marked(claim.source)} |")
    return rows


def mechanism_page(name: str) -> str:
    """Return the page of a mechanism.

    Parameters
    ----------
    name
        As in the registry.
    """
    function = drfh.MECHANISMS[name]
    card, parts = card_of(function), sections(function)
    lines = [
        f"# {name}", "", marked(card.summary), "",
        "## Definition", "", marked(card.definition), "",
        "## Paper", "", marked(card.paper), "",
    ]  # fmt: skip
    rows = card_rows(card, [*drfh.PROPERTIES, *SYMMETRIES])
    says = "What is proven or refuted, and where." if rows else "Nothing is claimed about it."
    lines += [
        "## Properties", "",
        f"{says} What the auditor found by itself is in the",
        f"[table of properties](../properties.md#which-mechanism-has-which) and among the "
        f"[counterexamples](found.md#{anchor(FAMILIES.get(name, name))}).", "",
    ]  # fmt: skip
    if rows:
        lines += ["| property | | if | source |", "|---|---|---|---|", *rows, ""]
    if rows := parameter_lines(parts.get("Parameters", "")):
        lines += ["## Parameters", "", "| parameter | |", "|---|---|", *rows, ""]
    lines += ["## Example", "", "```python", parts["Examples"].strip(), "```", ""]
    return outside_code("\n".join(lines))


def plain_section(function: Callable[..., Any]) -> list[str]:
    """Return the section of a plain function.

    Parameters
    ----------
    function
        Not a mechanism: it has a model of its own.
    """
    name, card, parts = function.__name__, card_of(function), sections(function)
    home = f"from {function.__module__} import {name}"
    return [
        f"### {name}", "", marked(card.summary), "", marked(card.definition), "",
        f"*{marked(card.paper)}*", "",
        "| parameter | |", "|---|---|", *parameter_lines(parts["Parameters"]), "",
        "```python", f">>> {home}", parts["Examples"].strip(), "```", "",
    ]  # fmt: skip


def index_page() -> str:
    """Return the list of all mechanisms."""
    rows = [
        f"| [`{name}`]({file_name(name)}) | {marked(card_of(function).summary)} |"
        for name, function in sorted(drfh.MECHANISMS.items())
    ]
    lines = [
        "# Mechanisms", "",
        f"The {len(rows)} entries of `drfh.MECHANISMS`. A name with a colon is a family: "
        "`max-min:memory`, `norm:2`, `pooled:tsf`.", "",
        "| mechanism | |", "|---|---|", *rows, "",
        "`drfh allocate FILE --mechanism NAME` runs one, `drfh compare FILE` runs them side by "
        "side ([guide](../compare.md)),",
        "and `drfh audit FILE --mechanism NAME` looks for what is unfair about it "
        "([guide](../audit.md)). Which property",
        "each of them has: [Properties](../properties.md). Your own: "
        "[Python](../python.md#your-own-mechanism).", "",
        "These pages are written by `make reference` from the docstrings.", "",
        "## Plain functions", "",
        "Three rules have models of their own, and no cluster of servers and users. "
        "They are functions of plain numbers.", "",
    ]  # fmt: skip
    for function in PLAIN:
        lines += plain_section(function)
    return outside_code("\n".join(lines))


# The table of properties


@dataclass
class Surveyed:
    """What the auditor found about one mechanism.

    Attributes
    ----------
    name : str
        The mechanism, families filled in.
    cases : int
        Cases to which it has an answer.
    counted : dict
        Property → cases in which it was measured and did not fail.
    failed : dict
        Property → the case in which it failed first, and by how much.
    """

    name: str
    cases: int = 0
    counted: dict[str, int] = field(default_factory=dict)
    failed: dict[str, tuple[str, float]] = field(default_factory=dict)

    @property
    def card(self) -> Card:
        """What is proven about it."""
        if self.name == WHOLE:
            return Card("", "", "", {})
        registered = {value: key for key, value in FAMILIES.items()}.get(self.name, self.name)
        return card_of(drfh.MECHANISMS[registered])

    def mark(self, name: str) -> str:
        """Return the cell of a property."""
        claim = self.card.claims.get(name)
        proven = claim is not None and claim.holds
        if name in self.failed:
            case, amount = self.failed[name]
            words = f"{case}, by {percent(amount)}"
            if claim is not None and proven:
                words += f"; proven if {', '.join(claim.assumes)}"
            mark = "✘ (✔)" if proven else "✘"
            return f'[{mark}](mechanisms/found.md#{anchor(self.name)} "{words}")'
        if claim is not None and proven:
            return "(✔)" if claim.assumes else "✔"
        if claim is not None:
            return "(✘)"
        return "?" if self.counted.get(name) else "–"


class Contradiction(Exception):  # noqa: N818
    """The auditor refuted what a card claims to be proven."""


def cases() -> Iterator[tuple[str, drfh.Scenario]]:
    """Yield the cases, each with its name."""
    for name in SHIPPED:
        yield name, drfh.load_scenario(name)
    for seed in range(RANDOM):
        yield f"random {seed}", random_scenario(np.random.default_rng(seed))
    for seed in range(ONE_RESOURCE):
        rng = np.random.default_rng(seed)
        yield f"one-resource {seed}", random_scenario(rng, ["one resource"])


def surveyed_mechanisms() -> list[str]:
    """Return the rows of the table."""
    return [*(FAMILIES.get(name, name) for name in sorted(drfh.MECHANISMS)), WHOLE]


def survey(name: str) -> Surveyed:
    """Audit one mechanism on all cases; a property that failed is not asked again.

    Parameters
    ----------
    name
        The mechanism.
    """
    result = Surveyed(name)
    wanted = [*ALWAYS, *(p for columns in TABLES.values() for p in columns)]
    for case, scenario in cases():
        still = [p for p in wanted if p not in result.failed]
        own = dict(scenario.parameters) if name == scenario.mechanism else {}
        own.pop("whole_tasks", None)
        try:
            report = drfh.audit(
                scenario.cluster,
                scenario.users,
                mechanism="drfh" if name == WHOLE else name,
                whole_tasks=name == WHOLE,
                properties=still,
                tries=TRIES,
                **own,
            )
        except drfh.InputError:
            continue  # not defined here
        result.cases += 1
        for finding in report:
            _count(result, case, finding)
    return result


def _count(result: Surveyed, case: str, finding: Finding) -> None:
    if finding.verdict == "fails" and finding.amount > NOISE:
        if finding.proof:
            raise Contradiction(f"{result.name}, {finding.name}, {case}: {finding.text}")
        result.failed[finding.name] = case, finding.amount
    elif finding.verdict != "not applicable":
        result.counted[finding.name] = result.counted.get(finding.name, 0) + 1


def percent(part: float) -> str:
    """Return a part as whole percent.

    Parameters
    ----------
    part
        From 0 to 1.
    """
    return f"{100 * part:.0f} %" if part >= 0.005 else "less than 1 %"


def anchor(name: str) -> str:
    """Return the anchor of a heading.

    Parameters
    ----------
    name
        The heading.
    """
    return name.replace(":", "")


def property_list() -> str:
    """Return what every property asks."""
    lines = []
    for name, item in drfh.PROPERTIES.items():
        text = " ".join((inspect.getdoc(item.check) or "").split())
        about = "a mechanism" if item.of_mechanism else "an allocation"
        lines += [f"### {name}", "", f"*About {about}: {item.title}.*", "", marked(text), ""]
    return outside_code("\n".join(lines))


def property_tables(rows: list[Surveyed]) -> str:
    """Return the tables of mechanisms × properties.

    Parameters
    ----------
    rows
        What the auditor found.
    """
    for name in ALWAYS:
        if broken := [row.name for row in rows if name in row.failed]:
            raise Contradiction(f"{name} fails: {', '.join(broken)}")
    lines = [f"`{'` and `'.join(ALWAYS)}` held for every mechanism in every case.", ""]
    for title, columns in TABLES.items():
        heads = " | ".join(f"[{c}](#{c})" for c in columns)
        lines += [f"### {title}", "", f"| mechanism | cases | {heads} |"]
        lines.append("|---|---|" + "---|" * len(columns))
        for row in rows:
            marks = " | ".join(row.mark(column) for column in columns)
            lines.append(f"| {linked(row.name)} | {row.cases} | {marks} |")
        lines.append("")
    return "\n".join(lines)


def linked(name: str) -> str:
    """Return a link to the page of a mechanism.

    Parameters
    ----------
    name
        The mechanism, families filled in.
    """
    page = "concepts.md#divisible-and-whole-tasks" if name == WHOLE else None
    return f"[{name}]({page or f'mechanisms/{file_name(name)}'})"


def found_page(rows: list[Surveyed]) -> str:
    """Return the page of counterexamples.

    Parameters
    ----------
    rows
        What the auditor found.
    """
    lines = [
        "# Counterexamples", "",
        "Where the auditor found that a mechanism lacks a property: the first such case among "
        "the shipped scenarios and",
        f"{RANDOM + ONE_RESOURCE} random problems, and what the one hurt most misses there. "
        f"It tried about {TRIES} lies in each case.",
        "Marks and how to read them: [Properties](../properties.md).", "",
        "To see one, run it again:", "",
        "```console",
        "$ drfh audit claim-c-skewed-servers --mechanism drfh --show sharing-incentive",
        "✘ sharing-incentive: fails",
        "a has 1.818 tasks and would have 3.5 with its part of every server",
        "...",
        "```", "",
        "`random 7` and `one-resource 3` are the problems that this makes; audit the files:", "",
        "```python",
        "import drfh", "import numpy as np", "from drfh.testing import random_scenario", "",
        'drfh.save_scenario(random_scenario(np.random.default_rng(7)), "random-7.yaml")',
        'one = random_scenario(np.random.default_rng(3), ["one resource"])',
        'drfh.save_scenario(one, "one-resource-3.yaml")',
        "```", "",
    ]  # fmt: skip
    for row in rows:
        lines += [f"## {row.name}", ""]
        if not row.failed:
            lines += [f"None found in {row.cases} cases.", ""]
            continue
        lines += ["| property | case | by | proven |", "|---|---|---|---|"]
        for name in drfh.PROPERTIES:
            if name in row.failed:
                case, amount = row.failed[name]
                claim = row.card.claims.get(name)
                proven = f"if {', '.join(claim.assumes)}" if claim and claim.holds else ""
                lines.append(f"| {name} | {case} | {percent(amount)} | {proven} |")
        lines.append("")
    return "\n".join(lines)


def filled(page: str, name: str, text: str) -> str:
    """Return a page with the part between two comments replaced.

    Parameters
    ----------
    page
        Markdown with ``<!-- NAME: written by make reference -->`` and ``<!-- end of NAME -->``.
    name
        Which part.
    text
        What to put there.
    """
    start, end = f"<!-- {name}: written by make reference -->", f"<!-- end of {name} -->"
    before, _, rest = page.partition(start)
    after = rest.partition(end)[2]
    if not after:
        raise ValueError(f"the page has no part {name}")
    return f"{before}{start}\n\n{text.strip()}\n\n{end}{after}"


def output_tables() -> str:
    """Return tables of the fields of every JSON output, and of the records in them."""
    lines = ["## Commands", ""]
    for name, output in OUTPUTS.items():
        lines += [f"### {name}", "", f"`{output.command} --json`: {output.about}.", ""]
        for number, fields in enumerate((output.fields, *output.instead)):
            lines += [*(["or", ""] if number else []), *_field_table(fields), ""]
    lines += ["## Records", ""]
    for name, fields in RECORDS.items():
        lines += [f"### Record {name}", "", *_field_table(fields), ""]
    return "\n".join(lines)


def _field_table(fields: Fields) -> list[str]:
    rows = ["| field | type | |", "|---|---|---|"]
    for name, (schema, about, *optional) in fields.items():
        note = f"{about}; may be left out" if optional else about
        rows.append(f"| {f'`{name}`' if name else 'any other'} | {_type_of(schema)} | {note} |")
    return rows


def _type_of(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return f"{_type_of(schema['anyOf'][0])} or null"
    if "$ref" in schema:
        record = schema["$ref"].rpartition("/")[2]
        return f"[{record}](#record-{record})"
    if "enum" in schema:
        return "text"
    kind: Any = schema.get("type", "any")
    if isinstance(kind, list):
        return f"{_type_of({**schema, 'type': kind[0]})} or null"
    if kind == "array":
        return f"list of {_type_of(schema['items'])}"
    if kind == "object":
        return f"by name: {_type_of(schema['additionalProperties'])}"
    names = {"string": "text", "integer": "whole", "boolean": "true or false"}
    return names.get(kind, str(kind))


def pages() -> dict[str, str]:
    """Return all pages that come from docstrings, by path."""
    result = {
        f"mechanisms/{file_name(name)}": mechanism_page(name) for name in sorted(drfh.MECHANISMS)
    }
    result["mechanisms/index.md"] = index_page()
    return result


def surveyed_pages(rows: list[Surveyed]) -> dict[str, str]:
    """Return the pages that show what the auditor found, by path.

    Parameters
    ----------
    rows
        What it found.
    """
    page = (DOCS / "properties.md").read_text(encoding="utf-8")
    page = filled(page, "properties", property_list())
    page = filled(page, "tables", property_tables(rows))
    return {"properties.md": page, "mechanisms/found.md": found_page(rows)}


def main() -> None:
    """Write all pages."""
    rows = []
    for name in surveyed_mechanisms():
        print(name, end=" ", flush=True, file=sys.stderr)
        rows.append(survey(name))
    print(file=sys.stderr)
    outputs = filled((DOCS / "json.md").read_text(encoding="utf-8"), "outputs", output_tables())
    written = {**pages(), **surveyed_pages(rows), "json.md": outputs}
    (DOCS / "mechanisms").mkdir(exist_ok=True)
    for path, text in written.items():
        (DOCS / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
