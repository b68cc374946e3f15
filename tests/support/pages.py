"""Open a page in a real browser, and refuse one that is not whole by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Tab:
    """A page of a browser that must be quiet: no error, no dialog, no request elsewhere.

    A page that was used before is used again, with neither cookies nor storage: as its scripts are
    compiled already, it loads in a third of the time.

    Parameters
    ----------
    origins
        What requests may begin with, beside data.
    apart
        Whether it is a browser of its own, with `options`.
    """

    def __init__(
        self,
        browser: Any,
        origins: tuple[str, ...],
        *,
        scheme: str = "light",
        size: tuple[int, int] = (1400, 900),
        apart: bool = False,
        **options: Any,
    ) -> None:
        self.trouble: list[str] = []
        self._origins = (*origins, "data:", "blob:")
        self._apart = apart or bool(options)
        if self._apart:
            self.page = browser.new_context(**options).new_page()
        else:
            self.page = _blank_page(browser)
        self.context = self.page.context
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=scheme)
        self._listeners = {
            "pageerror": lambda error: self.trouble.append(str(error)),
            "console": self._on_console,
            "request": self._on_request,
            "dialog": self._on_dialog,
        }
        for event, listener in self._listeners.items():
            self.page.on(event, listener)

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.trouble.append(message.text)

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith(self._origins):
            self.trouble.append(f"a request left: {request.url}")

    def _on_dialog(self, dialog: Any) -> None:
        self.trouble.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def discard(self) -> None:
        """Close the page for good, after a failure."""
        self.page.context.close()

    def release(self) -> None:
        """Leave the page to the next test, or close it if it is apart."""
        if self._apart:
            self.discard()
            return
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        self.page.goto("about:blank")


def _blank_page(browser: Any) -> Any:
    """Return a page of a context without cookies, one that was released before where there is."""
    pages = [context.pages[0] for context in browser.contexts if len(context.pages) == 1]
    blank = [page for page in pages if page.url == "about:blank"]
    page = blank[0] if blank else browser.new_context().new_page()
    page.context.clear_cookies()
    page.set_default_timeout(30_000)
    page.mouse.move(0, 0)
    return page


def opened(browser: Any, file: Path, scheme: str = "light", width: int = 1200) -> Any:
    """Open a page, check that it is quiet, alone and not too wide, and return it."""
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "console", lambda message: trouble.append(message.text) if message.type != "log" else None
    )
    page.on("request", lambda request: trouble.append(request.url) if not
            request.url.startswith(("file:", "data:", "blob:")) else None)  # fmt: skip
    page.goto(file.as_uri())
    page.wait_for_function(
        "[...document.querySelectorAll('.figure')].every(f => f.querySelector('svg'))"
    )
    page.wait_for_timeout(200)  # what is drawn may still complain
    assert not trouble
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 31)")
    return page
