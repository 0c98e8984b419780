// One plotly.js for the page: one view asks for it, all that wait get it. A kernel that runs a cell answers after that, however long it takes; only one that has ended does not.
const page = globalThis.__gibPlotly ??= {library: null, asker: null, since: 0, waiting: new Set()};
const load = (source) => {
  const module = {exports: {}};
  new Function("module", "exports", "define", new TextDecoder().decode(source))(module, module.exports, undefined);
  return module.exports;
};
// anywidget drops all messages to a model that took more than two seconds to start, for ever, which happens on a busy machine; here they are read all the same.
// A model of anywidget is reached as the context of a listener; its own reader of messages is that of ipywidgets with a wait before it.
const hear = (model) => {
  const wake = function () {
    const whole = this?.model, read = whole && Object.getPrototypeOf(Object.getPrototypeOf(whole))?._handle_comm_msg;
    if (read) whole.comm?.on_msg(read.bind(whole));
  };
  model.on("change:_gib_hears", wake); model.set("_gib_hears", performance.now()); model.off("change:_gib_hears", wake);
};
// why nothing moves, in words; "" where all is well. ipywidgets marks what has lost its comm, the manager knows what became of the kernel
const trouble = (model, el) => {
  const kernel = model.widget_manager?.kernel, over = el.closest(".jupyter-widgets-disconnected") || kernel?.isDisposed || ["dead", "terminating"].includes(kernel?.status);
  if (over) return "The kernel has ended, so nothing moves here any more. Run the cell again, or load the page again.";
  return ["connecting", "disconnected"].includes(kernel?.connectionStatus) ? "The connection to the server is lost, so nothing moves here until it is back." : "";
};
const library = (model, el, say, signal) => new Promise((done, failed) => {
  const start = performance.now();
  const leave = () => { clearInterval(timer); page.waiting.delete(look); model.off("msg:custom", listen); if (page.asker === look) page.asker = null; };
  const look = () => {
    if (page.library) { leave(); done(page.library); return; }
    if (trouble(model, el)) { if (page.asker === look) page.asker = null; say(""); return; }
    const now = performance.now(), busy = model.widget_manager?.kernel?.status === "busy";
    if (!page.asker || (now - page.since > 20000 && !busy)) { page.asker = look; page.since = now; model.send({kind: "plotly.js"}); }
    if (now - start > 1500) say(busy ? "waiting for the kernel, which is running another cell …" : "waiting for the kernel …");
  };
  const listen = (message, buffers) => {
    if (message?.kind !== "plotly.js") return;
    try { page.library ??= load(buffers[0]); } catch (error) { leave(); failed(error); return; }
    for (const one of [...page.waiting]) one();
  };
  const timer = setInterval(look, 500);
  signal?.addEventListener("abort", leave);
  page.waiting.add(look); model.on("msg:custom", listen); look();
});
// one line for all figures of an explorer
const warn = (el, words) => {
  const where = el.closest(".gib-explorer") ?? el;
  let line = where.querySelector(":scope > .gib-trouble");
  if (!words) { line?.remove(); return; }
  if (!line) { line = document.createElement("p"); line.className = "gib-trouble gib-problem"; line.setAttribute("role", "alert"); where.prepend(line); }
  if (line.textContent !== words) line.textContent = words;
};
// the old object where nothing changed: plotly compares by identity and leaves alone what it knows
const keep = (old, fresh) => {
  if (!old || !fresh || typeof old !== "object" || typeof fresh !== "object") return fresh;
  if (JSON.stringify(old) === JSON.stringify(fresh)) return old;
  for (const name in fresh) fresh[name] = keep(old[name], fresh[name]);
  return fresh;
};
// ipywidgets shows the description of a slider beside it; a screen reader needs it on the handle, and whether a switch is on. What folds is a button for the keyboard, too
const nameControls = (explorer) => {
  for (const slider of explorer.querySelectorAll(".widget-hslider")) {
    const handle = slider.querySelector("[role=slider]"), label = slider.querySelector(".widget-label"), text = slider.querySelector(".widget-readout");
    if (handle && label) { handle.setAttribute("aria-label", label.textContent); handle.setAttribute("aria-valuetext", text?.textContent ?? ""); }
  }
  for (const button of explorer.querySelectorAll(".widget-toggle-button")) button.setAttribute("aria-pressed", button.classList.contains("mod-active"));
  for (const bar of explorer.querySelectorAll(".jupyter-widget-Collapse-header:not([role])")) {
    const open = () => bar.setAttribute("aria-expanded", bar.parentElement.classList.contains("jupyter-widget-Collapse-open"));
    bar.tabIndex = 0; bar.setAttribute("role", "button"); open();
    bar.addEventListener("keydown", (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); bar.click(); } });
    new MutationObserver(open).observe(bar.parentElement, {attributeFilter: ["class"]});
  }
  gibFigures.reach(explorer, ".widget-html-content, .widget-html-content > div");
};
async function render({model, el, signal}) {
  hear(model);
  const box = document.createElement("div"); box.className = "gib-plot"; el.append(box);
  const watch = setInterval(() => warn(el, trouble(model, el)), 1000);
  signal?.addEventListener("abort", () => clearInterval(watch));
  const say = (words) => { if (box.textContent !== words) box.textContent = words; };
  box.setAttribute("role", "status");
  let plotly;
  try { plotly = await library(model, el, say, signal); } catch (error) { say(error.message); return; }
  say("");
  let busy = false, again = false, drawn = null, traces = null;
  const draw = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const {rev, ...figure} = JSON.parse(model.get("spec")), {data, layout} = gibFigures.fitted(figure, box.clientWidth);
      const {shapes = [], ...rest} = layout, frame = JSON.stringify([data, rest]);
      if (frame === drawn) await plotly.relayout(box, {shapes});  // only marks moved: far cheaper than drawing anew
      else await plotly.react(box, traces = keep(traces, data), layout, {responsive: true, displayModeBar: false});
      drawn = frame;
      if (!box.dataset.rev) box.on("plotly_click", ({points}) => {
        const name = points.map((point) => point.customdata).find((value) => typeof value === "string");
        if (name) model.send({kind: "click", name});
      });
      gibFigures.describe(box, model.get("label"));
      box.dataset.rev = rev;
      nameControls(box.closest(".gib-explorer") ?? el);
    } finally { busy = false; }
    if (again) { again = false; draw(); }
  };
  model.on("change:spec", draw);
  await draw();
  const sizes = new ResizeObserver(async () => { if (box.offsetParent) { await draw(); plotly.Plots.resize(box); } });
  sizes.observe(el);
  const leave = () => model.send({kind: "closed"});
  model.send({kind: "opened", rev: JSON.parse(model.get("spec")).rev}); addEventListener("pagehide", leave);
  return () => { clearInterval(watch); removeEventListener("pagehide", leave); leave(); sizes.disconnect(); model.off("change:spec", draw); plotly.purge(box); };
}
export default { render };
