"""Every command and snippet of README and docs runs, and what is generated is current."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from sfi_lab.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("kernels/sfi_kernels/*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks(language: str) -> list:
    """Every fenced block of a language, with the page it stands on."""
    found = []
    for page in PAGES:
        for number, (name, code) in enumerate(FENCE.findall(page.read_text(encoding="utf-8"))):
            if name == language:
                found.append(pytest.param(code, id=f"{page.name}-{number}"))
    return found


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A folder that looks like the repository's root, where snippets may write."""
    for name in ("data", "notebooks", "docs", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("code", blocks("python"))
def test_python_snippets_run(code, repository, tmp_path):
    script = tmp_path / "snippet.py"
    script.write_text(code, encoding="utf-8")
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("code", blocks("sql"))
def test_sql_snippets_run(code, repository):
    # DuckDB is not a dependency; polars' SQL speaks the same dialect once the file pattern is a table
    pattern = re.search(r"'([^']+\.parquet)'", code).group(1)
    table = pl.SQLContext(files=pl.scan_parquet(pattern))
    assert table.execute(code.replace(f"'{pattern}'", "files").rstrip().rstrip(";"), eager=True).height > 0


@pytest.mark.parametrize("code", blocks("bash"))
def test_commands_run(code, repository, monkeypatch):
    """`sfi-lab` lines run here; `make` lines are looked up in the Makefile (they would start this very test again)."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] == "make":
            assert words[1] in targets, f"the Makefile has no target {words[1]}"
        elif words[0] == "sfi-lab":
            assert main(words[1:]) == 0, line
        elif words[0] == "python":
            subprocess.run([sys.executable, *words[1:]], check=True)
        else:
            pytest.fail(f"no way to run {line!r}; teach this test or write it differently")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


def test_settings_page_is_current():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "make_settings_doc.py", "--check"])
    assert done.returncode == 0, "docs/settings.md is stale: run python scripts/make_settings_doc.py"


def test_equations_page_names_real_functions():
    from sfi_lab.selector import equations

    page = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
    named = re.findall(r"\| `(\w+)` \| `tests/selector/test_select.py` \|", page)
    assert all((ROOT / test).is_file() for test in re.findall(r"`(tests/\S+\.py)`", page))
    public = [
        name for name, value in vars(equations).items() if callable(value) and value.__module__ == equations.__name__
    ]
    assert set(named) == set(public), "docs/equations.md and sfi_lab/selector/equations.py name different functions"
