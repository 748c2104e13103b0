"""A study's folder: complete prompts only, the same study only."""

import numpy as np
import polars as pl
import pytest

from sfi_lab.errors import SfiError
from sfi_lab.studies.store import Store

CONFIG = {"study": "controls", "prompts": "project"}


def test_results_come_back_and_half_written_ones_do_not_count(tmp_path):
    store = Store(tmp_path, CONFIG)
    store.save("a b/c", {"rows": pl.DataFrame({"x": [1, 2]})}, {"v": np.arange(3.0)})
    (store.work / "half").mkdir()
    (store.work / "half" / "rows.parquet").write_bytes(b"cut off")
    again = Store(tmp_path, CONFIG)
    assert again.done("a b/c")
    assert not again.done("half")
    assert not again.done("never")
    assert again.frame("rows", ["a b/c"]).rows() == [("a b/c", 1), ("a b/c", 2)]
    assert again.arrays("a b/c")["v"].tolist() == [0, 1, 2]
    with pytest.raises(SfiError, match="no table 'rows'"):
        again.frame("rows", ["never"])


def test_another_study_in_the_folder_is_refused(tmp_path):
    Store(tmp_path / "s", CONFIG)
    with pytest.raises(SfiError, match=r"another prompts \(project, now pydoc:3\); give a new folder"):
        Store(tmp_path / "s", CONFIG | {"prompts": "pydoc:3"})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(SfiError, match="not empty and holds no study"):
        Store(tmp_path / "full", CONFIG)
