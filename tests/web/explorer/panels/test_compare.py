"""The panel "Compare": its table, and the page in a real browser."""

from __future__ import annotations

from typing import Any

import drfh
from drfh.formatting import format_number, format_percent
from drfh.mechanisms.shared.slots import slots_mechanism
from drfh.web.explorer.panels.compare import difference, side_by_side
from drfh.web.session.comparison import COMPARED, CompareRow
from tests.web.explorer.panels.scenarios import opened, rows_of
from tests.web.explorer.site import Site


def test_a_mechanism_without_an_answer_says_why_and_the_others_stay() -> None:
    fair = CompareRow("drfh", "fair", {"ann": 4.0}, {"ann": 0.5}, total=4.0)
    wrong = CompareRow("nash", "product", why_not="the solver <gave> up")
    markup, listed, everybody = side_by_side([fair, wrong])
    assert "✘ no answer" in markup
    assert "the solver &lt;gave&gt; up" in markup
    assert (listed, everybody) == (1, 1)
    alone, *_ = side_by_side([wrong])
    assert "✘ no answer" in alone


def test_differences_have_a_sign_a_kind_and_a_size() -> None:
    assert difference(0.0, 4.0) == ("▼ −4 (−100 %)", "less", 1.0)
    assert difference(40.0, 4.0)[1:] == ("more", 1.0)
    assert difference(4.0 + 1e-9, 4.0) == ("=", "same", 0.0)
    assert difference(0.0, 0.0) == ("=", "same", 0.0)


def test_the_users_that_differ_most_are_listed() -> None:
    users = [f"u{i}" for i in range(50)]
    fair = CompareRow("drfh", "", dict.fromkeys(users, 1.0), dict.fromkeys(users, 0.1))
    tasks = {user: 1.0 + (i == 33) * 4 for i, user in enumerate(users)}
    other = CompareRow("tsf", "", tasks, dict.fromkeys(users, 0.1))
    markup, listed, everybody = side_by_side([fair, other])
    assert (listed, everybody) == (20, 50)
    assert "u33" in markup
    assert "▲ +4 (+400 %)" in markup
    assert side_by_side([fair, other], find="u4")[1] == 11  # u4, u40 … u49


def test_mechanisms_side_by_side_are_right(browser: Any, site: Site) -> None:
    with opened(browser, site, "compare", "gpu-cluster") as page:
        page.page.wait_for_function(
            "n => document.querySelectorAll('[data-testid=compare-table] th').length == n",
            arg=len(COMPARED) + 1,
        )
        head, *lines = rows_of(page, "compare-table")
        assert head == ["tasks of", *COMPARED]
        scenario = drfh.load_scenario("gpu-cluster")
        fair = drfh.allocate(scenario.cluster, scenario.users).tasks
        cells = {line[0]: line[1:] for line in lines}
        for column, name in enumerate(COMPARED):
            mechanism: Any = slots_mechanism(name) if ":" in name else name
            answer = drfh.allocate(scenario.cluster, scenario.users, mechanism=mechanism)
            for user, tasks in answer.tasks.items():
                shown = cells[user][column]
                assert shown.split()[0] == format_number(tasks), (name, user)
                apart = tasks - fair[user]
                if name == "drfh":
                    assert shown == format_number(tasks)
                elif abs(apart) < 1e-6 * fair[user]:
                    assert shown.endswith("=")
                else:
                    sign = "▲ +" if apart > 0 else "▼ −"
                    part = format_percent(abs(apart) / fair[user], trim=True)
                    said = f"{sign}{format_number(abs(apart))} ({sign[-1]}{part})"
                    assert shown.endswith(said), (name, user)
                if answer.promised is not None:
                    assert f"of {format_number(answer.promised[user])} promised" in shown
            for resource, used in answer.utilisation.items():
                assert cells[f"{resource} in use"][column] == format_percent(used, trim=True)
        other = drfh.allocate(scenario.cluster, scenario.users, mechanism="tsf").tasks
        distance = 1 - min(other[user] / fair[user] for user in fair)
        assert (
            cells["below fair, at worst"][3].split("%")[0]
            == format_percent(distance, trim=True)[:-1]
        )
        page.part("compare-unit").get_by_text("Dominant shares").click()
        page.page.locator("[data-testid=compare-table] th", has_text="dominant share of").wait_for()
        shares = drfh.allocate(scenario.cluster, scenario.users).shares
        cells = {line[0]: line[1:] for line in rows_of(page, "compare-table")}
        for user, share in shares.items():
            assert cells[user][0] == format_percent(share, trim=True)


def test_a_mechanism_that_fails_says_why(browser: Any, site: Site) -> None:
    with opened(browser, site, "compare", "huge") as page:
        page.page.locator("[data-testid=compare-table] td.no-answer").wait_for()
        text = page.page.locator("[data-testid=compare-table] td.no-answer").inner_text()
        assert "✘ no answer" in text
        assert "servers must be at most 200,000" in text
        assert rows_of(page, "compare-table")[0][-1] == "slots:14"
