"""Execute notebooks in place for committing: `python tests/run_notebooks.py [--slow | --pictures] [notebook ...]`.

Cells flagged `#| slow` (unless asked for), `#| cuda`, `#| notest` or `#| eval: false` keep the outputs they have.
Widget state and execution counts are dropped, so that a second run changes nothing, and pictures are packed, so that they stay small.
With `--pictures` nothing runs: the pictures of figures and explorers are drawn anew from what the outputs say, and that of the README too.
"""

import base64
import io
import os
import pathlib
import re
import sys

import nbformat
import numpy as np
import oxipng
from nbclient import NotebookClient
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from stored import PLOTLY, explorer_of  # noqa: E402

os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype+png")
os.environ["GIB_NB_PROGRESS"] = ""  # a committed notebook shows no one's progress
SKIP = {"slow", "cuda", "notest"} - ({"slow"} if "--slow" in sys.argv else set())
NBS = ROOT / "nbs"
SHOWN = {"image/png", "image/svg+xml", "text/html"}  # what a reader without a kernel can see
README = "BetaExplorer(dataset='motif', beta=0.1).select('graph', 'plane')"  # the explorer in its picture
WIDGET = "application/vnd.jupyter.widget-view+json"


def directives(source):
    "The (name, argument) pairs of the `#|` lines that open a cell."
    for line in source.splitlines():
        match = re.match(r"#\s*\|\s*([\w]+):?\s*(.*)", line)
        if match:
            yield match[1], match[2].strip()
        elif line.strip():
            return


def skipped(source):
    return "nbdev_export(" in source or any(
        name in SKIP or (name == "eval" and argument == "false") for name, argument in directives(source)
    )


def packed(png, most=(30_000, 36_000, 60_000)):
    "The same picture in fewer bytes. While it has more than `most`, the blended pixels along edges are rounded, ever more; flat colors stay what a legend says."
    small = oxipng.optimize_from_memory(png, level=4, strip=oxipng.StripChunks.safe())
    for step, limit in zip((17, 34, 51), most):
        if len(small) > limit:
            rounded = io.BytesIO()
            Image.fromarray(rounded_edges(np.array(Image.open(io.BytesIO(png)).convert("RGB")), step)).save(
                rounded, "PNG"
            )
            small = min(oxipng.optimize_from_memory(rounded.getvalue(), level=4), small, key=len)
    return small


def rounded_edges(pixels, step):
    "Pixels [height, width, 3] in which those that differ from three or more of their four neighbors have multiples of `step` in each channel."
    equal = np.zeros(pixels.shape[:2], int)
    across, down = (pixels[:, 1:] == pixels[:, :-1]).all(-1), (pixels[1:] == pixels[:-1]).all(-1)
    for half, same in ((equal[:, 1:], across), (equal[:, :-1], across), (equal[1:], down), (equal[:-1], down)):
        half += same
    return np.where((equal >= 2)[..., None], pixels, np.minimum(np.rint(pixels / step) * step, 255)).astype(np.uint8)


def run(path):
    notebook = nbformat.read(path, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in code:
        if skipped(cell.source):
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "skip-execution"]
    NotebookClient(
        notebook,
        timeout=900,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    notebook.metadata = {"kernelspec": {"display_name": "python3", "language": "python", "name": "python3"}}
    for cell in code:
        if own := [tag for tag in cell.metadata.pop("tags", []) if tag != "skip-execution"]:
            cell.metadata["tags"] = own
        cell.execution_count = None
        # progress bars are noise in a committed notebook, and a widget with nothing beside it shows nothing later
        cell.outputs = [
            output
            for output in cell.outputs
            if output.get("name") != "stderr"
            and not (WIDGET in output.get("data", {}) and not SHOWN & set(output["data"]))
        ]
        for output in cell.outputs:
            if "execution_count" in output:
                output["execution_count"] = None
            if "metadata" in output:
                output["metadata"] = {}
            output.get("data", {}).pop(WIDGET, None)
            if "image/png" in output.get("data", {}):
                output["data"]["image/png"] = base64.b64encode(
                    packed(base64.b64decode(output["data"]["image/png"]))
                ).decode()
    nbformat.write(notebook, path)


def picture(data, source):
    "A PNG of what an output says, drawn anew: of a plotly figure or of an explorer; None for other outputs."
    if figure := data.get(PLOTLY):
        import plotly.graph_objects
        import plotly.io

        return plotly.io.to_image(
            plotly.graph_objects.Figure({"data": figure["data"], "layout": figure["layout"]}, skip_invalid=True), "png"
        )
    explorer = explorer_of("".join(data.get("text/plain", "")), source)
    return explorer and explorer.snapshot()


def redraw(path):
    "Draw the pictures of a notebook anew, without running it; what has no PNG now gets none."
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data and (fresh := picture(data, cell.source)):
                data["image/png"] = base64.b64encode(packed(fresh)).decode()
    nbformat.write(notebook, path)


if __name__ == "__main__":
    paths = [pathlib.Path(name).resolve() for name in sys.argv[1:] if name not in ("--slow", "--pictures")] or sorted(
        path for path in NBS.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
    )
    for path in paths:
        (redraw if "--pictures" in sys.argv else run)(path)
        print("ran" if "--pictures" not in sys.argv else "drew", path.name, flush=True)
    if "--pictures" in sys.argv:
        (ROOT / "docs" / "explorer.png").write_bytes(packed(explorer_of(README, README).snapshot()))
