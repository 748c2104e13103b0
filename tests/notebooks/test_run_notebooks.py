"""What running a notebook stores of its widgets: ids that are the same after every run."""

import sys
from pathlib import Path

import nbformat.v4 as v4

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from run_notebooks import VIEW, number_widgets


def shown(*ids):
    views = [v4.new_output("display_data", {VIEW: {"model_id": one}, "text/plain": "a panel"}) for one in ids]
    return v4.new_code_cell(outputs=[v4.new_output("stream", text="x"), *views])


def ids(notebook):
    return [o.data[VIEW]["model_id"] for c in notebook.cells for o in c.get("outputs", []) if VIEW in o.get("data", {})]


def test_widgets_are_numbered_in_order_and_the_same_widget_keeps_its_number():
    runs = [
        v4.new_notebook(cells=[v4.new_markdown_cell("text"), shown(*first), shown(*second)])
        for first, second in ((("9f", "03"), ("9f", "c1")), (("aa", "01"), ("aa", "7e")))
    ]
    for notebook in runs:
        number_widgets(notebook)
    found = ids(runs[0])
    assert found == ids(runs[1]), "another run's random ids leave no trace"
    assert found[0] == found[2] and len(set(found)) == 3
    assert all(len(one) == 32 and int(one, 16) for one in found), "of the form that ipywidgets gives its own"
    number_widgets(runs[0])
    assert ids(runs[0]) == found
