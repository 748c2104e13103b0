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
LONGEST = 300  # lines of a file

# Every room (a folder or a file of sfi_lab) with the rooms it may import, from the ground up: a room's own line stands below
# those of all that it imports. Everything may import errors.
ROOMS = {
    "errors": "",
    "processor": "",
    "small_png": "",
    "settings": "",
    "text": "",
    "memory": "",
    "sentences": "",
    "compat": "",
    "attention": "memory",
    "selector": "settings",
    "trigger": "settings sentences",
    "trace": "settings selector attention",
    "analysis": "settings memory sentences attention selector trigger trace",
    "loading": "compat",
    "methods": "settings attention selector",
    "decoder": "settings text memory sentences compat attention selector trigger trace loading methods",
    "lab": "settings sentences compat attention loading methods decoder",
    "runtime": "settings memory compat attention trigger trace decoder",
    "tasks": "text",
    "bench": "processor settings text selector loading lab runtime",
    "studies": "processor settings text memory sentences compat attention selector trigger trace analysis decoder tasks",
    "evaluate": "settings compat analysis methods decoder tasks studies",
    "figures": "small_png settings trace analysis methods",
    "cli": "settings text trace",
    "__init__": "",
}
# What a room names besides, in a function (imported when it is called) or for a type checker; not bound to go down.
LATER = {
    "methods": "loading",
    "tasks": "decoder",
    "decoder": "lab runtime",
    "lab": "runtime",
    "runtime": "sentences loading lab",
    "bench": "compat",
    "studies": "lab",
    "evaluate": "lab",
    "cli": "bench decoder evaluate figures lab loading methods runtime studies tasks",  # a command loads what it needs
    "__init__": "analysis decoder lab selector settings studies trace",  # the public names, each when asked for
}
WIDGETS = "errors small_png settings methods trace analysis"  # and `sfi_lab`'s own public names
DRAWING = ("sfi_widgets", "matplotlib", "plotly", "ipywidgets", "anywidget")


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


def rooms_of(names):
    """The rooms among dotted names."""
    return {name.split(".")[1] for name in names if name.startswith("sfi_lab.")} & set(ROOMS)


def test_every_room_has_its_line_and_arrows_go_down():
    assert {room(path) for path in modules("sfi_lab")} == set(ROOMS)
    seen = set()
    for name, allowed in ROOMS.items():
        assert set(allowed.split()) <= seen, f"{name} may import what stands below its line"
        seen.add(name)


@pytest.mark.parametrize("lazily_too", [False, True], ids=["when imported", "ever"])
def test_arrows_between_rooms(lazily_too):
    """No room imports another that its line doesn't name; in functions and type checks those of LATER as well."""
    wrong = []
    for path in modules("sfi_lab"):
        here = room(path)
        allowed = {here, "errors", *ROOMS[here].split(), *(LATER.get(here, "").split() if lazily_too else ())}
        wrong += [
            f"{path.relative_to(ROOT)} imports {name}" for name in sorted(rooms_of(imports(path, lazily_too)) - allowed)
        ]
    assert not wrong, "; ".join(wrong)


def test_only_figures_draw_and_nobody_imports_the_widgets():
    for path in modules("sfi_lab"):
        roots = {name.split(".")[0] for name in imports(path)} & set(DRAWING)
        assert roots <= ({"matplotlib"} if room(path) == "figures" else set()), f"{path} imports {roots}"


def test_widgets_read_traces_and_analysis():
    for path in modules("sfi_widgets"):
        used = rooms_of(imports(path))
        assert used <= set(WIDGETS.split()), f"{path.relative_to(ROOT)} imports {used - set(WIDGETS.split())}"


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


@pytest.mark.parametrize("folder", ["sfi_lab", "kernels", "widgets", "scripts", "tests"])
def test_files_stay_small(folder):
    files = [path for ending in ("py", "mjs", "css") for path in (ROOT / folder).rglob(f"*.{ending}")]
    sizes = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert sizes
    long = {name: lines for name, lines in sizes.items() if lines > LONGEST}
    assert not long, f"more than {LONGEST} lines: {long}"


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
