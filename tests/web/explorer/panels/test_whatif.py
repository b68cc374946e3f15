"""The panel "What if": steps, forms, before and after, in a real browser."""

from __future__ import annotations

from typing import Any

import drfh
from drfh.web.session.steps import AddServer, RemoveServer, RemoveUser, SetServer, SetUser
from drfh.web.session.workbook import Workbook
from tests.web.explorer.site import Site, check_users, explorer_tab, paper, shown, tasks


def test_what_if_lists_steps_and_goes_back_to_one(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        for weight in ("2", "3", "4"):
            page.edit("users", 0, "weight", weight)
            page.wait_for("users", 0, "weight", weight)
        page.part("tab-whatif").click()
        page.expect(page.part("steps").locator("li > div")).to_have_text(
            [f"{n}. ann: weight {n + 1} instead of {n}" for n in (1, 2, 3)]
        )
        before, book = tasks(paper()), paper()
        book.do(SetUser("ann", "weight", "4"))
        page.wait_for("changes", 0, "tasks_before", shown(before["ann"]))
        page.wait_for("changes", 0, "tasks_after", shown(tasks(book)["ann"]))
        assert (
            page.part("change-summary").inner_text() == "1 user can run more; 1 user can run less"
        )
        page.part("back-to-1").click()
        book.undo()
        book.do(SetUser("ann", "weight", "2"))
        page.wait_for("changes", 0, "tasks_after", shown(tasks(book)["ann"]))
        assert page.part("steps-title").inner_text() == "1 step"
        page.part("reset").click()
        page.page.wait_for_selector("[data-testid=no-change]:visible")
        page.part("tab-tables").click()
        check_users(page, paper())


def test_a_user_lies_and_the_page_says_what_it_can_really_run(browser: Any, site: Site) -> None:
    from drfh.web.session.answers import answer_of, user_rows
    from drfh.web.session.steps import LieStep

    with explorer_tab(browser, site) as page:
        page.part("tab-whatif").click()
        page.expect(page.part("form-user-0")).to_have_value("0.2")
        page.part("form-user-0").fill("1")
        page.part("claim").click()
        book = paper()
        book.do(LieStep("ann", {"cpu": "1", "memory": "1"}))
        row = user_rows(answer_of(book))[0]
        page.wait_for("changes", 0, "tasks_after", shown(row.real))
        assert page.part("remark-user").inner_text() == "In truth it needs cpu 0.2, memory 1."
        page.part("tab-tables").click()
        page.wait_for("users", 0, "gets", shown(row.tasks))
        page.wait_for("users", 0, "real", shown(row.real))


def test_new_servers_have_the_labels_of_those_they_are_like(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site, "?open=gpu-cluster&panel=whatif") as page:
        book = Workbook(drfh.load_scenario("gpu-cluster"))
        group = next(one for one in book.scenario.cluster.servers if one.labels)
        first = book.scenario.cluster.servers[0]
        assert first is group
        page.part("form-count").fill("10")
        page.part("add-these").click()
        book.do(AddServer(None, dict(group.resources), 10, group.labels))
        user = book.scenario.users[0].name
        page.wait_for("changes", 0, "tasks_after", shown(tasks(book)[user]))
        page.part("tab-tables").click()
        row = len(book.scenario.cluster.servers) - 1
        labels = ", ".join(f"{key}={value}" for key, value in group.labels.items())
        page.wait_for("servers", row, "labels", labels)


def test_servers_come_and_go_and_a_user_leaves(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site, "?panel=whatif") as page:
        book = paper()
        page.part("form-count").fill("many")
        page.part("set-count").click()
        refused = page.expect(page.part("refused-servers"))
        refused.to_contain_text("count of high-memory must be a whole number")
        assert page.part("steps-title").inner_text() == "No steps yet"
        page.part("form-count").fill("10")
        page.part("form-servers-1").fill("64")
        page.part("add-these").click()
        book.do(AddServer(None, {"cpu": "2", "memory": "64"}, "10"))
        page.wait_for("changes", 0, "tasks_after", shown(tasks(book)["ann"]))
        page.part("form-count").fill("3")
        page.part("set-count").click()
        book.do(SetServer("high-memory", "count", "3"))
        page.wait_for("changes", 1, "tasks_after", shown(tasks(book)["bob"]))
        page.part("remove-these").click()
        book.do(RemoveServer("high-memory"))
        page.wait_for("changes", 0, "tasks_after", shown(tasks(book)["ann"]))
        page.part("leave").click()
        book.do(RemoveUser("ann"))
        page.wait_for("changes", 0, "tasks_after", shown(tasks(book)["bob"]))
        page.wait_for("changes", 1, "name", "ann")
        page.wait_for("changes", 1, "tasks_after", "")
