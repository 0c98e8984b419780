"""Python in the browser: bytes, seconds, and memory until the first figure (of a lesson: until all its cells have run), how fast sliders answer, and a class of thirty at one server of files.

A visitor comes with an empty cache, then again with what the browser has kept. Memory is that of all processes of Chromium. The class fetches the same files as a first visit, all thirty at once;
their browsers would need more computers than one. The server is `python -m http.server`. Pyodide's runtime is read from the folder GIB_NB_PYODIDE.
"""

import concurrent.futures
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from urllib.parse import unquote

import psutil

from tests.browser import serving
from tests.browser.acting import drawn, run_all, sliders

sys.path.insert(0, str(serving.ROOT / "docs"))
import lite  # noqa: E402, lies in docs

FIRST = "() => document.querySelector('.gib-plot[data-rev]') !== null"


def memory() -> int:
    "Memory of the browsers that this process started, what they share counted by parts."
    found = [each for each in psutil.Process().children(recursive=True) if "chrom" in each.name()]
    return round(sum(each.memory_full_info().pss for each in found) / 1e6)


def fetched(folder, since: int = 0) -> list:  # of paths
    "The files that the server has sent since it had sent so many."
    asked = re.findall(r'"GET /([^ ?]*)\S* HTTP/1.1" 200', (folder / "server.log").read_text())
    return [path for path in (folder / "site" / unquote(each) for each in asked) if path.is_file()][since:]


def visit(context, folder, address, arrive) -> dict:
    "Seconds until the first figure, bytes that were fetched, and memory; `page` and `files` too."
    page, before, start = context.new_page(), len(fetched(folder)), time.monotonic()
    page.goto(address, wait_until="domcontentloaded")
    arrive(page)
    page.wait_for_function(FIRST)
    seconds, files = round(time.monotonic() - start, 1), fetched(folder, before)
    megabytes_sent = round(sum(path.stat().st_size for path in files) / 1e6, 1)
    return {"seconds": seconds, "fetched_mb": megabytes_sent, "memory_mb": memory(), "page": page, "files": files}


def answers(page, moves: int = 12) -> dict:
    "Milliseconds from a key on the first slider to the last change of a panel."
    page.evaluate(serving.WATCH)
    keys = ["ArrowRight", "ArrowLeft"] * (moves // 2)
    times = [serving.answer_ms(page, sliders(page).first, key, quiet=1.0) for key in keys]
    times = [each for each in times if each is not None]
    return {"median_ms": round(statistics.median(times)), "max_ms": round(max(times)), "moves": len(times)}


def classroom(urls, clients: int = 30) -> dict:
    "All clients fetch all files at the same time; each waits for one file before it asks for the next."

    def client(_):
        start = time.monotonic()
        count = sum(len(urllib.request.urlopen(url).read()) for url in urls)
        return time.monotonic() - start, count

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        seconds, counts = zip(*pool.map(client, range(clients)))
    total = sum(counts) / 1e6
    return {
        "clients": clients,
        "files": len(urls),
        "mb_each": round(counts[0] / 1e6, 1),
        "seconds_median": round(statistics.median(seconds), 1),
        "seconds_last": round(max(seconds), 1),
        "mb_per_second": round(total / (time.monotonic() - start)),
        "seconds_at_1_gbit": round(total * 8 / 1000, 1),
    }


def run() -> dict:
    load, runtime = os.getloadavg()[0], pathlib.Path(os.environ["GIB_NB_PYODIDE"])
    places = {
        "lesson_1": (lite.notebook_link(serving.ROOT / "nbs" / "lessons" / "01_bits.ipynb"), run_all),
        "beta_explorer": (lite.explorer_link("BetaExplorer()", ""), drawn),
    }
    found = {"load_before": round(load, 1)}
    with tempfile.TemporaryDirectory() as folder, serving.chromium() as browser:
        folder = pathlib.Path(folder)
        lite.build(folder / "source", folder / "site" / "lite", runtime)
        with serving.file_server(folder / "site") as address:
            for name, (link, arrive) in places.items():
                context = browser.new_context(viewport={"width": 1280, "height": 900})
                first = visit(context, folder, f"{address}/{link}", arrive)
                page, files = first.pop("page"), first.pop("files")
                found[name] = {"first": first} | ({"slider": answers(page)} if name == "beta_explorer" else {})
                page.close()
                again = visit(context, folder, f"{address}/{link}", arrive)
                found[name]["again"] = {key: again[key] for key in ("seconds", "fetched_mb", "memory_mb")}
                context.close()
            found["class"] = classroom([f"{address}/{path.relative_to(folder / 'site')}" for path in files])
    return found
