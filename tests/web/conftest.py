"""Servers of pages that tests share: an explorer with a folder, and a live view of 64 nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import drfh
from tests.support.paths import DATA
from tests.web.explorer.site import Site, explorer
from tests.web.live.pages import View, made_up_view

SECRET = "hidden-user"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of scenarios, with a secret beside it and a link that leads there."""
    outside = tmp_path_factory.mktemp("outside")
    text = (
        f"cluster: [{{resources: {{cpu: 4}}}}]\nusers: [{{name: {SECRET}, demand: {{cpu: 1}}}}]\n"
    )
    (outside / "secret.yaml").write_text(text)
    inside = outside / "team"
    inside.mkdir()
    (inside / "own.yaml").write_text("title: Our own\n" + text.replace(SECRET, "ours"))
    (inside / "leads-out.yaml").symlink_to(outside / "secret.yaml")
    drfh.save_scenario(large(), inside / "large.json")
    return inside


def large() -> drfh.Scenario:
    """Return 100 users on 1,000 groups of servers."""
    servers = [
        drfh.Server(
            {"cpu": 4 + g % 61, "memory": 8 + g * 7 % 500}, name=f"group-{g}", count=1 + g % 9
        )
        for g in range(1_000)
    ]
    users = [
        drfh.User(f"user-{u}", {"cpu": 0.25 * (1 + u % 15), "memory": 0.5 * (1 + u * 7 % 31)})
        for u in range(100)
    ]
    return drfh.Scenario(drfh.Cluster(servers), tuple(users), title="A large one")


@pytest.fixture(scope="session")
def site(folder: Path) -> Iterator[Site]:
    """Return an explorer of this worker; each page of it is a session of its own."""
    with explorer("--folder", folder) as running:
        yield running
        assert not any("Traceback" in line for line in running.lines), running.lines


@pytest.fixture(scope="session")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return nodes and pods, as kubectl writes them."""
    cluster = json.loads((DATA / "kubernetes-cluster.json").read_text())
    folder, files = tmp_path_factory.mktemp("kubectl"), []
    for kind in ("Node", "Pod"):
        items = [item for item in cluster["items"] if item["kind"] == kind]
        files.append(folder / f"{kind}.json")
        files[-1].write_text(json.dumps({**cluster, "items": items}))
    return files


@pytest.fixture(scope="session")
def open_site(kubectl: list[Path]) -> Iterator[Site]:
    """Return an explorer that others reach, with a token and without a folder."""
    with explorer("--host", "0.0.0.0", "--kubectl", *kubectl) as running:
        running.origin = f"http://127.0.0.1:{running.port}"
        yield running


def token_of(site: Site) -> str:
    """Return the token of the address that was printed."""
    return urlsplit(site.url).query.removeprefix("token=")


@pytest.fixture(scope="session")
def shared_view() -> Iterator[View]:
    """Return a live view of 64 nodes of this worker."""
    with made_up_view(64) as found:
        yield found


@pytest.fixture
def small(shared_view: View) -> Iterator[View]:
    """Return the same; afterwards the cluster is as at the start."""
    yield shared_view
    shared_view.tell("first")
