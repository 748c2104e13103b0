"""Where a data set's files are looked for, and the sentence that says how to get them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sfi_lab.errors import SfiError
from sfi_lab.tasks.segmentation import INSTALL


@dataclass(frozen=True, slots=True)
class Place:
    """Where a data set is found: below `folder` of the data directory, or on the hub.

    what: its name in messages. layout: the files as distributed, for messages. hub: repository id. advice: how to get it.
    """

    what: str
    folder: str
    layout: str
    hub: str
    advice: str = ""

    def files(self, data: Path, patterns: Sequence[str]) -> list[Path]:
        """Files of the first pattern that matches any, sorted; looked for in DATA/FOLDER, DATA/FOLDER/data, DATA and DATA/data."""
        for root in (data / self.folder, data / self.folder / "data", data, data / "data"):
            for pattern in patterns:
                if found := sorted(root.glob(pattern)):
                    return found
        return []

    def missing(self, data: Path | None, lacking: str = "none of its files", part: str = "") -> SfiError:
        """The sentence that says how to get it. lacking: what the folder has, or hasn't. part: of the data set, if not all is missing."""
        where = "no data folder was given" if data is None else f"{data} has {lacking}"
        return SfiError(
            f"{self.what}{part} is not here: {where}. Put {self.layout} (from {self.hub} on the Hugging Face hub{self.advice}) "
            f"into a folder and name that folder, or install the loader and give no folder: {INSTALL}"
        )
