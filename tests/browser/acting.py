"""What a visitor does, and what a visitor sees."""
import json

# Everything that the panels of the visible explorer show: the data of the figures, and the words
SHOWN = """() => {
  const seen = (e) => e.offsetParent !== null;
  const figures = [...document.querySelectorAll(".gib-explorer .gib-plot")].filter(seen).map((e) => JSON.stringify([e.data, e.layout?.shapes, e.layout?.annotations]));
  const words = [...document.querySelectorAll(".gib-explorer .widget-html-content")].filter(seen).map((e) => e.innerHTML);
  return figures.concat(words).join("\\n");
}"""
READY = """() => {
  const explorer = [...document.querySelectorAll(".gib-explorer")].find((e) => e.offsetParent !== null);
  if (!explorer) return false;
  const plots = [...explorer.querySelectorAll(".gib-plot")].filter((e) => e.offsetParent !== null);
  return plots.length === 0 ? explorer.querySelector("svg") !== null : plots.every((e) => e.dataset.rev);
}"""


def open_page(page, address):
    page.goto(address, wait_until="domcontentloaded")
    page.wait_for_function(READY)


def open_tab(page, title):
    page.get_by_role("tab", name=title, exact=True).click()
    page.wait_for_function(READY)


def sliders(page):
    return page.locator(".gib-explorer [role=slider]:visible")


def changes(page, act):
    "Do something and wait until a panel shows something else."
    before = page.evaluate(SHOWN)
    act()
    page.wait_for_function(f"(before) => ({SHOWN})() !== before", arg=before, timeout=20_000)


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
