"""What a visitor does, and what a visitor sees. Everything here waits for a state of the page, however long it takes to be reached."""
import functools
import json
import time

import gib_nb.explorers
from gib_nb.explorers.app import TABS

PATIENCE_MS = 600_000  # so that a test that waits in vain ends at all; a busy machine has all the time it needs

# Everything that the panels of the visible explorer show: the data of the figures, and the words
SHOWN = """() => {
  const seen = (e) => e.offsetParent !== null;
  const figures = [...document.querySelectorAll(".gib-explorer .gib-plot")].filter(seen).map((e) => JSON.stringify([e.data, e.layout?.shapes, e.layout?.annotations]));
  const words = [...document.querySelectorAll(".gib-explorer .widget-html-content")].filter(seen).map((e) => e.innerHTML);
  return figures.concat(words).join("\\n");
}"""
# Whether the visible explorer has drawn all of its figures, of which there are so many
DRAWN = """(figures) => {
  const explorer = [...document.querySelectorAll(".gib-explorer")].find((e) => e.offsetParent !== null);
  if (!explorer) return false;
  const plots = [...explorer.querySelectorAll(".gib-plot")].filter((e) => e.offsetParent !== null);
  return plots.length >= figures && plots.every((e) => e.dataset.rev) && (figures > 0 || explorer.querySelector("svg") !== null);
}"""


@functools.cache
def figures_of(name):
    "How many figures an explorer has."
    explorer = getattr(gib_nb.explorers, name)
    without_model = {"smiles": ""} if "Molecule" in name else {}  # no model is needed to count
    return sum(not isinstance(panel, str) for panel in explorer(**without_model).panels().values())


def drawn(page, name="BetaExplorer"):
    "Wait until an explorer is there with all of its figures."
    page.wait_for_function(DRAWN, arg=figures_of(name))


def until(condition):
    "Wait for something outside of the page."
    end = time.monotonic() + PATIENCE_MS / 1000
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(.1)


def open_page(page, address):
    page.goto(address, wait_until="domcontentloaded")
    drawn(page)


def open_tab(page, title):
    page.get_by_role("tab", name=title, exact=True).click()
    drawn(page, TABS[title])


def sliders(page):
    return page.locator(".gib-explorer [role=slider]:visible")


def changes(page, act):
    "Do something and wait until a panel shows something else."
    before = page.evaluate(SHOWN)
    act()
    page.wait_for_function(f"(before) => ({SHOWN})() !== before", arg=before)


def move(page, slider):
    "One place to the right; from the last place, one to the left."
    at_end = slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemax")
    changes(page, lambda: slider.press("ArrowLeft" if at_end else "ArrowRight"))


def type_smiles(page, text):
    "Fill the field of the molecules and press Enter."
    field = page.locator(".gib-explorer input[type=text]:visible").first

    def act():
        field.fill(text)
        field.press("Enter")

    changes(page, act)
    return field


def nameless(page):
    "Controls that a screen reader could not name."
    return json.loads(page.evaluate("""() => {
      const named = (e) => e.getAttribute("aria-label") || e.textContent.trim() || e.title || e.labels?.length || document.querySelector(`label[for="${e.id}"]`);
      const all = [...document.querySelectorAll(".gib-explorer :is(input, select, button, textarea, [role=slider])")].filter((e) => e.offsetParent !== null);
      return JSON.stringify(all.filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 200)));
    }"""))
