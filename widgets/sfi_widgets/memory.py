"""What a cell's workbench leaves for the next run of the same cell.

JupyterLab says with every request which cell it runs. A workbench is noted under that cell and its recording, weakly, in the
notebook's own namespace (`_sfi_lab_benches`): nothing is kept in a module, a restart or %reset forgets it, two notebooks never
meet, and a second workbench in another cell starts afresh. Where no cell is named - scripts, nbconvert, Voilà - nothing is kept.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

NAME = "_sfi_lab_benches"


class Cell:
    """The cell that runs now. key: which one, "" where nobody says; namespace: the notebook's variables."""

    def __init__(self, key: str, run: str, namespace: dict[str, Any]) -> None:
        self.key, self.run, self.namespace = key, run, namespace

    @classmethod
    def now(cls) -> Cell | None:
        """The cell in work, None outside a notebook or where the front end names no cell."""
        ipython = sys.modules.get("IPython")  # not imported: then this is no notebook
        shell = ipython.get_ipython() if ipython else None
        request = shell.get_parent() if hasattr(shell, "get_parent") else None
        key = (request or {}).get("metadata", {}).get("cellId", "")
        return cls(key, request["header"]["msg_id"], shell.user_ns) if key else None


class Places:
    """Workbenches by (cell, recording, which of the cell's)."""

    def __init__(self) -> None:
        self._kept: weakref.WeakValueDictionary[tuple[str, str, int], Any] = weakref.WeakValueDictionary()
        self._run, self._made = "", {}

    def swap(self, cell: Cell, recording: str, bench: Any) -> Any:
        """Notes `bench` in its place and returns the workbench that the cell's last run left there, or None."""
        if cell.run != self._run:  # a new run of a cell counts from 0
            self._run, self._made = cell.run, {}
        number = self._made.get(recording, 0)
        self._made[recording] = number + 1
        place = (cell.key, recording, number)
        before = self._kept.get(place)
        self._kept[place] = bench
        return before


def places(cell: Cell) -> Places:
    """The notebook's own places, made when first asked for."""
    found = cell.namespace.get(NAME)
    if not isinstance(found, Places):
        found = cell.namespace[NAME] = Places()
    return found
