"""The weights file of a controller: read at the start, and again when it changes."""

from __future__ import annotations

import logging
from pathlib import Path

from drfh.errors import DrfhError, InputError
from drfh.files.atomic import read_text
from drfh.files.yaml import parse, plain
from drfh.model.cluster import check_name
from drfh.model.users import parse_weight

__all__ = ["WeightsFile", "read_weights"]

log = logging.getLogger(__name__)


def read_weights(path: Path) -> dict[str, float]:
    """Read a weights file: YAML or JSON, one ``name: weight`` for each user or account."""
    place = str(path)
    document = parse(read_text(place), place)
    data = plain(document.root)
    if not isinstance(data, dict):
        raise InputError("weights", "must be lines such as physics: 2", place=place)
    weights: dict[str, float] = {}
    for name, value in data.items():
        try:
            check_name(str(name), "a name")
            weights[str(name)] = parse_weight(value, str(name))
        except InputError as error:
            raise document.at(error) from None
    return weights


class WeightsFile:
    """A weights file that may change while a controller runs.

    Parameters
    ----------
    path
        What has been read already; a change after this counts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._modified = self._modification_time()

    def changed(self) -> dict[str, float] | None:
        """Return the weights if the file has changed since, and can be read; else None."""
        now = self._modification_time()
        if now is None or now == self._modified:
            return None
        self._modified = now
        try:
            weights = read_weights(self.path)
        except DrfhError as error:
            log.warning("weights kept error=%(error)s", {"error": error})
            return None
        log.info("weights reloaded file=%(file)s", {"file": self.path})
        return weights

    def _modification_time(self) -> int | None:
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return None
