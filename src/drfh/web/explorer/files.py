"""Files and links of the explorer: upload, download, the share dialog."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nicegui import ui

from drfh.auditor.comparison import WHOLE_TASKS
from drfh.files.scenario_file import scenario_text
from drfh.model.scenario import Scenario
from drfh.web.components.controls import open_dialog
from drfh.web.session.answers import own_mechanism
from drfh.web.session.open_file import LARGEST_UPLOAD, book_from_file
from drfh.web.session.share_links import LONGEST_LINK, book_to_text
from drfh.web.session.workbook import Workbook

if TYPE_CHECKING:
    from drfh.web.explorer.page import Explorer

__all__ = ["Files", "file_name", "open_share_dialog", "saved_scenario"]

_ENDINGS = ".yaml,.yml,.json"


def file_name(title: str, ending: str) -> str:
    """Return a file name for a title.

    Examples
    --------
    >>> file_name("Two servers, two users", ".yaml"), file_name("../..", ".json")
    ('two-servers-two-users.yaml', 'scenario.json')
    """
    stem = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-")
    return (stem or "scenario") + ending


def saved_scenario(book: Workbook, mechanism: str) -> Scenario:
    """Return the scenario to save: after all steps, with the mechanism.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> saved_scenario(Workbook(load_scenario("paper-two-servers")), "tsf").mechanism
    'tsf'
    """
    scenario = replace(book.scenario, title=book.title)
    if mechanism == own_mechanism(scenario) or mechanism.startswith("slots:"):
        return scenario  # slots are a policy: no file can ask for them as a mechanism
    if mechanism == WHOLE_TASKS:
        return replace(scenario, mechanism="drfh", parameters={"whole_tasks": True})
    return replace(scenario, mechanism=mechanism, parameters={})


class Files:
    """Uploads and downloads of a page."""

    def __init__(self, page: Explorer) -> None:
        self.page = page
        self._upload = ui.upload(
            label="a scenario, or what was saved here",
            max_file_size=LARGEST_UPLOAD,
            on_upload=self._arrived,
            on_rejected=self._rejected,
            auto_upload=True,
        )
        self._upload.classes("away").props(
            f'accept="{_ENDINGS}" data-testid=upload aria-hidden=true'
        )

    def pick(self) -> None:
        """Open the browser's file dialog."""
        self._upload.run_method("pickFiles")

    def _rejected(self) -> None:
        megabytes = LARGEST_UPLOAD // 1_000_000
        self.page.notify(
            f"the file must be a scenario (.yaml, .json) of at most {megabytes} MB", "negative"
        )
        self._upload.reset()

    async def _arrived(self, event: Any) -> None:
        self._upload.reset()
        file = event.file
        if file.size() > LARGEST_UPLOAD:
            self._rejected()
            return
        data, name = await file.read(), str(file.name)[:100]

        def opened(book: Workbook) -> None:
            self.page.attempt(lambda: self.page.load(book))

        self.page.attempt(
            lambda: self.page.background(
                lambda: book_from_file(data, name), opened, f"reading {name}"
            )
        )

    def save_scenario(self) -> None:
        """Download the scenario as it is now."""
        page = self.page

        def send() -> None:
            saved = saved_scenario(page.book, page.mechanism)
            text = scenario_text(saved)
            if page.mechanism.startswith("slots:"):
                kept = own_mechanism(saved)
                page.notify(f"{page.mechanism} is a policy: the file asks for {kept}", "warning")
            ui.download.content(text, file_name(page.book.title, ".yaml"), "text/yaml")

        page.attempt(send)

    def save_book(self) -> None:
        """Download the workbook: the base and all steps."""
        page = self.page

        def send() -> None:
            name = file_name(page.book.title, "-steps.json")
            ui.download.content(book_to_text(page.book), name, "application/json")

        page.attempt(send)


def open_share_dialog(page: Explorer) -> None:
    """Show a dialog with a link to the page, or to save a file."""
    link = page.link()
    with open_dialog("Share", "share", "share-card") as dialog:
        if link is None:
            ui.label(
                f"This is too much for a link (more than {LONGEST_LINK:,} characters). Save it "
                "as a file, and open that on the other side."
            ).props("data-testid=too-long")
            save = ui.button("Save with its steps", icon="download", on_click=page.files.save_book)
            save.props("no-caps unelevated data-testid=save-book")
        else:
            field = ui.input("who opens this sees what you see now", value=link)
            field.classes("link-box").props("readonly outlined dense data-testid=link")
            copy = ui.button("Copy", icon="content_copy")
            copy.on("click", js_handler="() => drfhPage.copyLink()")
            copy.props("no-caps unelevated data-testid=copy")
            copy.on_click(lambda: page.notify("copied", "positive"))
        ui.button("Close", on_click=dialog.close).props("flat no-caps data-testid=close")
