// frames of explorers take the height of what is in them
addEventListener("message", ({data, source}) => {
  if (!data || typeof data.gib !== "string") return;
  for (const frame of document.querySelectorAll("iframe.gib-frame")) if (frame.contentWindow === source) frame.style.height = `${data.height}px`;
});
// a figure takes the width of the page
const gibFigure = (id, {data, layout, frames}) => {
  const {width, ...rest} = layout, box = document.getElementById(id);
  gibFigures.draw(Plotly, box, {data, layout: {height: 450, ...rest, autosize: true, paper_bgcolor: "#fff", plot_bgcolor: "#fff"}, frames}, layout.title?.text ?? "Figure");
};
// the captions of the contents are headings, and what can be scrolled sideways is reached by keyboard
addEventListener("load", () => {
  for (const caption of document.querySelectorAll("[role=heading]:not([aria-level])")) caption.setAttribute("aria-level", "2");
  const reach = () => gibFigures.reach(document, ":is(pre, .math, .cell_output, .output, table)");
  addEventListener("resize", reach); reach();
});
// Python in the browser needs a web server
if (location.protocol === "file:") addEventListener("DOMContentLoaded", () => {
  for (const link of document.querySelectorAll("a.gib-run")) link.addEventListener("click", (event) => {
    event.preventDefault();
    link.insertAdjacentHTML("afterend", ' <span role="status">A page that was opened as a file cannot run Python. Run <code>python -m http.server</code> in the folder of the site, then open http://localhost:8000.</span>');
  }, {once: true});
});
