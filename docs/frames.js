// frames of explorers take the height of what is in them
addEventListener("message", ({data, source}) => {
  if (!data || typeof data.gib !== "string") return;
  for (const frame of document.querySelectorAll("iframe.gib-frame")) if (frame.contentWindow === source) frame.style.height = `${data.height}px`;
});
// a figure takes the width of the page, and keeps its height
const gibFigure = (id, {data, layout, frames, config}) => {
  const {width, ...rest} = layout;
  Plotly.newPlot(id, {data, layout: {...rest, autosize: true, paper_bgcolor: "#fff", plot_bgcolor: "#fff"}, frames, config});
};
