"""The house's rules: arrows between rooms, what must not exist, sizes of files, and what the wheel ships."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import sfi_lab

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "sfi_lab": ROOT / "sfi_lab",
    "sfi_kernels": ROOT / "kernels" / "sfi_kernels",
    "sfi_widgets": ROOT / "widgets" / "sfi_widgets",
}
TOP_ROOMS = {
    "figures",
    "cli",
    "bench",
    "studies",
    "runtime",
    "methods",
    "tasks",
    "evaluate",
}  # above or beside the core


def modules(package):
    return sorted(PACKAGES[package].rglob("*.py"))


def imports(path, lazily_too=True):
    """Dotted names that a file imports; without lazily_too only those at the module's level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if lazily_too else tree.body
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = ".".join(filter(None, [_parent(path, node.level), node.module]))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def _parent(path, level):
    """The package that a relative import of this level starts from; "" for an absolute one."""
    if level == 0:
        return ""
    root = next(folder for folder in PACKAGES.values() if path.is_relative_to(folder))
    return ".".join(path.parents[level - 1].relative_to(root.parent).parts)


def room(path):
    parts = path.relative_to(PACKAGES["sfi_lab"]).parts
    return parts[0] if len(parts) > 1 else Path(parts[0]).stem


def test_the_core_never_imports_widgets_figures_or_the_command_line():
    for path in modules("sfi_lab"):
        # the package's own __init__ is a table of contents and names every room
        if room(path) in TOP_ROOMS or path == PACKAGES["sfi_lab"] / "__init__.py":
            continue
        for name in imports(path):
            for above in (
                "sfi_widgets",
                "matplotlib",
                "plotly",
                "ipywidgets",
                "anywidget",
                "sfi_lab.figures",
                "sfi_lab.cli",
                "sfi_lab.bench",
                "sfi_lab.studies",
            ):
                assert name != above, f"{path} imports {name}"
                assert not name.startswith(above + "."), f"{path} imports {name}"


def test_only_the_command_line_imports_the_command_line_and_nobody_the_widgets():
    for path in modules("sfi_lab"):
        names = imports(path)
        if room(path) != "cli":
            assert not any(name.startswith("sfi_lab.cli") for name in names), path
        assert not any(name.split(".")[0] == "sfi_widgets" for name in names), path


def test_kernels_know_tensors_only():
    for path in modules("sfi_kernels"):
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & {"sfi_lab", "sfi_widgets", "transformers", "polars"}, f"{path}: {roots}"


def test_viewers_need_no_model():
    """Analysis, trace and widgets read recordings: none of them reaches for the decoder or for transformers when imported."""
    for package, rooms in (
        ("sfi_lab", {"analysis", "trace", "selector", "settings", "trigger", "memory", "attention"}),
        ("sfi_widgets", None),
    ):
        for path in modules(package):
            if rooms is not None and room(path) not in rooms:
                continue
            for name in imports(path, lazily_too=False):
                assert not name.startswith(
                    ("transformers", "sfi_lab.decoder", "sfi_lab.loading", "sfi_lab.lab", "sfi_lab.compat")
                ), f"{path}: {name}"


def test_the_selector_and_its_neighbours_do_not_know_the_rooms_above_them():
    below = {
        "settings": set(),
        "selector": {"settings"},
        "memory": set(),
        "attention": {"memory"},
        "sentences": set(),
        "trigger": {"sentences", "settings"},
    }
    for path in modules("sfi_lab"):
        if room(path) not in below:
            continue
        allowed = below[room(path)] | {room(path), "errors"}
        used = {name.split(".")[1] for name in imports(path, lazily_too=False) if name.startswith("sfi_lab.")}
        assert used <= allowed, f"{path} imports {used - allowed}"


def test_no_package_named_kernels_or_widgets():
    assert not (ROOT / "kernels" / "__init__.py").exists()
    assert not (ROOT / "widgets" / "__init__.py").exists()


def test_transformers_finds_no_module_named_kernels_here():
    """From the repository's root, where a folder of that name lies."""
    code = (
        "import importlib.util; spec = importlib.util.find_spec('kernels');"
        "assert spec is None or spec.origin is None, spec;"
        "from transformers.utils import import_utils; assert not import_utils.is_kernels_available();"
        "import transformers.integrations.hub_kernels; print('fine')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "fine"


@pytest.mark.parametrize("package", PACKAGES)
def test_files_stay_small(package):
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in modules(package)
    }
    long = {name: lines for name, lines in sizes.items() if lines > 400}
    assert not long, f"more than 400 lines: {long}"


def test_every_package_says_what_it_is():
    for package in PACKAGES:
        for path in modules(package):
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), (
                f"{path.relative_to(ROOT)} has no docstring"
            )


def test_public_names_import():
    for name in sfi_lab.__all__:
        assert getattr(sfi_lab, name) is not None, name
    assert set(sfi_lab.__all__) <= set(dir(sfi_lab))
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        _ = sfi_lab.nonesuch
    for name in (
        "analysis",
        "attention",
        "compat",
        "decoder",
        "loading",
        "memory",
        "selector",
        "sentences",
        "settings",
        "trace",
        "trigger",
    ):
        package = __import__(f"sfi_lab.{name}", fromlist=["*"])
        for public in getattr(package, "__all__", ()):
            assert hasattr(package, public), f"sfi_lab.{name}.{public}"


def test_importing_the_library_is_quick_for_those_who_read_traces():
    code = "import sys, sfi_lab; print([m for m in ('torch', 'transformers', 'matplotlib', 'sfi_widgets') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that nothing is left in the repository and no old build folder gets in."""
    import shutil

    copy, out = tmp_path_factory.mktemp("source") / "copy", tmp_path_factory.mktemp("wheel")
    skip = shutil.ignore_patterns(
        ".*", "build", "tests", "notebooks", "data", "*.egg-info", "__pycache__", "docs", "node_modules"
    )
    shutil.copytree(ROOT, copy, ignore=skip)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(out),
        str(copy),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_the_wheel_ships_three_packages_and_no_more(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_ships_every_module_and_the_front_ends(wheel):
    shipped = set(wheel.namelist())
    for package, folder in PACKAGES.items():
        for path in modules(package):
            assert f"{package}/{path.relative_to(folder).as_posix()}" in shipped, path
    for path in (PACKAGES["sfi_widgets"] / "static").iterdir():
        assert f"sfi_widgets/static/{path.name}" in shipped, path
