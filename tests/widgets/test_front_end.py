"""The ES modules: joined without loss, and their pure functions under node's own test runner."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import sfi_widgets
from sfi_widgets.assets import STATIC, module
from sfi_widgets.panel import Panel

ROOT = Path(__file__).parents[2]
PANELS = [c for c in vars(sfi_widgets).values() if isinstance(c, type) and issubclass(c, Panel)]


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
