"""Execute notebooks in place for committing: `python tests/run_notebooks.py [--slow] [notebook ...]`.

Cells flagged `#| slow` (unless asked for), `#| cuda`, `#| notest` or `#| eval: false` keep the outputs they have.
Widget state and execution counts are dropped, so that a second run changes nothing, and pictures get a palette, so that they stay small.
"""
import base64
import io
import os
import pathlib
import re
import sys

import nbformat
from nbclient import NotebookClient
from PIL import Image

os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype+png")
SKIP = {"slow", "cuda", "notest"} - ({"slow"} if "--slow" in sys.argv else set())
NBS = pathlib.Path(__file__).parents[1] / "nbs"
SHOWN = {"image/png", "image/svg+xml", "text/html"}  # what a reader without a kernel can see
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
        name in SKIP or (name == "eval" and argument == "false") for name, argument in directives(source))


def smaller(png):
    "The same picture with 64 colours, a fifth of the bytes; a large one with 20."
    picture, short = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB"), io.BytesIO()
    picture.quantize(64 if picture.width < 1000 else 20, dither=Image.Dither.NONE).save(short, "PNG", optimize=True)
    return min(base64.b64encode(short.getvalue()).decode(), png, key=len)


def run(path):
    notebook = nbformat.read(path, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in code:
        cell.metadata["tags"] = ["skip-execution"] if skipped(cell.source) else []
    NotebookClient(notebook, timeout=900, kernel_name="python3", record_timing=False, store_widget_state=False,
                   resources={"metadata": {"path": str(path.parent)}}).execute()
    notebook.metadata = {"kernelspec": {"display_name": "python3", "language": "python", "name": "python3"}}
    for cell in code:
        cell.metadata.pop("tags", None)
        cell.execution_count = None
        # progress bars are noise in a committed notebook, and a widget with nothing beside it shows nothing later
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"
                        and not (WIDGET in output.get("data", {}) and not SHOWN & set(output["data"]))]
        for output in cell.outputs:
            if "execution_count" in output:
                output["execution_count"] = None
            if "metadata" in output:
                output["metadata"] = {}
            output.get("data", {}).pop(WIDGET, None)
            if "image/png" in output.get("data", {}):
                output["data"]["image/png"] = smaller(output["data"]["image/png"])
    nbformat.write(notebook, path)


if __name__ == "__main__":
    paths = [pathlib.Path(name).resolve() for name in sys.argv[1:] if name != "--slow"] or sorted(
        path for path in NBS.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    for path in paths:
        run(path)
        print("ran", path.name, flush=True)
