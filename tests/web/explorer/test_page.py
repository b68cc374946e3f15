"""The explorer in a real browser, served by a real process."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import drfh
from drfh import traces
from drfh.traces.scenario import scenario_of
from drfh.web.session.share_links import book_to_link
from drfh.web.session.steps import SetServer, SetUser
from drfh.web.session.workbook import Workbook
from tests.web.conftest import SECRET, token_of
from tests.web.explorer.site import Site, check_users, explorer_tab, paper, shown, tasks


def test_a_newcomer_sees_the_example_of_the_paper_solved(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        assert page.part("title").inner_text() == "Two servers, two users"
        assert re.fullmatch(r"[\d.]+ m?s: proven optimal", page.part("solved").inner_text())
        check_users(page, paper())
        assert page.part("undo").is_disabled()
        # Small shares are not nothing.
        page.edit("users", 0, "tasks", "0.004")
        page.wait_for("users", 0, "share", "0.029 %")
        page.edit("users", 0, "tasks", "0")
        page.wait_for("users", 0, "share", "0.0 %")


def test_an_edit_changes_the_numbers_and_undo_takes_it_back(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        book = paper()
        check_users(page, book)
        page.edit("servers", 1, "count", "3")
        book.do(SetServer("high-cpu", "count", "3"))
        check_users(page, book)
        page.edit("users", 0, "weight", "2")
        book.do(SetUser("ann", "weight", "2"))
        check_users(page, book)
        page.edit("users", 1, "r0", "500m")
        book.do(SetUser("bob", "cpu", "500m"))
        check_users(page, book)
        page.wait_for("users", 1, "r0", "0.5")
        assert tasks(book) != tasks(paper())
        page.part("undo").click()
        book.undo()
        check_users(page, book)
        page.page.keyboard.press("ControlOrMeta+z")
        book.undo()
        check_users(page, book)
        page.part("redo").click()
        book.redo()
        check_users(page, book)
        page.page.locator("body").press("ControlOrMeta+Shift+z")
        book.redo()
        check_users(page, book)
        assert page.part("redo").is_disabled()


def test_a_cell_is_edited_by_keyboard_alone(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        check_users(page, paper())
        keyboard = page.page.keyboard
        keyboard.press("Tab")
        assert page.page.evaluate("document.activeElement.textContent") == "Skip to main content"
        keyboard.press("Enter")
        inside = "!!document.activeElement.closest('[data-testid=users-table] .ag-header')"
        while not page.page.evaluate(inside):
            assert page.focused("data-testid") != "add-servers"  # past it
            keyboard.press("Tab")
        keyboard.press("ArrowDown")
        while page.focused("col-id") != "weight":
            assert page.focused("col-id") != "share"
            keyboard.press("ArrowRight")
        keyboard.press("Enter")
        keyboard.press("ControlOrMeta+a")
        keyboard.type("3")
        keyboard.press("Tab")  # and on into the next cell
        book = paper()
        book.do(SetUser("ann", "weight", "3"))
        check_users(page, book)
        keyboard.type("4")
        keyboard.press("Enter")
        book.do(SetUser("ann", "tasks", "4"))
        check_users(page, book)
        assert page.focused("col-id") == "tasks"  # in the next row, ready to go on
        keyboard.press("ArrowLeft")
        keyboard.type("5")
        keyboard.press("Escape")
        keyboard.press("ControlOrMeta+z")
        book.undo()
        check_users(page, book)
        assert page.focused("col-id") == "weight"


def test_everything_has_a_name_for_screen_readers(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        check_users(page, paper())
        assert page.nameless() == []
        page.cell("users", 0, "weight").click()
        assert page.nameless() == []  # the field that one types into
        page.page.keyboard.press("Escape")
        assert page.page.get_by_role("main").count() == 1
        for button, shown in (("share", "link"), ("add-resource", "resource-name")):
            page.part(button).click()
            page.part(shown).wait_for()
            assert page.nameless() == []
            page.page.keyboard.press("Escape")
            page.part(shown).wait_for(state="detached")
        page.edit("users", 0, "weight", "2")
        page.part("tab-whatif").click()
        page.wait_for("changes", 0, "name", "ann")
        assert page.nameless() == []


def test_a_bad_cell_is_marked_with_its_rule_and_the_last_result_stays(
    browser: Any, site: Site
) -> None:
    with explorer_tab(browser, site) as page:
        check_users(page, paper())
        page.edit("users", 0, "weight", "heavy")
        cell = page.cell("users", 0, "weight")
        page.page.wait_for_selector("[data-testid=users-table] [col-id=weight].bad")
        assert cell.get_attribute("aria-invalid") == "true"
        rule = "weight of ann must be a number > 0, such as 1 or 2.5, got 'heavy'"
        assert cell.get_attribute("aria-description") == rule
        assert page.part("users-refused").inner_text() == rule
        page.wait_for("users", 0, "weight", "heavy")
        page.point_at(cell)
        page.page.wait_for_selector(f".ag-tooltip:has-text({json.dumps(rule)})")
        check_users(page, paper())
        assert page.part("undo").is_disabled()
        # Another good edit leaves the mark where it is.
        page.edit("users", 1, "weight", "2")
        book = paper()
        book.do(SetUser("bob", "weight", "2"))
        check_users(page, book)
        page.wait_for("users", 0, "weight", "heavy")
        # Undo takes back what was refused, and not the good edit before it.
        page.part("undo").click()
        page.wait_for("users", 0, "weight", "1")
        assert page.page.locator(".ag-cell.bad").count() == 0
        assert page.part("users-refused").inner_text() == ""
        check_users(page, book)
        page.edit("users", 0, "weight", "none")
        page.page.wait_for_selector("[data-testid=users-table] [col-id=weight].bad")
        page.edit("users", 0, "weight", "4")
        book.do(SetUser("ann", "weight", "4"))
        check_users(page, book)
        assert page.page.locator(".ag-cell.bad").count() == 0
        assert cell.get_attribute("aria-invalid") is None
        assert page.part("users-refused").inner_text() == ""


def test_whatever_is_typed_is_taken_or_refused_with_its_rule(browser: Any, site: Site) -> None:
    amount = "must be a finite number ≥ 0"
    refused = [
        ("users", "weight", "", "weight of ann must be a number > 0"),
        ("users", "weight", "NaN", "weight of ann must be a number > 0"),
        ("users", "r0", "1e999", f"cpu of ann {amount}"),
        ("users", "r1", "<b>1</b>", f"memory of ann {amount}"),
        ("users", "tasks", "-1", "tasks of ann must be a number ≥ 0"),
        ("users", "servers", "nowhere", "servers of ann must name a server or a group"),
        ("users", "name", "bob", "name of ann must be unique, got 'bob'"),
        ("servers", "count", "2.5", "count of high-memory must be a whole number ≥ 1"),
        ("servers", "count", "9" * 20, "count of high-memory must be a whole number ≥ 1"),
        ("servers", "r0", "1e300", "cpu of high-memory must not break another entry"),
        ("servers", "labels", ":zone", "labels of high-memory must be labels such as"),
    ]
    with explorer_tab(browser, site) as page:
        check_users(page, paper())
        for table, field, text, rule in refused:
            page.edit(table, 0, field, text)
            page.expect(page.part(f"{table}-refused")).to_contain_text(rule)
            page.expect(page.cell(table, 0, field)).to_have_attribute("aria-invalid", "true")
            page.expect(page.cell(table, 0, field)).to_have_text(text or "")
            page.wait_for("users", 0, "gets", "10")
            page.wait_for("users", 1, "gets", "10")
        assert page.part("undo").is_disabled()
        # What is odd but a number is taken, and so is a cell that is emptied.
        book = paper()
        for table, field, text, step in (
            ("users", "name", ":window.hacked=1", SetUser("ann", "name", ":window.hacked=1")),
            ("users", "weight", "1e15", SetUser(":window.hacked=1", "weight", "1e15")),
            ("users", "servers", "", SetUser(":window.hacked=1", "servers", "")),
            ("users", "tasks", "1e-9", SetUser(":window.hacked=1", "tasks", "1e-9")),
            ("users", "r0", "", SetUser(":window.hacked=1", "cpu", "")),
            ("servers", "count", "9" * 12, SetServer("high-memory", "count", "9" * 12)),
            ("servers", "r0", "", SetServer("high-memory", "cpu", "")),
        ):
            page.edit(table, 0, field, text)
            book.do(step)
            page.expect(page.cell(table, 0, field)).not_to_have_class(re.compile(r"\bbad\b"))
        check_users(page, book)
        page.wait_for("users", 0, "r0", "0")
        assert page.page.evaluate("window.hacked") is None


def test_rows_come_and_go(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        check_users(page, paper())
        page.part("add-users").click()
        page.page.wait_for_selector(".ag-cell-inline-editing")
        page.page.keyboard.type("eve")
        page.page.keyboard.press("Enter")
        page.wait_for("users", 2, "name", "eve")
        page.part("add-servers").click()
        page.wait_for("servers", 2, "count", "1")
        page.page.keyboard.press("Escape")
        more = drfh.Server({"cpu": 12, "memory": 2}, name="servers-1")
        cluster = drfh.Cluster([*paper().scenario.cluster.servers, more])
        users = [*paper().scenario.users, drfh.User("eve", {"cpu": 1, "memory": 0.2})]
        check_users(page, Workbook(drfh.Scenario(cluster, tuple(users))))
        for row in (0, 1):
            page.part("users-table").locator(
                f".ag-row[row-index='{row}'] .ag-selection-checkbox input"
            ).check()
        page.part("remove-users").click()
        check_users(page, Workbook(drfh.Scenario(cluster, tuple(users[2:]))))
        assert page.part("users-title").inner_text() == "1 user"


def test_a_shared_link_shows_the_same_and_edits_stay_apart(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as mine:
        mine.edit("users", 0, "weight", "5")
        book = paper()
        book.do(SetUser("ann", "weight", "5"))
        check_users(mine, book)
        mine.part("share").click()
        link = mine.part("link").input_value()
        assert book_to_link(book) in link
        query = "?" + urlsplit(link).query
        with explorer_tab(browser, site, query, apart=True) as yours:
            check_users(yours, book)
            assert yours.part("undo").is_enabled()
            yours.edit("users", 1, "weight", "7")
            changed = paper()
            changed.do(SetUser("ann", "weight", "5"))
            changed.do(SetUser("bob", "weight", "7"))
            check_users(yours, changed)
            mine.part("close").click()
            check_users(mine, book)
            mine.edit("servers", 0, "count", "2")
            book.do(SetServer("high-memory", "count", "2"))
            check_users(mine, book)
            check_users(yours, changed)
        # The address follows: a reload shows the same.
        mine.page.wait_for_function(
            "link => new URLSearchParams(location.search).get('s') === link", arg=book_to_link(book)
        )
        mine.page.reload()
        check_users(mine, book)


def test_a_damaged_link_is_said_and_the_page_opens(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site, "?s=eNqrVkpSslJQKkgsSC3KTM5WqgUAMuEF") as page:
        text = page.part("trouble").inner_text()
        assert "the link must be whole, as it was copied" in text
        check_users(page, paper())
    bomb = base64.urlsafe_b64encode(zlib.compress(b"0" * 5_000_000, 9)).decode()
    with explorer_tab(browser, site, f"?s={bomb}&m=:window.hacked=1&panel=__proto__") as page:
        text = page.part("trouble").inner_text()
        assert "the link must hold at most 500,000 bytes" in text
        assert ":window.hacked=1" in text
        check_users(page, paper())
        assert page.page.evaluate("window.hacked") is None


def test_an_unknown_mechanism_is_said_and_the_own_one_answers(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site, "?m=drhf") as page:
        assert "drhf" in page.part("trouble").inner_text()
        assert "drfh" in page.part("mechanism").input_value()
        check_users(page, paper())


def test_title_and_description_follow_the_own_data(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        assert page.page.locator(".about").inner_text()
        page.edit("users", 0, "weight", "2")
        page.expect(page.page.locator(".about")).to_be_empty()
        page.page.wait_for_url("**/?s=*")
        before = page.page.url
        page.part("title").click()
        page.page.keyboard.press("ControlOrMeta+a")
        page.page.keyboard.type("Our <b>cluster")
        page.page.keyboard.press("Enter")
        page.expect(page.part("scenario")).to_have_value("Our <b>cluster")
        page.page.wait_for_url(lambda url: url != before)
        link = page.page.url.partition("/?")[2]
        with explorer_tab(browser, site, f"?{link}") as other:
            assert other.part("title").inner_text() == "Our <b>cluster"


def test_back_goes_to_the_panel_before(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        page.part("tab-whatif").click()
        page.expect(page.part("steps-title")).to_be_visible()
        page.part("tab-compare").click()
        page.expect(page.part("compare-table")).to_be_visible()
        page.page.go_back()
        page.expect(page.part("steps-title")).to_be_visible()
        page.page.go_back()
        page.expect(page.part("users-title")).to_be_visible()
        page.page.go_forward()
        page.expect(page.part("steps-title")).to_be_visible()


@pytest.mark.slow
def test_a_large_scenario_is_edited_and_shared_as_a_file(
    browser: Any, site: Site, folder: Path, tmp_path: Path
) -> None:
    book = Workbook(drfh.load_scenario(folder / "large.json"))
    with explorer_tab(browser, site, "?open=large.json") as page:
        assert page.part("users-title").inner_text() == "100 users"
        page.edit("users", 0, "weight", "9")
        book.do(SetUser("user-0", "weight", "9"))
        page.wait_for("users", 0, "gets", shown(tasks(book)["user-0"]))
        page.edit("servers", 1, "count", "500")
        book.do(SetServer("group-1", "count", "500"))
        expected = tasks(book)
        for row in range(8):
            page.wait_for("users", row, "gets", shown(expected[f"user-{row}"]))
        page.part("share").click()
        text = page.part("too-long").inner_text()
        heading = page.page.locator(".q-dialog h2")
        assert heading.evaluate("e => parseFloat(getComputedStyle(e).fontSize)") < 24
        assert "too much for a link (more than 8,000 characters)" in text
        with page.page.expect_download() as download:
            page.part("save-book").click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
    with explorer_tab(browser, site) as other:
        other.part("upload").locator("input[type=file]").set_input_files(file)
        other.wait_for("users", 0, "gets", shown(expected["user-0"]))
        other.part("undo").click()
        book.undo()
        other.wait_for("users", 0, "gets", shown(tasks(book)["user-0"]))


def test_mechanism_and_examples(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site) as page:
        page.part("mechanism").click()
        page.page.get_by_role("option", name=re.compile("^per-server-drf")).click()
        page.wait_for("users", 0, "gets", "6")
        page.wait_for("users", 1, "gets", "6")
        page.edit("servers", 1, "count", "2")
        scenario = paper().scenario
        users = scenario.users
        first, second = scenario.cluster.servers
        more = drfh.Cluster([first, replace(second, count=2)])
        expected = drfh.allocate(more, users, mechanism="per-server-drf").tasks
        page.wait_for("users", 1, "gets", shown(expected["bob"]))
        page.part("example-google-2011").click()
        page.page.wait_for_selector("h1:has-text('12,583')")
        google = Workbook(drfh.load_scenario("google-2011"))
        page.wait_for("users", 0, "gets", shown(tasks(google)[google.scenario.users[0].name]))
        assert page.part("servers-title").inner_text() == "12,583 servers"
        assert "drfh" in page.part("mechanism").input_value()


def test_a_file_cannot_ask_for_slots_and_the_page_says_so(
    browser: Any, site: Site, tmp_path: Path
) -> None:
    with explorer_tab(browser, site) as page:
        page.part("mechanism").click()
        page.page.get_by_role("option", name=re.compile("^slots")).click()
        page.wait_for("users", 0, "gets", "1")
        page.part("tab-whatif").click()
        with page.page.expect_download() as download:
            page.part("save-scenario").click()
        notice = page.page.locator(".q-notification").first
        page.expect(notice).to_contain_text("slots:14 is a policy: the file asks for drfh")
        ink = notice.evaluate("e => getComputedStyle(e).color")  # on yellow
        assert max(int(part) for part in re.findall(r"\d+", ink)[:3]) < 60
        file = tmp_path / "saved.yaml"
        download.value.save_as(file)
        assert drfh.load_scenario(file).mechanism == "drfh"


def test_scenario_files_go_out_and_come_in(browser: Any, site: Site, tmp_path: Path) -> None:
    with explorer_tab(browser, site) as page:
        page.edit("users", 0, "weight", "5")
        book = paper()
        book.do(SetUser("ann", "weight", "5"))
        check_users(page, book)
        page.part("tab-whatif").click()
        with page.page.expect_download() as download:
            page.part("save-scenario").click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        assert file.name == "two-servers-two-users.yaml"
        assert drfh.load_scenario(file) == book.scenario
        with page.page.expect_download() as download:
            page.part("save-steps").click()
        steps = tmp_path / download.value.suggested_filename
        download.value.save_as(steps)
        page.part("tab-tables").click()
        page.part("example-three-resources").click()
        page.page.wait_for_selector("h1:has-text('Three servers')")
        upload = page.part("upload").locator("input[type=file]")
        with page.page.expect_file_chooser() as chooser:
            page.part("open-file").click()
        chooser.value.set_files(steps)
        check_users(page, book)
        assert page.part("undo").is_enabled()
        page.part("example-three-resources").click()
        page.page.wait_for_selector("h1:has-text('Three servers')")
        upload.set_input_files(file)
        check_users(page, book)
        assert page.part("undo").is_disabled()
        broken = tmp_path / "broken.yaml"
        broken.write_text("cluster: [{resources: {cpu: x}}]\nusers: [{name: a, demand: {cpu: 1}}]")
        upload.set_input_files(broken)
        page.page.wait_for_selector(".q-notification:has-text('broken.yaml, line 1')")
        large = tmp_path / "large.yaml"
        large.write_text("x" * 2_000_001)
        upload.set_input_files(large)
        page.page.wait_for_selector(".q-notification:has-text('at most 2 MB')")
        check_users(page, book)


def test_only_files_of_the_folder_are_opened(browser: Any, site: Site, folder: Path) -> None:
    with explorer_tab(browser, site, "?open=own.yaml") as page:
        assert page.part("title").inner_text() == "Our own"
        page.wait_for("users", 0, "name", "ours")
    with explorer_tab(browser, site, "?open=leads-out.yaml") as page:
        page.page.wait_for_selector("[data-testid=trouble]:visible")
        assert page.part("title").inner_text() == "Two servers, two users"
        check_users(page, paper())
        assert SECRET not in page.page.content()
    # The same in what is sent at first, which holds all texts and rows of a page.
    for name, text in (("own.yaml", "ours"), ("leads-out.yaml", "Two servers, two users")):
        assert text in answered(site.port, f"/?open={name}", Host=f"127.0.0.1:{site.port}")[1]
    outside = str(folder.parent / "secret.yaml")
    for name in ("../secret.yaml", outside, "leads-out.yaml", "none.yaml"):
        status, body, _ = answered(site.port, f"/?open={name}", Host=f"127.0.0.1:{site.port}")
        assert status == 200
        assert "This is Two servers, two users instead." in body
        assert SECRET not in body


def test_names_are_never_markup_nor_code(browser: Any, site: Site) -> None:
    bad = '<img src=x onerror="window.hacked=1">'
    code = ":window.hacked=1"
    cluster = drfh.Cluster([drfh.Server({bad: 4, code: 4}, name=bad, count=2)])
    users = (drfh.User(bad, {bad: 1, code: 1}), drfh.User("__proto__", {bad: 2}))
    book = Workbook(drfh.Scenario(cluster, users, title=bad))
    with explorer_tab(browser, site, f"?s={book_to_link(book)}") as page:
        page.wait_for("users", 0, "name", bad)
        assert page.part("title").inner_text() == bad
        page.edit("users", 0, "weight", bad)
        page.page.wait_for_selector(".ag-cell.bad")
        page.point_at(page.cell("users", 0, "weight"))
        page.page.wait_for_selector(".ag-tooltip")
        page.edit("users", 1, "weight", "2")
        page.wait_for("users", 1, "weight", "2")
        page.part("tab-whatif").click()
        page.page.wait_for_selector("[data-testid=steps] li")
        page.wait_for("changes", 0, "name", bad)
        page.part("share").click()
        assert page.page.evaluate("window.hacked") is None
        assert page.page.locator("img[src=x]").count() == 0


def test_light_and_dark_are_kept(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site, color_scheme="dark") as page:
        check_users(page, paper())
        background = "getComputedStyle(document.body).backgroundColor"
        assert page.page.evaluate(background) == "rgb(20, 24, 31)"
        page.part("scheme").click()
        page.page.wait_for_function(f"{background} === 'rgb(255, 255, 255)'")
        page.page.reload()
        check_users(page, paper())
        assert page.page.evaluate(background) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("width", [400, pytest.param(1400, marks=pytest.mark.slow)])
def test_nothing_is_wider_than_the_screen(browser: Any, site: Site, width: int) -> None:
    viewport = {"width": width, "height": 900}
    with explorer_tab(browser, site, "?open=google-2011", viewport=viewport) as page:
        page.page.wait_for_selector("[data-testid=users-table] .ag-row")
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        page.part("tab-whatif").click()
        page.page.wait_for_selector("[data-testid=steps-title]:visible")
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width


# Who may come in


def answered(port: int | None, path: str = "/", **headers: str) -> tuple[int, str, str]:
    """Ask over HTTP; return status, body and the cookie that is set."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(
            "GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        response = connection.getresponse()
        cookie = (response.getheader("set-cookie") or "").partition(";")[0]
        return response.status, response.read().decode(errors="replace"), cookie
    finally:
        connection.close()


