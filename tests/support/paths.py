"""Where things are: the project and the data of the tests."""

from pathlib import Path

#: The root of the project.
ROOT = Path(__file__).parents[2]
#: Small files that the tests read.
DATA = ROOT / "tests" / "data"
