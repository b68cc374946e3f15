"""``python -m drfh`` is ``drfh``."""

from __future__ import annotations

import sys

from drfh.cli import main

if __name__ == "__main__":
    sys.exit(main())
