"""A real JupyterLab and Debian's Chromium, for screenshots, latency measurements and browser tests. Nothing leaves 127.0.0.1."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOW_TO_GET_CHROMIUM = (
    "no chromium found: apt-get install -y --no-install-recommends chromium fonts-dejavu-core (or set SFI_CHROMIUM)"
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
_APPEARANCE = '{"theme": "%s"}'
_RUN_ALL = """async () => {
  const app = window.jupyterapp; await app.restored;
  const w = app.shell.currentWidget; await w.context.ready; await w.sessionContext.ready;
  await w.sessionContext.session.kernel.info;
  return await app.commands.execute('notebook:run-all-cells'); }"""


def chromium_path() -> str | None:
    """The browser to use: SFI_CHROMIUM, or chromium on the PATH."""
    return os.environ.get("SFI_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    if path is None:
        raise SystemExit(HOW_TO_GET_CHROMIUM)
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        try:
            yield instance
        finally:
            instance.close()


@dataclass(slots=True)
class Watch:
    """What a page did that it should not: requests to the outside (refused), errors, error lines of the console."""

    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def over(self, page: Any, allowed: str) -> None:
        """Lets only `allowed`, data: and blob: addresses through."""

        def gate(route: Any) -> None:
            if route.request.url.startswith((allowed, "data:", "blob:")):
                route.continue_()
            else:
                self.outside.append(route.request.url)
                route.abort()

        page.route("**/*", gate)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)


def frame_sizes(page: Any) -> list[int]:
    """Bytes of every frame that the page's websockets receive, a list that grows as they come."""
    sizes: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: sizes.append(len(data))))
    return sizes


@dataclass(frozen=True, slots=True)
class JupyterServer:
    """A running server: its address and token."""

    url: str
    token: str

    def open(self, page: Any, notebook: str, run: bool = True, timeout: float = 300) -> None:
        """Opens a notebook of the server's folder, runs all its cells, and waits for them."""
        page.goto(f"{self.url}/lab/tree/{notebook}?token={self.token}&reset")
        page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.sessionContext", timeout=60_000)
        if run:
            page.set_default_timeout(timeout * 1000)
            assert page.evaluate(_RUN_ALL) is True, "the notebook did not run to its end"


@contextmanager
def jupyter_server(
    folder: Path, theme: str = "JupyterLab Light", program: tuple[str, ...] = ("lab",)
) -> Iterator[JupyterServer]:
    """JupyterLab on `folder` with settings of its own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="sfi-lab-") as name:
        root = Path(name)
        settings = root / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text('{"fetchNews":"false","checkForUpdates":false}')
        (settings / "themes.jupyterlab-settings").write_text(_APPEARANCE % theme)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        token, url = secrets.token_hex(16), f"http://127.0.0.1:{port}"
        env = {
            **os.environ, "JUPYTER_CONFIG_DIR": str(root / "config"), "JUPYTER_DATA_DIR": str(root / "data"),
            "JUPYTER_RUNTIME_DIR": str(root / "runtime"), "IPYTHONDIR": str(root / "ipython"),
            "JUPYTERLAB_SETTINGS_DIR": str(root / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(root / "workspaces"),
        }  # fmt: skip
        command = [
            sys.executable, "-m", "jupyter", *program, "--no-browser", "--allow-root", "--expose-app-in-browser", "--ip=127.0.0.1",
            f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}",
        ]  # fmt: skip
        log = (root / "server.log").open("wb")
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            _wait(process, f"{url}/api/status?token={token}", root / "server.log")
            yield JupyterServer(url, token)
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
            log.close()


def _wait(process: subprocess.Popen, address: str, log: Path) -> None:
    for _ in range(240):
        try:
            urllib.request.urlopen(address, timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            time.sleep(0.25)
    raise AssertionError(log.read_text())
