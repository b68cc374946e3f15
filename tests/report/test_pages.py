"""The page of an allocation in a real browser, light and dark (Debian's chromium)."""

from __future__ import annotations

from pathlib import Path

import pytest

from drfh import Cluster, Server, User, allocate, load_scenario
from drfh.report.charts.allocation import save_chart, usage_table


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_draws_without_a_network(browser: object, scheme: str, tmp_path: Path) -> None:
    scenario = load_scenario("gpu-cluster")
    file = tmp_path / "page.html"
    save_chart(allocate(scenario.cluster, scenario.users), file, title="A <b>title</b> & more")
    page = browser.new_page(color_scheme=scheme)  # type: ignore[attr-defined]
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "console", lambda message: trouble.append(message.text) if message.type != "log" else None
    )
    page.on("request", lambda request: trouble.append(request.url) if not
            request.url.startswith(("file:", "data:", "blob:")) else None)  # fmt: skip
    page.goto(file.as_uri())
    page.wait_for_selector("#figure-1 svg")
    assert page.inner_text("h1") == "A <b>title</b> & more"
    text = page.text_content("#figure-1 svg")
    for word in ("a100 × 8", "training", "free", "memory"):
        assert word in text
    assert page.locator("table tr").count() == 1 + len(scenario.users)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 31)")
    assert not trouble
    page.close()


def test_what_the_picture_shows_adds_up() -> None:
    scenario = load_scenario("google-2011")
    allocation = allocate(scenario.cluster, scenario.users)
    frame = usage_table(allocation)
    assert frame["user"].n_unique() == 10  # nine users and the others
    assert frame.select("group", "resource").n_unique() == 20
    groups = {row["group"]: row for row in allocation.group_table().to_dicts()}
    for (group, resource), part in frame.group_by("group", "resource"):
        assert part["used"].sum() == pytest.approx(groups[str(group)][str(resource)], abs=1e-9)


def test_small_groups_are_joined() -> None:
    cluster = Cluster([Server({"cpu": i + 1}, name=f"g{i}") for i in range(40)])
    frame = usage_table(allocate(cluster, [User("free", {"cpu": 1})]))
    assert frame["group"].n_unique() == 16
    assert "other groups" in frame["group"]
    assert frame["used"].to_list() == pytest.approx([1.0] * 16)
