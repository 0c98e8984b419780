"""JupyterLite inside the site: notebooks that run in the browser, with gib_nb and what it needs as packages that Pyodide finds by itself."""

import email.parser
import hashlib
import html
import importlib.metadata
import inspect
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.parse
import zipfile

import badges
from badges import address
from jupyter_core.paths import jupyter_path
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gib_nb
import gib_nb.explorers

ROOT = pathlib.Path(__file__).resolve().parents[1]
CDN = "https://cdn.jsdelivr.net/pyodide/v0.27.7/full/"  # the version that jupyterlite-pyodide-kernel 0.6 is made for
EXTENSIONS = ("@jupyterlite/pyodide-kernel-extension", "@jupyter-widgets/jupyterlab-manager", "anywidget")
KERNEL = "@jupyterlite/pyodide-kernel-extension:kernel"
PURE = (
    "plotly",
    "narwhals",
    "ipywidgets",
    "jupyterlab_widgets",
    "anywidget",
    "psygnal",
    "comm",
    "typing_extensions",
    "tqdm",
    "fastcore",
)
OF_PYODIDE = ("numpy", "ipython", "traitlets", "packaging")  # not SciPy: a cell that imports it loads it
# of the kernel, which otherwise looks for each of them when it starts, one after the other
STARTED = ("micropip", "piplite", "ssl", "sqlite3", "ipykernel", "comm", "pyodide_kernel", "jedi", "ipython", "gib-nb")
BROWSER = {"sys_platform": "emscripten", "platform_system": "Emscripten", "python_version": "3.12", "extra": ""}
LEFT_OUT = ("package_data/widgetbundle.js", "package_data/datasets/")  # of plotly; large and not used here
TAG = "needs-torch"  # of cells that cannot run in the browser
LEFT_CELLS = {badges.TAG, "remove-cell"}  # tags of what is for other places, and of assertions
NOTE = "**Not run here.** This cell needs PyTorch or another library that the page does not have."
HERE = "Python runs in this page. Choose *Run*, then *Run All Cells*; or press Shift and Enter in one cell after the other. What you write stays in this browser: to keep it, choose *File*, then *Download*."
SOME = " Cells that need PyTorch are not run here and show their stored results. To run them too, [install gib_nb on a computer]({address})."


def files():
    "The notebooks that can be opened in the browser, and where."
    paths = [*sorted((ROOT / "nbs" / "lessons").glob("*.ipynb")), ROOT / "nbs" / "glossary.ipynb"]
    return {path: path.relative_to(ROOT / "nbs") for path in paths if path.stem != "teaching"}


def notebook(path):
    "A notebook for the browser: cells that cannot run there become text with their stored results, and links lead to what is there or to the repository."
    content = json.loads(path.read_text())
    content["cells"] = [cell for cell in content["cells"] if not LEFT_CELLS & {*cell["metadata"].get("tags", ())}]
    content["metadata"]["kernelspec"] = {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}
    tagged = [TAG in cell["metadata"].get("tags", ()) for cell in content["cells"]]
    content["cells"] = [stored(cell) if late else linked(cell, path) for late, cell in zip(tagged, content["cells"])]
    if path.parent.name == "lessons":
        say = HERE + (SOME.format(address=f"{address()}#install") if any(tagged) else "")
        content["cells"].insert(1, {"cell_type": "markdown", "id": "here", "metadata": {}, "source": say})
    return content


def linked(cell, path):
    "A cell whose links to notebooks that are not there lead to the repository."

    def lead(found):
        target = (path.parent / found[1]).resolve()
        return found[0] if target in files() else f"]({address(target.relative_to(ROOT))}{found[2]})"

    if cell["cell_type"] == "markdown":
        cell["source"] = re.sub(r"\]\(([^):#]+\.ipynb)(#[^)]*)?\)", lead, "".join(cell["source"]))
    return cell


