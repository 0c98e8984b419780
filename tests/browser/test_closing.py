"""Nothing is left behind: a closed page ends its kernel, and with it a training. And a page that is left behind says so."""

import os
import pathlib
import signal

import pytest

from . import serving
from .acting import PATIENCE_MS, open_page, until

pytestmark = pytest.mark.skipif(not pathlib.Path("/proc").is_dir(), reason="needs /proc to see processes")


def children(parent):
    "Processes that descend from a process, as pairs (number, command)."
    below = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            below.setdefault(int(fields[1]), []).append((int(folder.name), (folder / "cmdline").read_text()))
        except (FileNotFoundError, ProcessLookupError):
            continue
    found, waiting = [], [parent]
    while waiting:
        for process in below.get(waiting.pop(), []):
            waiting.append(process[0])
            found.append(process)
    return found


def kernels(parent):
    "Kernel processes that descend from a process."
    return {process for process, command in children(parent) if "ipykernel" in command}


@pytest.mark.slow
@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(lambda page: page.close(run_before_unload=True), id="closed"),
        pytest.param(lambda page: page.goto("about:blank"), id="left"),
        pytest.param(lambda page: page.reload(), id="loaded again"),
    ],
)
def test_leaving_the_page_ends_its_kernel_and_its_training(browser, tmp_path, leave):
    with serving.page_server(tmp_path) as address:
        page = browser.new_context().new_page()
        page.set_default_timeout(PATIENCE_MS)
        open_page(page, address)
        until(lambda: len(kernels(os.getpid())) == 2)  # the server starts a kernel for the next visitor
        page.get_by_role("button", name="▶ Train live").locator("visible=true").click()
        before = kernels(os.getpid())
        leave(page)
        until(lambda: not before <= kernels(os.getpid()))
        assert len(before - kernels(os.getpid())) == 1
    until(lambda: kernels(os.getpid()) == set())


@pytest.fixture
def visited(page, tmp_path):
    "A page of a server of its own, opened, and the server."
    with serving.page_server(tmp_path) as address:
        open_page(page, address)
        yield page


@pytest.mark.slow
def test_a_page_whose_kernel_has_ended_says_so(visited):
    for kernel in kernels(os.getpid()):
        os.kill(kernel, signal.SIGKILL)
    visited.get_by_text("The kernel has ended").wait_for()


@pytest.mark.slow
def test_a_page_whose_server_is_gone_says_so(visited):
    for server, command in children(os.getpid()):
        if "voila" in command:
            os.kill(server, signal.SIGKILL)
    visited.get_by_text("The connection to the server is lost").wait_for()
