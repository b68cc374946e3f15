"""Child processes of tests."""

import signal

__all__ = ["default_sigint"]


def default_sigint() -> None:
    """Set the default handler of SIGINT, which background jobs of a shell ignore (preexec_fn)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
