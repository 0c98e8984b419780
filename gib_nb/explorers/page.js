const page = JSON.parse(document.getElementById("gib-data").textContent), root = document.getElementById("gib-root");
const at = Object.fromEntries(page.controls.map((c) => [c.name, c.at])), setters = {};
const make = (tag, attributes, ...children) => { const e = document.createElement(tag); Object.assign(e, attributes); e.append(...children); return e; };
const bar = make("div", {className: "gib-controls"}), boxes = {};
for (const c of page.controls) {
  const id = "gib-" + c.name, label = make("label", {htmlFor: id, title: c.help}, c.label);
  if (c.kind === "slider") {
    const input = make("input", {id, type: "range", min: 0, max: c.texts.length - 1, step: 1}), output = make("output", {htmlFor: id});
    setters[c.name] = (i) => { input.value = i; output.textContent = c.texts[i]; input.setAttribute("aria-valuetext", c.texts[i]); };
    input.addEventListener("input", () => move(c.name, +input.value));
    bar.append(make("span", {}, label, input, output));
  } else if (c.kind === "toggle") {
    const input = make("input", {id, type: "checkbox"});
    setters[c.name] = (i) => { input.checked = i === 1; };
    input.addEventListener("change", () => move(c.name, +input.checked));
    bar.append(make("span", {}, input, label));
  } else {
    const input = make("select", {id}, ...c.texts.map((text, i) => make("option", {value: i}, text)));
    setters[c.name] = (i) => { input.value = i; };
    input.addEventListener("change", () => move(c.name, +input.value));
    bar.append(make("span", {}, label, input));
  }
}
for (const f of page.fixed) bar.append(make("span", {className: "gib-note"}, `${f.label}: ${f.text}`));
root.append(bar);
const rowOf = (row) => make("div", {className: "gib-row"}, ...row.map((name) => boxes[name] = make("div", {className: "gib-panel"})));
root.append(...page.rows.map(rowOf));
if (self === top) root.classList.add("gib-alone");
if (page.more.rows.length) {
  const more = make("details", {className: "gib-more"}, make("summary", {}, page.more.title), ...page.more.rows.map(rowOf));
  more.addEventListener("toggle", () => more.querySelectorAll(".gib-plot").forEach((box) => Plotly.Plots.resize(box)));
  root.append(more);
}
const names = [...page.rows, ...page.more.rows].flat(), shown = {};
async function show() {
  const contents = page.states[page.controls.map((c) => at[c.name]).join(",")];
  page.controls.forEach((c) => setters[c.name](at[c.name]));
  for (const [k, name] of names.entries()) {
    if (shown[name] === contents[k]) continue;
    shown[name] = contents[k];
    const content = page.contents[contents[k]], box = boxes[name];
    if (typeof content === "string") { box.innerHTML = content; continue; }
    const first = !box.data; box.classList.add("gib-plot");
    await gibFigures.draw(Plotly, box, structuredClone(content), `${document.title}: ${name}`);
    if (first) box.on("plotly_click", ({points}) => { const name = points.map((p) => p.customdata).find((v) => v in at); if (name) move(name, 1 - at[name]); });
  }
  gibFigures.reach(root, ".gib-panel, .gib-panel > div");
}
function move(name, i) { at[name] = i; show(); }
show().then(() => { document.body.dataset.height = Math.ceil(root.getBoundingClientRect().bottom + 12); });
