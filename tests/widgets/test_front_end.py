"""The ES modules: joined without loss, and their pure functions under node's own test runner."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sfi_widgets
from sfi_widgets.assets import STATIC, module
from sfi_widgets.panel import Panel

ROOT = Path(__file__).parents[2]
NAMES = [getattr(sfi_widgets, name) for name in sfi_widgets.__all__]
PANELS = [c for c in NAMES if isinstance(c, type) and issubclass(c, Panel)]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.__name__)
def test_joined_module_imports_nothing_and_has_one_export(panel):
    text = str(panel._esm)
    assert not re.search(r"^import ", text, re.MULTILINE), "a widget's module can't import its neighbours"
    assert re.findall(r"^export .*", text, re.MULTILINE) == ["export default { render };"]
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names)), f"two parts share a name: {sorted(n for n in names if names.count(n) > 1)}"


def test_front_end_names_no_outside_address():
    for path in STATIC.iterdir():
        assert "http" not in path.read_text(encoding="utf-8"), path.name


def test_joining_is_complete():
    for name in ("support_map.mjs", "controls.mjs"):
        assert "// core.mjs" in module(name) and "// ui.mjs" in module(name)


def test_pure_functions_under_node():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: apt-get install -y nodejs runs the front end's own tests")
    files = sorted(str(path) for path in (ROOT / "tests" / "js").glob("*.test.mjs"))
    done = subprocess.run([node, "--test", *files], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_import_loads_neither_torch_nor_a_panel():
    """A notebook's first cell imports all panels by one name; what they need comes with the first that is shown."""
    code = (
        "import sys, sfi_widgets; assert 'Workbench' in dir(sfi_widgets);"
        "print([m for m in ('torch', 'matplotlib', 'sfi_lab.methods', 'sfi_widgets.workbench') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_name_has_its_module_and_others_do_not_exist():
    assert all(one is not None for one in NAMES)
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        _ = sfi_widgets.nonesuch