def upgraded(port: int | None, **headers: str) -> int:
    """Ask for a web socket; return the status."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        "GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket&client_id=none HTTP/1.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    with socket.create_connection(("127.0.0.1", port or 0), 20) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(connection.recv(100).split()[1])


def test_on_loopback_only_names_of_this_machine_count(site: Site) -> None:
    own = f"127.0.0.1:{site.port}"
    assert answered(site.port, Host=own)[0] == 200
    assert answered(site.port, Host=f"localhost:{site.port}")[0] == 200
    for host in (f"evil.example:{site.port}", "127.0.0.1.evil.example", "", "127.0.0.1:80@evil"):
        status, body, _ = answered(site.port, Host=host)
        assert status == 403, host
        assert "this machine only" in body
        assert upgraded(site.port, Host=host) == 403
    assert upgraded(site.port, Host=own) == 101
    assert upgraded(site.port, Host=own, Origin=f"http://{own}") == 101
    assert upgraded(site.port, Host=own, Origin="http://evil.example") == 403
    assert upgraded(site.port, Host=own, Origin="null") == 403
    assert answered(site.port, Host=own, Origin="http://evil.example")[0] == 403


def test_nothing_large_is_taken(site: Site) -> None:
    own = f"127.0.0.1:{site.port}"
    status, body, _ = answered(site.port, Host=own, Content_Length="7000000")
    assert (status, body) == (413, "Nothing larger than 6 MB can be sent to this page.\n")
    assert answered(site.port, Host=own, Transfer_Encoding="chunked")[0] == 413


def test_other_addresses_need_the_token_and_kubectl_opens(
    browser: Any, kubectl: list[Path], open_site: Site
) -> None:
    site = open_site
    token = token_of(site)
    assert len(token) > 20
    assert sum(token in line for line in site.lines) == 1
    own = f"127.0.0.1:{site.port}"
    for path in ("/", "/?token=", "/?token=wrong", "/_nicegui_ws/socket.io/?EIO=4"):
        status, body, _ = answered(site.port, path, Host=own)
        assert status == 403
        assert "needs the token" in body
    assert upgraded(site.port, Host=own) == 403
    assert upgraded(site.port, Host=own, Cookie=f"drfh_token_{site.port}=wrong") == 403
    status, _, cookie = answered(site.port, f"/?token={token}&open=google-2011", Host=own)
    assert status == 303
    assert cookie == f"drfh_token_{site.port}={token}"
    assert answered(site.port, Host=own, Cookie=cookie)[0] == 200
    assert upgraded(site.port, Host=own, Cookie=cookie) == 101
    evil = {"Host": own, "Cookie": cookie, "Origin": "http://evil.example"}
    assert upgraded(site.port, **evil) == 403
    with explorer_tab(browser, site, f"?token={token}") as page:
        scenario = scenario_of(traces.read("kubernetes", kubectl), split=None, kinds=False)
        assert len(scenario.users) > 1
        check_users(page, Workbook(scenario))
        assert page.part("users-title").inner_text() == f"{len(scenario.users)} users"
        assert token not in page.page.url
        page.part("share").click()
        assert token not in page.part("link").input_value()


# On the command line


def test_wrong_options_of_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("nicegui")
    from drfh.cli import main

    for options, expected in (
        (["--port", "70000"], "--port must be from 0 to 65535, got 70000"),
        (["--host", "256.1.1.1"], "--host must be an address of this machine, got '256.1.1.1'"),
        (["--folder", str(tmp_path / "none")], "--folder must be a directory that exists"),
        (["--run", str(tmp_path / "none")], "--run must be a directory that exists"),
        (["no-such-scenario"], "no-such-scenario: the file must exist"),
    ):
        assert main(["explore", *options]) == 2
        assert expected in capsys.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["explore", "--port", port]) == 2
        assert "--port must be free on 127.0.0.1" in capsys.readouterr().err
