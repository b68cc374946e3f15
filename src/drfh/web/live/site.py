"""The live view as a site, which is served beside the one who looks at the cluster."""

from __future__ import annotations

from drfh.web.live.store import LiveStore
from drfh.web.server.app import Site, listen, needs_nicegui

__all__ = ["live_site"]


def live_site(feed: LiveStore, port: int = 0, host: str = "127.0.0.1") -> Site:
    """Return the live view, to be served in a ``with`` block; there can be one in a process.

    Parameters
    ----------
    feed
        What it shows.
    port
        0: any free one.
    host
        As of :func:`drfh.web.server.app.listen`: one that others can reach gets a token.

    Examples
    --------
    >>> live_site(LiveStore(), 70_000)
    Traceback (most recent call last):
    drfh.errors.InputError: --web-port must be from 0 to 65535, got 70000
    """
    needs_nicegui()
    address, listener = listen(host, port, options=("--web-host", "--web-port"))
    try:
        from drfh.web.live.page import LivePage

        def page() -> None:
            LivePage(feed).build()

        return Site(address, listener, page, title="drfh live")
    except BaseException:
        listener.close()
        raise
