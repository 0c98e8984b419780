// What every page does with a figure of plotly: plots that stand side by side go below each other where there is no room, and a sentence says what is shown.
const gibFigures = (() => {
  const least = 210, between = 90;  // pixels: the width of a plot with its title; the room for the title of an axis and for that of the plot below
  const along = (value, [a, b], [c, d]) => c + (value - a) / (b - a) * (d - c);
  const axisOf = (letter, name) => (name ?? letter).replace(letter, `${letter}axis`);

  // a text in lines of so many letters
  const lines = (text, most) => text.split(" ").reduce((found, word) => {
    const last = found.at(-1);
    return last !== undefined && (last + word).replace(/<[^>]*>/g, "").length < most ? [...found.slice(0, -1), `${last} ${word}`] : [...found, word];
  }, []);
  // what a single plot needs on a narrow page: a title in several lines, and room for what is written at the ends of curves
  const narrow = (figure, width) => {
    const {layout} = figure, {title, annotations = [], height = 450} = layout, margin = {t: 100, r: 80, ...layout.margin};
    if (!width || width > 480) return figure;
    const parts = title?.text ? lines(title.text, (width - (margin.l ?? 80)) / 6.8) : [""], more = 18 * (parts.length - 1);
    const ends = annotations.some(({xanchor, xref = "x", xshift}) => xanchor === "left" && xref !== "paper" && xshift) ? 44 : 0;
    const named = title?.text ? {title: {...title, text: parts.join("<br>"), pad: {...title.pad, t: (title.pad?.t ?? 0) + (more && 10)}}} : {};
    return {...figure, layout: {...layout, ...named, height: height + more, margin: {...margin, t: margin.t + more, r: margin.r + ends}}};
  };
  // a figure for a width: the same one where its plots fit beside each other, otherwise one with rows of plots, each with its titles and marks
  const fitted = (given, width) => {
    const figure = narrow(given, width), {layout} = figure, left = (name) => layout[name].domain?.[0] ?? 0;
    const names = Object.keys(layout).filter((name) => /^xaxis\d*$/.test(name)).sort((a, b) => left(a) - left(b));
    const beside = names.every((name, i) => !i || layout[names[i - 1]].domain?.[1] <= left(name));
    const rows = Math.ceil(names.length / Math.max(1, Math.floor(width / least)));
    if (!width || !beside || rows < 2) return figure;
    const columns = Math.ceil(names.length / rows), {t = 100, b = 80} = layout.margin ?? {}, high = (layout.height ?? 450) - t - b;
    const whole = rows * high + (rows - 1) * between, result = structuredClone(layout), data = [...figure.data], taken = new Set();
    const plots = names.map((name, i) => {
      const start = (i % columns) / columns, top = 1 - Math.floor(i / columns) * (high + between) / whole;
      return {x: name, y: axisOf("y", layout[name].anchor), from: layout[name].domain, across: [start, start + 1 / columns - (columns > 1 ? .08 : 0)], up: [top - high / whole, top]};
    });
    const plotOf = (item, x) => {
      const named = plots.find((plot) => /^x\d*$/.test(item.xref ?? "x") && plot.x === axisOf("x", item.xref));
      return named ?? plots.findLast((plot) => x >= plot.from[0] - .01) ?? plots[0];
    };
    for (const plot of plots) {
      const own = taken.has(plot.y) ? `yaxis${names.length + taken.size + 1}` : plot.y, short = own.replace("axis", "");
      taken.add(own);
      result[plot.x] = {...result[plot.x], domain: plot.across, anchor: short};
      result[own] = {...layout[plot.y], domain: plot.up, anchor: plot.x.replace("axis", ""), ...(layout[plot.y]?.matches && {showticklabels: true})};
      if (own !== plot.y) data.forEach((trace, i) => { if (axisOf("x", trace.xaxis) === plot.x) data[i] = {...trace, yaxis: short}; });
      plot.own = short;
    }
    const move = (item, xs, ys) => {
      const {from, across, up, own} = plotOf(item, item[xs[0]]);
      for (const key of xs) if (item.xref === "paper") item[key] = along(item[key], from, across);
      if (item.yref === "paper") for (const key of ys) item[key] = along(item[key], [0, 1], up);
      else item.yref = own;
    };
    for (const note of result.annotations ?? []) move(note, ["x"], ["y"]);
    for (const shape of result.shapes ?? []) move(shape, ["x0", "x1"], ["y0", "y1"]);
    if (result.legend?.y < 0) result.legend.y *= high / whole;
    return {...figure, data, layout: {...result, height: whole + t + b}};
  };

  const plain = (text) => String(text?.text ?? text ?? "").replace(/<br\s*\/?>/g, ", ").replace(/<sub>/g, "_").replace(/<[^>]*>/g, "").trim();
  const shown = (value) => typeof value === "number" ? `${+value.toPrecision(3)}`.replace("-", "−") : plain(value);
  const range = (values) => values.length ? `from ${shown(Math.min(...values))} to ${shown(Math.max(...values))}` : "without values";
  const numbers = (values) => Array.from(values ?? []).flatMap((value) => value?.length && typeof value !== "string" ? Array.from(value) : [value]).filter((value) => typeof value === "number" && isFinite(value));
  // a trace in words: the ends of a curve, the bars where they are few, otherwise the range
  const words = (trace) => {
    const name = plain(trace.name) || {bar: "bars", heatmap: "a map"}[trace.type] || (trace.mode === "markers" ? "points" : "a curve");
    const x = Array.from(trace.x ?? []), y = Array.from(trace.y ?? []);
    if (trace.z) return `${name} with values ${range(numbers(trace.z))}`;
    if (trace.type === "bar") {
      const [places, values] = trace.orientation === "h" ? [y, x] : [x, y];
      return places.length <= 6 ? `${name}: ${places.map((place, i) => `${shown(place)} ${shown(values[i])}`).join(", ")}` : `${name} with ${places.length} values ${range(numbers(values))}`;
    }
    if (trace.mode === "markers" || x.length < 3) return `${name}: ${x.length === 1 ? `${shown(y[0])} at ${shown(x[0])}` : `${x.length} ${range(numbers(y))}`}`;
    const last = y.length - 1;
    return `${name}, from ${shown(y[0])} at ${shown(x[0])} to ${shown(y[last])} at ${shown(x[last])}`;
  };
  // what a drawn figure shows now, in one sentence
  const sentence = (box, title) => {
    const {data, layout} = box, axes = ["y", "x"].map((axis) => plain(layout[`${axis}axis`]?.title)).filter(Boolean).join(" against ");
    const seen = data.filter((trace) => trace.hoverinfo !== "skip" && trace.visible !== false && (trace.x ?? trace.y ?? trace.z)?.length);
    const notes = (layout.annotations ?? []).map(plain).filter((text) => /\p{L}/u.test(text));
    const rings = (layout.shapes ?? []).filter(({type, xanchor}) => type === "circle" && xanchor !== undefined).map(({xanchor, yanchor}) => `the ring is at ${shown(yanchor)} at ${shown(xanchor)}`);
    const parts = [axes, ...rings, ...seen.slice(0, 4).map(words), seen.length > 4 ? `and ${seen.length - 4} more` : "", ...notes.slice(0, 6)].filter(Boolean);
    return `${title}: ${parts.join("; ") || "an empty plot"}.`;
  };

  // names a figure for a screen reader; the first of an explorer is also said aloud when it changes
  const describe = (box, title) => {
    box.setAttribute("role", "img"); box.setAttribute("aria-label", sentence(box, title));
    const explorer = box.closest(".gib-explorer");
    if (!explorer || explorer.querySelector(".gib-plot") !== box) return;
    let line = explorer.querySelector(":scope > .gib-said");
    if (!line) { line = document.createElement("p"); line.className = "gib-said"; line.setAttribute("aria-live", "polite"); explorer.append(line); return; }
    line.textContent = box.getAttribute("aria-label");
  };
  // what can be scrolled sideways is reached by keyboard
  const reach = (root, what) => root.querySelectorAll(what).forEach((e) => {
    if (e.scrollWidth > e.clientWidth + 1) { e.tabIndex = 0; e.setAttribute("role", "group"); e.setAttribute("aria-label", "wide content, scrolls sideways"); }
    else if (e.getAttribute("aria-label") === "wide content, scrolls sideways") { for (const name of ["tabindex", "role", "aria-label"]) e.removeAttribute(name); }
  });
  // draws a figure into a box, and again when the width of the box asks for another arrangement
  const latest = new WeakMap();
  const arrange = async (plotly, box) => {
    const {figure, title} = latest.get(box), {data, layout, frames} = fitted(figure, box.clientWidth);
    await plotly.react(box, {data, layout, frames, config: {responsive: true, displayModeBar: false}});
    describe(box, title);
  };
  const draw = (plotly, box, figure, title) => {
    const first = !latest.has(box);
    latest.set(box, {figure, title});
    if (first) {
      let before = box.clientWidth;
      new ResizeObserver(async () => {
        if (!box.clientWidth || box.clientWidth === before) return;
        before = box.clientWidth; await arrange(plotly, box); plotly.Plots.resize(box);
      }).observe(box);
    }
    return arrange(plotly, box);
  };
  return {fitted, describe, reach, draw};
})();