def stored(cell):
    "A cell of code as text: a note, the code, and what it gave."
    parts, attachments = [NOTE, f"```python\n{''.join(cell['source'])}\n```"], {}
    if cell["outputs"]:
        parts.append("*Stored result:*")
    for number, output in enumerate(cell["outputs"]):
        data = output.get("data", {})
        if "image/png" in data:
            attachments[f"{number}.png"] = {"image/png": "".join(data["image/png"]).replace("\n", "")}
            parts.append(f"![the stored result](attachment:{number}.png)")
        elif "text/html" in data:
            parts.append("".join(data["text/html"]))
        elif text := "".join(output.get("text", data.get("text/plain", ""))).rstrip():
            parts.append(f"```text\n{text}\n```")
    shown = {"attachments": attachments} if attachments else {}
    return {"cell_type": "markdown", "id": cell["id"], "metadata": {}, "source": "\n\n".join(parts)} | shown


def pack(path, files, metadata):
    "Write a wheel and return its entry in the lock file: files by name, and the text of METADATA."
    about = email.parser.Parser().parsestr(metadata)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content in sorted(files.items()):
            wheel.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return entry(path, about["Name"], about["Version"], about.get_all("Requires-Dist") or [])


def entry(path, name, version, requirements=()):
    "What Pyodide's lock file says about a wheel."
    known = {canonicalize_name(each) for each in (*PURE, *OF_PYODIDE)}
    needed = [Requirement(text) for text in requirements]
    names = [canonicalize_name(each.name) for each in needed if not each.marker or each.marker.evaluate(BROWSER)]
    modules = {
        name.split("/")[0].removesuffix(".py") for name in zipfile.ZipFile(path).namelist() if name.endswith(".py")
    }
    return {
        "name": canonicalize_name(name),
        "version": version,
        "file_name": path.name,
        "install_dir": "site",
        "package_type": "package",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "imports": sorted(modules),
        "depends": sorted(known.intersection(names)),
        "unvendored_tests": False,
    }


def installed_wheel(name, folder):
    "The installed package as a wheel, without compiled files and without what the browser does not use."
    distribution = importlib.metadata.distribution(name)
    files = {
        str(path): path.locate().read_bytes()
        for path in distribution.files
        if ".." not in path.parts
        and path.suffix not in (".so", ".pyd", ".pyc", ".pyi")
        and path.name not in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
        and not any(part in str(path) for part in LEFT_OUT)
    }
    stem = f"{canonicalize_name(name).replace('-', '_')}-{distribution.version}"
    return pack(folder / f"{stem}-py3-none-any.whl", files, distribution.read_text("METADATA"))


def own_wheel(folder):
    "This package as a wheel, without models, which need PyTorch."
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {gib_nb.__version__}\n"
    metadata = head + "".join(f"Requires-Dist: {each}\n" for each in project["dependencies"])
    files = {
        str(path.relative_to(ROOT)): path.read_bytes()
        for path in (ROOT / "gib_nb").rglob("*")
        if path.suffix in (".py", ".js", ".css", ".gz")
    }
    stem = f"gib_nb-{gib_nb.__version__}"
    files[f"{stem}.dist-info/METADATA"] = metadata.encode()
    return pack(folder / f"{stem}-py3-none-any.whl", files, metadata)


def extension(name):
    "The folder of an installed extension of JupyterLab."
    places = [pathlib.Path(place) / name for place in jupyter_path("labextensions")]
    return next(place for place in places if (place / "package.json").exists())


def packages(folder):
    "Write all wheels into a folder; their entries in the lock file."
    found = [own_wheel(folder), *(installed_wheel(name, folder) for name in PURE)]
    for wheel in (extension(EXTENSIONS[0]) / "static" / "pypi").glob("*.whl"):
        if not wheel.name.startswith("widgetsnbextension"):
            name, version = wheel.name.split("-")[:2]
            found.append(entry(shutil.copy(wheel, folder) and folder / wheel.name, name, version))
    return {each["name"]: each for each in found}


