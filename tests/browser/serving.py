"""Servers and a browser for tests and for the benchmark of the explorers."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from gib_nb.explorers.app import page_notebook, voila_command, voila_environment
from gib_nb.explorers.page import find_chromium

ROOT = pathlib.Path(__file__).parents[2]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(command, port, folder, patience=600, environment=os.environ):
    "Run a server in a session of its own; all that it started is gone afterwards."
    log = folder / "server.log"
    private = {
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "PYTHONPATH": str(ROOT),
        "GIB_NB_PROGRESS": str(folder / "progress.json"),
    }
    with log.open("w") as lines:
        server = subprocess.Popen(
            command,
            cwd=folder,
            stdout=lines,
            stderr=subprocess.STDOUT,
            env=environment | private,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + patience
        while not _listening(port):
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(
                    f"expected a server within {patience} s (got exit code {server.poll()})\n{log.read_text()[-3000:]}"
                )
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(120)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


def _listening(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
        return True
    return False


def page_server(folder, source=None):
    "The page of `gib-nb app`; or, with `source`, a page of that one cell."
    notebook = folder / "explorers.ipynb"
    text = page_notebook()
    if source is not None:
        import json

        record = json.loads(text)
        record["cells"][0]["source"] = source
        text = json.dumps(record)
    notebook.write_text(text)
    port = free_port()
    return serving(voila_command(notebook, port), port, folder, environment=voila_environment())


def lab_server(folder, root=ROOT / "nbs"):
    "JupyterLab on the project's notebooks, or others, without a token, on this machine alone. Scripts reach it as `jupyterapp`; like other front ends it asks a busy kernel after its cell, not beside it."
    port = free_port()
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension" / "kernels-settings.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"commsOverSubshells": "disabled"}')
    command = [
        sys.executable,
        "-m",
        "jupyter",
        "lab",
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        "--ServerApp.ip=127.0.0.1",
        "--IdentityProvider.token=",
        f"--ServerApp.root_dir={root}",
        "--LabApp.news_url=None",
        "--LabApp.expose_app_in_browser=True",
    ]
    return serving(command, port, folder)


def build_site(folder, *options):
    "The site with explorers of few states, built into a folder; returns the folder of its pages."
    command = [sys.executable, str(ROOT / "docs" / "build.py"), "--most", "60", *options, "--to", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return folder / "html"


def file_server(folder):
    "A plain web server for a folder."
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    return serving(command, port, folder.parent)


@contextlib.contextmanager
def chromium():
    "A browser without a window."
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


# Every change of a panel of an explorer is noted with its time, and so is every key press.
WATCH = """() => {
  globalThis.gibChanges = []; globalThis.gibKey = 0;
  addEventListener("keydown", () => { gibKey = performance.now(); }, true);
  const note = () => gibChanges.push(performance.now());
  new MutationObserver((all) => { if (all.some((m) => m.type === "attributes" || m.target.closest?.(".gib-explorer .widget-html-content"))) note(); })
    .observe(document.body, {subtree: true, childList: true, attributes: true, attributeFilter: ["data-rev"]});
}"""


def answer_ms(page, handle, key="ArrowRight", quiet=0.35):
    "Milliseconds from a key press on a slider to the last change that it caused, or None when nothing changed."
    page.evaluate("() => { gibChanges.length = 0; }")
    handle.press(key)
    time.sleep(quiet)
    return page.evaluate("() => gibChanges.length ? gibChanges[gibChanges.length - 1] - gibKey : null")
