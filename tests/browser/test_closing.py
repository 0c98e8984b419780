"""Nothing is left behind: a closed page ends its kernel, and with it a training."""
import os
import pathlib
import time

import pytest

from . import serving
from .acting import open_page

pytestmark = pytest.mark.skipif(not pathlib.Path("/proc").is_dir(), reason="needs /proc to see processes")


def kernels(parent):
    "Kernel processes that descend from a process."
    children = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            children.setdefault(int(fields[1]), []).append((int(folder.name), (folder / "cmdline").read_text()))
        except (FileNotFoundError, ProcessLookupError):
            continue
    found, waiting = set(), [parent]
    while waiting:
        for process, command in children.get(waiting.pop(), []):
            waiting.append(process)
            found |= {process} if "ipykernel" in command else set()
    return found


@pytest.mark.parametrize("leave", [lambda page: page.close(run_before_unload=True), lambda page: page.goto("about:blank"), lambda page: page.reload()],
                         ids=["closed", "left", "loaded again"])
def test_leaving_the_page_ends_its_kernel_and_its_training(browser, tmp_path, leave):
    with serving.page_server(tmp_path) as address:
        page = browser.new_context().new_page()
        open_page(page, address)
        time.sleep(3)  # the server starts a kernel for the next visitor
        page.get_by_role("button", name="▶ Train live").locator("visible=true").click()
        before = kernels(os.getpid())
        assert before
        leave(page)
        end = time.monotonic() + 20
        while before <= kernels(os.getpid()) and time.monotonic() < end:
            time.sleep(.2)
        assert len(before - kernels(os.getpid())) == 1
    assert kernels(os.getpid()) == set()
