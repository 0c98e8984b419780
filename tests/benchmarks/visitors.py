"""Twenty visitors of `gib-nb app` at once, each moving sliders for a minute: how fast the page answers, what each costs, and whether any is lost.

The server, all kernels and the browser with its twenty pages share the cores of this machine. Each visitor has a browser context and a kernel of their own, and a tab of the page; they press a
key about once a second. An answer is measured in the page, from the key to the last change of any panel that it caused.
"""

import os
import pathlib
import random
import tempfile

from gib_nb.explorers.registry import TITLES
from tests.benchmarks.explorers import arrive, figures
from tests.browser import serving
from tests.browser.acting import changes, open_tab, sliders

DRIVE = """([seconds, pause]) => { globalThis.gibVisit = (async () => {
  const rest = (ms) => new Promise((done) => setTimeout(done, ms));
  const handles = () => [...document.querySelectorAll(".gib-explorer [role=slider]")].filter((e) => e.offsetParent !== null);
  const times = [], silent = [], keys = {}, end = performance.now() + 1000 * seconds;
  for (let turn = 0; performance.now() < end; turn++) {
    const all = handles(), handle = all[turn % all.length], name = turn % all.length;
    const at = handle.getAttribute("aria-valuenow");
    gibChanges.length = 0;
    handle.dispatchEvent(new KeyboardEvent("keydown", {key: keys[name] ?? "ArrowRight", bubbles: true, cancelable: true}));
    const start = performance.now();
    await rest(pause * (.75 + .5 * Math.random()));
    if (handle.getAttribute("aria-valuenow") === at) { keys[name] = keys[name] === "ArrowLeft" ? "ArrowRight" : "ArrowLeft"; continue; }
    if (gibChanges.length) times.push(gibChanges[gibChanges.length - 1] - start); else silent.push(name);
  }
  return {times, silent: silent.length};
})(); }"""


def processes() -> dict:
    "Parent of each process that runs, as far as we may look."
    found = {}
    for path in pathlib.Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                found[int(path.name)] = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
    return found


def kernels() -> list:
    "Process numbers of the kernels that servers of this process started."
    parents, mine = processes(), {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return [child for child in mine if b"ipykernel" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()]


def own_megabytes(process: int) -> float:
    "Memory of a process, what it shares with others counted by parts."
    lines = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def visit(visitors: int = 20, seconds: int = 60, pause: int = 1000) -> dict:
    dice = random.Random(0)
    with (
        serving.chromium() as browser,
        tempfile.TemporaryDirectory() as folder,
        serving.page_server(pathlib.Path(folder)) as address,
    ):
        pages, ready = arrive(browser, address, visitors)
        for number, page in enumerate(pages):
            open_tab(page, list(TITLES.values())[number % len(TITLES)])
            page.evaluate(serving.WATCH)
        for page in pages:
            page.evaluate(DRIVE, [seconds, pause * dice.uniform(0.9, 1.1)])
        found = [page.evaluate("() => globalThis.gibVisit") for page in pages]
        memory = [own_megabytes(kernel) for kernel in kernels()]
        answering = 0
        for page in pages:
            slider = sliders(page).first
            changes(
                page,
                lambda: slider.press(
                    "ArrowLeft"
                    if slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemax")
                    else "ArrowRight"
                ),
            )
            answering += 1
        tabs = {
            title: figures([time for one in found[number :: len(TITLES)] for time in one["times"]])
            for number, title in enumerate(TITLES.values())
            if number < visitors
        }
        return {
            "visitors": visitors,
            "seconds_each": seconds,
            "all_ready_s": ready,
            "all": figures([time for one in found for time in one["times"]]),
            "by_tab": tabs,
            "moves_without_a_change": sum(one["silent"] for one in found),
            "kernels": len(memory),
            "megabytes_per_session": {"mean": round(sum(memory) / len(memory)), "max": round(max(memory))},
            "answering_at_the_end": answering,
            "lost": visitors - answering,
        }


def run() -> dict:
    return visit()