def copy_runtime(runtime, folder):
    "Pyodide's files; ValueError for a folder without it, or with a version that the kernel does not run on."
    lock = runtime / "pyodide-lock.json"
    found = json.loads(lock.read_text())["info"]["version"] if lock.exists() else "none"
    wanted = re.search(r"/v(\d+\.\d+)", CDN)[1]
    if not found.startswith(f"{wanted}."):
        raise ValueError(f"expected Pyodide {wanted} in {runtime} (got {found}); unpack the release there")
    folder.mkdir()
    for file in filter(pathlib.Path.is_file, runtime.iterdir()):
        shutil.copyfile(file, folder / file.name)


def build(source, site, runtime=None):
    "JupyterLite into the folder `site`; Pyodide from a folder `runtime`, or from its public address."
    static = source / "static" / "pyodide"
    static.mkdir(parents=True)
    lock = packages(static)
    if runtime is not None:
        copy_runtime(runtime, static / "runtime")
    script = (ROOT / "docs" / "pyodide.js").read_text()
    for name, value in {"RUNTIME": "runtime/" if runtime else CDN, "PACKAGES": lock}.items():
        script = script.replace(f'"{name}"', json.dumps(value))
    (static / "pyodide.js").write_text(script)
    for path, place in files().items():
        (source / "files" / place).parent.mkdir(parents=True, exist_ok=True)
        (source / "files" / place).write_text(json.dumps(notebook(path)))
    settings = {KERNEL: {"loadPyodideOptions": {"packages": STARTED}, "disablePyPIFallback": True}}
    write = lambda name, content: (source / name).write_text(json.dumps(content))
    write(
        "jupyter-lite.json", {"jupyter-lite-schema-version": 0, "jupyter-config-data": {"litePluginSettings": settings}}
    )
    config = {
        "contents": ["files"],
        "apps": ["notebooks", "tree", "lab", "repl"],
        "no_sourcemaps": True,
        "no_unused_shared_packages": True,
        "ignore_sys_prefix": ["federated_extensions"],  # whatever else is installed here stays out
        "federated_extensions": [str(extension(name)) for name in EXTENSIONS],
    }
    write("jupyter_lite_config.json", {"LiteBuildConfig": config})
    command = [sys.executable, "-m", "jupyterlite_core", "build", "--lite-dir", str(source), "--output-dir", str(site)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"expected JupyterLite to be built (got an error)\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


def notebook_link(path):
    "Where a lesson is opened in the browser, from the root of the site; None for other notebooks."
    place = files().get(path) if path.parent.name == "lessons" else None
    return place and f"lite/notebooks/index.html?path={place.as_posix()}"


def explorer_link(text, source):
    "Where an explorer is opened in the browser, in the state that its text shows, such as BetaExplorer(beta=0.1); from the root of the site."
    only = re.search(r"\.select\([^)]*\)", source)
    call = re.split(r": run the cell|\.select\(", text)[0]
    name = call.partition("(")[0]
    module = inspect.getmodule(getattr(gib_nb.explorers, name))
    first = "import scipy.stats\n" if "scipy.stats" in inspect.getsource(module) and name != "MoleculeExplorer" else ""
    code = f"{first}from gib_nb.explorers import {name}\n{call}{only[0] if only else ''}"
    return f"lite/repl/index.html?kernel=python&showBanner=0&code={urllib.parse.quote(code)}"


def button(link, up, words="Run in the browser"):
    "A link to a page of JupyterLite, as HTML."
    return f'<a class="gib-run" href="{up}{html.escape(link)}" target="_blank" rel="noopener">▶ {words}</a>'


def with_buttons(text):
    "The page of explorers, each with a button."
    classes = {name: found for found, name in gib_nb.explorers.CLASSES.items()}
    link = r"(\| \[[^]]*\]\(\.\./nbs/explorers/(\w+)\.ipynb\))"
    run = lambda found: f"{found[1]} {button(explorer_link(f'{classes[found[2]]}()', ''), '../', 'Run')}"
    return re.sub(link, run, text)
