"""The explorers in a browser: how fast sliders answer, how long a cold start takes, and ten visitors at once.

The answer is measured in the page: from the key press on a slider to the last change of any panel that it caused. The server and the browser share
the cores of this machine. Each explorer is measured by itself, on each of its sliders, after one unmeasured tour.
"""

import pathlib
import statistics
import tempfile
import time

from gib_nb.explorers.registry import TITLES
from tests.benchmarks.common import write
from tests.browser import serving
from tests.browser.acting import open_page, open_tab, sliders

BARS = {"p95_ms": 100, "cold_start_s": 15}


def percentile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def figures(times):
    return {
        "moves": len(times),
        "p50_ms": round(statistics.median(times), 1),
        "p95_ms": round(percentile(times, 0.95), 1),
        "max_ms": round(max(times), 1),
    }


def tour(page, slider, moves):
    "Times of moves up and down a slider."
    times, key, left = [], "ArrowRight", moves
    while left:
        at = slider.get_attribute("aria-valuenow")
        taken = serving.answer_ms(page, slider, key)
        if slider.get_attribute("aria-valuenow") == at:  # at its end
            key = "ArrowLeft" if key == "ArrowRight" else "ArrowRight"
            continue
        left -= 1
        times += [] if taken is None else [taken]  # None: no panel depends on this step
    return times


def latencies(browser, address, moves=60):
    "p50 and p95 of each explorer over all of its sliders."
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    open_page(page, address)
    page.evaluate(serving.WATCH)
    table = {}
    for title in TITLES.values():
        open_tab(page, title)
        time.sleep(1)
        found, times = sliders(page), []
        for k in range(found.count()):
            slider = found.nth(k)
            slider.focus()
            tour(page, slider, 6)
            times += tour(page, slider, moves)
        table[title] = figures(times)
        print(title, table[title], flush=True)
    page.context.close()
    return table


def cold_starts(browser, rounds=5):
    "Seconds from the start of the server to a page that answers, each with a server of its own."
    seconds = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            with serving.page_server(pathlib.Path(folder)) as address:
                page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
                open_page(page, address)
                seconds.append(time.monotonic() - start)
                page.context.close()
    return {
        "seconds": [round(value, 2) for value in seconds],
        "median_s": round(statistics.median(seconds), 2),
        "max_s": round(max(seconds), 2),
    }


def arrive(browser, address, visitors):
    "Pages of so many visitors who come at once, and the seconds until all of them see it."
    start, pages = time.monotonic(), []
    for _ in range(visitors):
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.set_default_timeout(300_000)
        page.goto(address, wait_until="commit")
        pages.append(page)
    for page in pages:
        open_tab(page, "β")
    return pages, round(time.monotonic() - start, 1)


def crowd(browser, address, visitors=10, moves=12):
    "Ten visitors who move the first slider of one tab in turns, the others' pages open; and the time until all ten see the page."
    (pages, ready), times = arrive(browser, address, visitors), []
    for page in pages:
        page.evaluate(serving.WATCH)
        times += tour(page, sliders(page).first, moves)
    for page in pages:
        page.context.close()
    return {"visitors": visitors, "all_ready_s": ready} | figures(times)


def run():
    "Each part is written as soon as it is there."
    result = {"bars": BARS}
    with serving.chromium() as browser:
        for name, measure in (
            ("cold_start", lambda folder: cold_starts(browser)),
            ("latency", lambda folder: served(latencies, browser, folder)),
            ("ten_at_once", lambda folder: served(crowd, browser, folder)),
        ):
            with tempfile.TemporaryDirectory() as folder:
                result[name] = measure(pathlib.Path(folder))
            print(name, result[name], flush=True)
            write("explorers", result)
    return result


def served(measure, browser, folder):
    "Measure with a server of its own."
    with serving.page_server(folder) as address:
        return measure(browser, address)


if __name__ == "__main__":
    import json

    print(json.dumps(run(), indent=1))
