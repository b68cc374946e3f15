"""The weights file of a controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from drfh.engines.weights import read_weights
from drfh.errors import InputError


def test_the_weights_file(tmp_path: Path) -> None:
    file = tmp_path / "weights.yaml"
    file.write_text("physics: 2\nbiology: 0.5\n")
    assert read_weights(file) == {"physics": 2.0, "biology": 0.5}
    file.write_text("physics: 2\nbiology: -1\n")
    with pytest.raises(InputError, match=r"weights.yaml, line 2: biology must be a number > 0"):
        read_weights(file)
    file.write_text('physics: 2\n" ": 1\n')
    with pytest.raises(InputError, match="a name must"):
        read_weights(file)
    file.write_text("- physics\n")
    with pytest.raises(InputError, match="must be lines such as physics: 2"):
        read_weights(file)
