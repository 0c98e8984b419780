"""What a visitor does, and what a visitor sees. Everything here waits for a state of the page, however long it takes to be reached."""

import functools
import json
import time

import gib_nb.explorers
from gib_nb.explorers.registry import CLASSES, TITLES

PATIENCE_MS = 600_000  # so that a test that waits in vain ends at all; a busy machine has all the time it needs

# Everything that the panels of the visible explorer show: the data of the figures, and the words
SHOWN = """() => {
  const seen = (e) => e.offsetParent !== null;
  const figures = [...document.querySelectorAll(".gib-explorer .gib-plot")].filter(seen).map((e) => JSON.stringify([e.data, e.layout?.shapes, e.layout?.annotations]));
  const words = [...document.querySelectorAll(".gib-explorer .widget-html-content")].filter(seen).map((e) => e.innerHTML);
  return figures.concat(words).join("\\n");
}"""
# Whether the visible explorer has drawn all of its figures, of which there are so many, and waits for nothing: what it draws when its model has been loaded is no answer to what was typed.
# One with a field for molecules draws its bars last
DRAWN = """(figures) => {
  const explorer = [...document.querySelectorAll(".gib-explorer")].find((e) => e.offsetParent !== null);
  if (!explorer || [...explorer.querySelectorAll("[role=status]")].some((e) => e.textContent.includes("Loading the model"))) return false;
  const plots = [...explorer.querySelectorAll(".gib-plot")].filter((e) => e.offsetParent !== null);
  if (explorer.querySelector("input[type=text]") && !plots.at(-1)?.data?.some((trace) => trace.y?.length)) return false;
  return plots.length >= figures && plots.every((e) => e.dataset.rev) && (figures > 0 || explorer.querySelector("svg") !== null);
}"""


@functools.cache
def figures_of(name):
    "How many figures an explorer has, without those that are folded."
    explorer = getattr(gib_nb.explorers, name)
    without_model = {"smiles": ""} if "Molecule" in name else {}  # no model is needed to count
    made = explorer(**without_model)
    return sum(not isinstance(made.panel(panel), str) for row in made.layout for panel in row)


def drawn(page, name="BetaExplorer"):
    "Wait until an explorer is there with all of its figures."
    page.wait_for_function(DRAWN, arg=figures_of(name))


def until(condition):
    "Wait for something outside of the page."
    end = time.monotonic() + PATIENCE_MS / 1000
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def open_page(page, address, title="β"):
    "Open the page, and one of its tabs."
    page.goto(address, wait_until="domcontentloaded")
    open_tab(page, title)


def open_tab(page, title):
    page.get_by_role("tab", name=title, exact=True).click()
    drawn(page, next(name for name, explorer in CLASSES.items() if TITLES[explorer] == title))


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


def run_all(page):
    "Run all cells of a notebook of JupyterLite, and wait for the last."
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for()  # menus that still load would close
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function("""() => {
      const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].map((e) => e.textContent);
      return prompts.some((text) => /\\d/.test(text)) && !prompts.some((text) => text.includes("*"));
    }""")


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
    return json.loads(
        page.evaluate("""() => {
      const named = (e) => e.getAttribute("aria-label") || e.textContent.trim() || e.title || e.labels?.length || document.querySelector(`label[for="${e.id}"]`);
      const all = [...document.querySelectorAll(".gib-explorer :is(input, select, button, textarea, [role=slider])")].filter((e) => e.offsetParent !== null);
      return JSON.stringify(all.filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 200)));
    }""")
    )


def cut(page):
    "Tables of visible explorers that are wider than the place they have."
    return page.evaluate("""() => [...document.querySelectorAll(".gib-explorer table")].filter((e) => e.offsetParent !== null).map((e) =>
      [e.textContent.slice(0, 40), e.getBoundingClientRect().right - e.closest(".gib-panel, .widget-html-content").getBoundingClientRect().right]).filter(([, over]) => over > 1)""")


def unreadable(page, least=3):
    "Words of explorers whose contrast to what is behind them is below `least`; those in pictures stand on white and are left out."
    return page.evaluate(
        r"""(least) => {
      const number = (text) => { const canvas = document.createElement("canvas").getContext("2d"); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
      const light = (color) => { const [r, g, b] = color.slice(0, 3).map((c) => c / 255).map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
      const ground = (e) => { for (; e; e = e.parentElement) { const found = number(getComputedStyle(e).backgroundColor); if (found[3] > 200) return found; } return number("Canvas"); };
      const wrong = [];
      for (const e of document.querySelectorAll(".gib-explorer, .gib-explorer *")) {
        const words = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()).join(" ").trim();
        if (!/\p{L}/u.test(words) || e.closest("svg, .gib-plot, style, option, :disabled") || e.offsetParent === null) continue;
        const [dark, bright] = [light(number(getComputedStyle(e).color)), light(ground(e))].sort((a, b) => a - b);
        if ((bright + .05) / (dark + .05) < least) wrong.push([words.slice(0, 60), getComputedStyle(e).color, (bright + .05) / (dark + .05)]);
      }
      return wrong;
    }""",
        least,
    )
