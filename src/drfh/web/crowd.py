"""How many pages there are at a time: each has memory, and work in the background."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

__all__ = ["MOST_PAGES", "MOST_UNSEEN", "limited"]

#: Pages that browsers show.
MOST_PAGES = 200
#: Pages that were asked for and that no browser has shown yet, which takes it a moment.
MOST_UNSEEN = 24


def limited(page: Callable[..., Any]) -> Callable[..., Any]:
    """Return what builds a page unless there are too many.

    A page that nobody shows gives way to new ones: who asks for pages without end must not keep
    others out. What it does in the background ends with it.
    """

    @wraps(page)
    def built(*words: Any, **named: Any) -> Any:
        from nicegui import Client, ui

        this = ui.context.client
        others = [client for client in Client.instances.values() if client is not this]
        unseen = [client for client in others if client.tab_id is None]
        if len(others) - len(unseen) >= MOST_PAGES:
            ui.label(f"{MOST_PAGES} pages are open here, and there can be no more: close some.")
            return None
        unseen.sort(key=lambda client: client.created)
        for client in unseen[: max(0, len(unseen) - MOST_UNSEEN + 1)]:
            client.delete()
        return page(*words, **named)

    return built
