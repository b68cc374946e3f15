"""Open a page in a real browser, and refuse one that is not whole by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def shared_context(browser: Any) -> Any:
    """Return a context with no page and no cookie, but with the files that others have loaded.

    Without them each page takes twice as long.
    """
    unused = [context for context in browser.contexts if not context.pages]
    context = unused[0] if unused else browser.new_context()
    context.clear_cookies()
    return context


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
