"""The tables of the explorer in a real browser: data entry by keyboard, order of columns, units."""

from __future__ import annotations

from typing import Any

import drfh
from drfh.web.session.workbook import Workbook
from tests.web.explorer.site import ExplorerTab, Site, check_users, explorer_tab

_TITLES = """table => [...document.querySelectorAll(`[data-testid=${table}-table] .ag-header-cell`)]
    .map(e => [+e.ariaColIndex, e.innerText]).sort((a, b) => a[0] - b[0])
    .map(e => e[1]).filter(text => text)"""


def walk_to(page: ExplorerTab, testid: str, key: str = "Tab") -> None:
    """Press a key until an element has the focus."""
    for _ in range(150):
        if page.focused("data-testid") == testid:
            return
        page.page.keyboard.press(key)
    raise AssertionError(f"{testid} cannot be reached by {key}")


def type_row(page: ExplorerTab, *texts: str) -> None:
    """Type into the cell that is edited and those after it; the last text is entered."""
    for text in texts:
        page.page.wait_for_selector(".ag-cell-inline-editing input:focus")
        page.page.keyboard.press("ControlOrMeta+a")
        page.page.keyboard.type(text)
        page.page.keyboard.press("Enter" if text is texts[-1] else "Tab")


def test_a_cluster_is_entered_with_keys_alone(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        keyboard = page.page.keyboard
        # Another resource: its column stands beside the others in both tables.
        walk_to(page, "add-resource")
        keyboard.press("Enter")
        page.expect(page.part("resource-name")).to_be_focused()
        keyboard.type("gpu")
        walk_to(page, "resource-add")
        keyboard.press("Enter")
        page.wait_for("servers", 0, "r2", "1")
        assert page.page.evaluate(_TITLES, "users")[:5] == [
            "user",
            "cpu",
            "memory",
            "gpu",
            "weight",
        ]
        assert page.page.evaluate(_TITLES, "servers") == [
            "servers", "count", "cpu", "memory", "gpu", "labels",
            "cpu used", "memory used", "gpu used",
        ]  # fmt: skip
        page.expect(page.page.locator(".q-dialog")).to_have_count(0)
        walk_to(page, "add-servers", "Shift+Tab")
        keyboard.press("Enter")
        page.wait_for("servers", 2, "name", "")
        type_row(page, "gpu nodes", "4", "32", "128", "8")
        page.wait_for("servers", 2, "r2", "8")
        # Each row after the first: what is typed must not go to the row that was edited before.
        walk_to(page, "add-users", "Shift+Tab")
        for row, texts in enumerate([("ml", "4", "16", "1"), ("web", "1", "0.5", "0", "2")], 2):
            keyboard.press("Enter")
            page.wait_for("users", row, "name", "")
            type_row(page, *texts)
            page.wait_for("users", row, "name", texts[0])
            walk_to(page, "add-users", "Shift+Tab")
        start = drfh.load_scenario("paper-two-servers")
        high, low = start.cluster.servers
        servers = [
            drfh.Server({**high.resources, "gpu": 1}, name=high.name),
            low,
            drfh.Server({"cpu": 32, "memory": 128, "gpu": 8}, name="gpu nodes", count=4),
        ]
        users = (
            *start.users,
            drfh.User("ml", {"cpu": 4, "memory": 16, "gpu": 1}),
            drfh.User("web", {"cpu": 1, "memory": 0.5, "gpu": 0}, weight=2),
        )
        check_users(page, Workbook(drfh.Scenario(drfh.Cluster(servers), users)))
        for row, server in enumerate(servers):
            page.wait_for("servers", row, "name", str(server.name))
            page.wait_for("servers", row, "count", str(server.count))


def test_units_belong_to_their_columns_and_are_shown_as_typed(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        for table, field, text, rule in (
            ("servers", "r0", "16 GB", "cpu of high-memory must be a number, such as 4, 0.5 or"),
            ("users", "r0", "1Gi", "cpu of ann must be a number, such as 4, 0.5 or 500m"),
            ("users", "tasks", "5Gi", "tasks of ann must be a number without a unit"),
            ("users", "weight", "2k", "weight of ann must be a number without a unit"),
            ("servers", "count", "5k", "count of high-memory must be a whole number"),
        ):
            page.edit(table, 0, field, text)
            page.expect(page.part(f"{table}-refused")).to_contain_text(rule)
            page.expect(page.cell(table, 0, field)).to_have_attribute("aria-invalid", "true")
        page.page.reload()
        page.page.wait_for_selector("body[data-ready]")
        for text, shown in (("64Gi", "64Gi"), ("16 GB", "16G"), ("1500M", "1.5G")):
            page.edit("servers", 0, "r1", text)
            page.wait_for("servers", 0, "r1", shown)
        page.edit("users", 0, "tasks", "1048576")
        page.wait_for("users", 0, "tasks", "1048576")


_FORGE = """() => {
    const table = document.querySelector("[data-testid=users-table] > *");
    const id = Number(table.id.slice(1));
    const listeners = mounted_app.elements[id].events.map(e => e.listener_id);
    const long = "x".repeat(9e5);  // no browser sends more
    const all = ["cell", [], 7, {rowId: ["k0"], colId: {}, newValue: []}, {rowId: long},
                 {rowId: "k0", colId: "weight", newValue: {a: 1}}];
    const send = (name, message) => window.socket.emit(name, message);
    for (const listener_id of listeners)
        for (const args of all)
            send("event", {id, client_id: window.clientId, listener_id,
                           args: [JSON.stringify(args)]});
    for (const message of [null, 3, [], {}, {client_id: []}, {client_id: window.clientId},
                           {id, client_id: window.clientId, listener_id: "none", args: ["{"]}])
        for (const name of ["event", "ack", "log", "javascript_response", "handshake"])
            send(name, message);
}"""


def test_forged_events_and_names_without_end_are_refused(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        page.page.evaluate(_FORGE)
        page.cell("users", 0, "name").click()
        page.page.keyboard.press("ControlOrMeta+a")
        page.page.keyboard.insert_text("x" * 1_000_000)
        page.page.keyboard.press("Enter")
        refused = page.part("users-refused")
        page.expect(refused).to_contain_text("name of ann must have at most 1,000 characters")
        assert len(refused.inner_text()) < 300
        page.expect(page.cell("users", 0, "name")).to_have_text("x" * 1_000)
        page.part("add-resource").click()
        page.part("resource-name").click()
        page.page.keyboard.insert_text("y" * 1_000_000)
        page.part("resource-add").click()
        page.expect(page.page.locator(".q-dialog .refused")).to_contain_text("at most 1,000")
        page.page.keyboard.press("Escape")
        page.edit("users", 1, "weight", "2")
        page.wait_for("users", 1, "weight", "2")
    assert not any("Traceback" in line for line in site.lines), site.lines
