import functools
import gzip
import hashlib
import http.server
import itertools
import random
import sys
import threading
import time
import zipfile

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, InMemoryDataset

from gib_nb.data import download as download_module
from gib_nb.data.datasets import denoising_dataset, load_dataset, molecule_dataset, read_smiles
from gib_nb.data.download import _digest, locate
from gib_nb.data.graph_dataset import GraphDataset, make_dataset
from gib_nb.data.registry import DATASETS, MOLECULE_NAMES, TU_NAMES
from gib_nb.data.splits import DENOISING_SPLIT, INTERPRETATION_SPLIT, split_indices
from gib_nb.data.synthetic import add_redundant_edges, motif_dataset, to_line_graph
from gib_nb.data.tu import _table, read_tu
from gib_nb.data.validate import DegreeFeatures, GraphFormat, validate_graphs


def edges(*pairs):
    "edge_index with both directions of every pair."
    both = [*pairs, *(pair[::-1] for pair in pairs)]
    return torch.tensor(both, dtype=torch.long).reshape(-1, 2).T.contiguous()


def graph(y=0, nodes=3, width=2, **fields):
    fields = {"x": torch.ones(nodes, width), "edge_index": edges((0, 1), (1, 2)), "y": torch.tensor([y])} | fields
    return Data(**fields)


@functools.cache
def published(name, root):
    started = time.process_time()
    data = load_dataset(name, root, download=False)
    assert time.process_time() - started < 8  # DD, the largest, takes 1 to 2 s
    return data


# ---- the published sets -------------------------------------------------------------------------------------------

LARGE = ("DD", "NCI1", "Mutagenicity", "IMDB-BINARY")
TABLE = [  # graphs, mean nodes, mean directed edges, class sizes, features, graphs with an isolated node, largest graph
    ("MUTAG", 188, 17.93, 39.6, (63, 125), 7, 0, 28),
    ("PROTEINS", 1113, 39.06, 145.6, (663, 450), 3, 5, 620),
    ("IMDB-BINARY", 1000, 19.77, 193.1, (500, 500), 136, 0, 136),
    ("DD", 1178, 284.32, 1431.3, (691, 487), 89, 0, 5748),
    ("NCI1", 4110, 29.87, 64.6, (2053, 2057), 37, 399, 111),
    ("PTC_MR", 344, 14.29, 29.4, (192, 152), 18, 0, 64),
    ("COX2", 467, 41.22, 86.9, (365, 102), 35, 0, 56),
    ("ENZYMES", 600, 32.63, 124.3, (100,) * 6, 3, 8, 126),
    ("Mutagenicity", 4337, 30.32, 61.5, (2401, 1936), 14, 121, 417),
]


@pytest.mark.parametrize(
    "name, graphs, nodes, directed, classes, width, isolated, largest",
    [pytest.param(*row, marks=[pytest.mark.slow] if row[0] in LARGE else []) for row in TABLE],
)
def test_published_figures(data_root, name, graphs, nodes, directed, classes, width, isolated, largest):
    data = published(name, data_root)
    sizes = np.array([g.num_nodes for g in data])
    assert len(data) == graphs and data.task == "classification" and data.num_classes == len(classes)
    assert round(sizes.mean(), 2) == nodes and sizes.max() == largest
    assert round(np.mean([g.num_edges for g in data]), 1) == directed
    assert tuple(np.bincount(data.labels)) == classes
    assert data.num_features == width and all(g.x.shape == (g.num_nodes, width) for g in data)
    assert sum(len(g.edge_index.unique()) < g.num_nodes for g in data) == isolated
    for g in data:
        assert (
            g.edge_index.dtype == torch.long
            and g.y.dtype == torch.long
            and g.y.shape == (1,)
            and g.x.dtype == torch.float
        )
        assert g.x.untyped_storage().nbytes() == 4 * g.x.numel()  # one graph keeps no other alive
        assert g.edge_index.untyped_storage().nbytes() == 8 * g.edge_index.numel()
        assert g.is_coalesced() and not g.has_self_loops()
    assert all(data[i].is_undirected() for i in range(0, graphs, 37))
    assert [len(part) for part in (data.train, data.valid, data.test)][0] == int(0.8 * graphs + 0.5)


def test_reader_agrees_with_a_slow_one(data_root):
    with zipfile.ZipFile(data_root / "tu/MUTAG.zip") as archive:
        lines = {
            key: archive.read(f"MUTAG/MUTAG_{key}.txt").decode().split("\n")[:-1]
            for key in ("A", "graph_indicator", "graph_labels", "node_labels")
        }
    members, found = {}, {}
    for node, owner in enumerate(lines["graph_indicator"], 1):
        members.setdefault(int(owner), []).append(node)
    for line in lines["A"]:
        a, b = map(int, line.split(","))
        owner = int(lines["graph_indicator"][a - 1])
        found.setdefault(owner, set()).add((members[owner].index(a), members[owner].index(b)))
    for i, g in enumerate(published("MUTAG", data_root), 1):
        assert g.edge_index.T.tolist() == [list(pair) for pair in sorted(found[i])]
        assert g.x.argmax(1).tolist() == [int(lines["node_labels"][node - 1]) for node in members[i]]
        assert int(g.y) == {"-1": 0, "1": 1}[lines["graph_labels"][i - 1].strip()]


@pytest.mark.slow
def test_imdb_lists_every_edge_twice(data_root):
    raw = _table(data_root / "tu/IMDB-BINARY.zip", "IMDB-BINARY", "A")
    data = published("IMDB-BINARY", data_root)
    assert (len(raw), sum(g.num_edges for g in data)) == (386124, 193062)
    assert data.degree_features.max_degree == 135 == max(int(g.x.argmax(1).max()) for g in data)


@pytest.mark.slow
def test_mutagenicity_truth_follows_its_edges(data_root):
    data = published("Mutagenicity", data_root)
    assert sum(int(g.edge_mask.sum()) for g in data) == 7352
    marked = np.array([bool(g.edge_mask.any()) for g in data])
    assert (marked & (data.labels == 0)).sum() == 1015 and (marked & (data.labels == 1)).sum() == 341  # 0 = mutagen
    path = data_root / "tu/Mutagenicity.zip"
    lines = _table(path, "Mutagenicity", "A") - 1
    truth = dict(zip(map(tuple, lines.tolist()), _table(path, "Mutagenicity", "edge_gt")[:, 0].tolist()))
    start = 0
    for g in data:
        pairs = [tuple(pair) for pair in g.edge_index.T.tolist()]
        assert g.edge_mask.tolist() == [truth[a + start, b + start] for a, b in pairs]
        if g.edge_mask.any():
            mask = dict(zip(pairs, g.edge_mask.tolist()))
            assert all(mask[a, b] == mask[b, a] for a, b in pairs)
            nitrogen = g.x[:, 4] == 1
            ends = g.edge_index[:, g.edge_mask == 1]
            assert (nitrogen[ends[0]] | nitrogen[ends[1]]).all()  # NO2 and NH2 groups
        start += g.num_nodes


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in TU_NAMES]
)
def test_recorded_digest_tu(data_root, name):
    assert _digest(data_root / f"tu/{name}.zip", name) == download_module.SHA256[name]


@pytest.mark.parametrize(
    "name, count, mean",
    [("QED", 35000, 0.8871), ("DRD2", 3000, 0.8712), ("HLM", 25850, 2.1981), ("MLM", 16666, 2.2226)],
)
def test_interpretation_files(data_root, name, count, mean):
    smiles, values = read_smiles(name, data_root, download=False)
    assert len(smiles) == len(values) == len(set(smiles)) == count and round(values.mean(), 4) == mean
    content = gzip.decompress((data_root / f"interpretation/{name.lower()}.txt.gz").read_bytes())
    assert hashlib.sha256(content).hexdigest() == download_module.SHA256[name]
    top, few = read_smiles(name.lower(), data_root, download=False, limit=7)
    assert top == smiles[:7] and few.tolist() == values[:7].tolist()


# ---- files in the TU format ---------------------------------------------------------------------------------------

TINY = {
    "A": "1, 1\n1, 2\n2, 1\n1, 2\n2, 1\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "2\n1\n2\n",
    "node_labels": "3\n5\n3\n4\n4\n3\n",
    "edge_gt": "0\n1\n1\n1\n1\n0\n0\n",
}


def write_tiny(folder, name="TINY", **changes):
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in (TINY | changes).items():
        if text is not None:
            (folder / f"{name}_{suffix}.txt").write_text(text)
    return folder


def zip_tiny(path, name="TINY", inside="{name}/", **changes):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for suffix, text in (TINY | changes).items():
            archive.writestr(f"{inside.format(name=name)}{name}_{suffix}.txt", text)
    return path


def test_doubles_isolated_nodes_and_a_last_graph_without_edges(tmp_path):
    one, two, three = read_tu(write_tiny(tmp_path), "TINY")
    assert one.edge_index.tolist() == [[0, 1], [1, 0]] and one.num_nodes == 3 and one.edge_mask.tolist() == [1, 1]
    assert two.edge_index.tolist() == [[0, 1], [1, 0]] and two.edge_mask.tolist() == [0, 0]
    assert three.edge_index.shape == (2, 0) and three.edge_index.dtype == torch.long and three.num_nodes == 1
    assert [int(g.y) for g in (one, two, three)] == [1, 0, 1]
    assert one.x.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]


def test_without_node_labels_degrees_take_their_place(tmp_path):
    graphs = read_tu(write_tiny(tmp_path, node_labels=None), "TINY")
    assert graphs[0].x is None and graphs[2].num_nodes == 1
    data = make_dataset("tiny", graphs)
    assert data.num_features == 2 and data[2].x.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"A": None}, "TINY_A.txt"),
        ({"A": "1, 2\n2, x\n"}, "whole numbers in TINY_A.txt"),
        ({"A": "1, 4\n4, 1\n", "edge_gt": None}, "in one graph"),
        ({"A": "1, 9\n9, 1\n", "edge_gt": None}, "6 nodes"),
        ({"graph_indicator": "1\n2\n1\n2\n2\n3\n"}, "graph_indicator"),
    ],
)
def test_damaged_tu_files_are_named(tmp_path, change, words):
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        read_tu(write_tiny(tmp_path, **change), "TINY")


def test_truncated_local_zip(tmp_path):
    path = zip_tiny(tmp_path / "TINY.zip")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="expected a zip file at .*TINY.zip"):
        read_tu(path, "TINY")


# ---- finding and downloading --------------------------------------------------------------------------------------


@pytest.fixture
def bare(tmp_path, monkeypatch):
    "No data folder, an empty cache, and direct connections only."
    monkeypatch.delenv("GIB_NB_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(download_module, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path


@pytest.mark.parametrize("layout", ["tu/{}.zip", "{}.zip", "tu/{}/raw", "tu/{}", "{}/raw", "{}"])
@pytest.mark.parametrize("how", ["argument", "environment", "cache"])
def test_local_layouts(bare, monkeypatch, layout, how):
    folder = bare / ("cache" if how == "cache" else "mine")
    place = folder / layout.format("COX2")
    zip_tiny(place, "COX2") if layout.endswith("zip") else write_tiny(place, "COX2")
    if how == "environment":
        monkeypatch.setenv("GIB_NB_DATA", str(folder))
    data = load_dataset("cox2", root=folder if how == "argument" else None, download=False)
    assert data.name == "COX2" and len(data) == 3 and data[0].edge_mask.tolist() == [1, 1]


@pytest.mark.parametrize("layout", ["interpretation/drd2.txt.gz", "interpretation/drd2.txt", "drd2.txt.gz", "drd2.txt"])
def test_local_layouts_of_molecules(bare, layout):
    (bare / "interpretation").mkdir()
    with (gzip.open if layout.endswith("gz") else open)(bare / layout, "wt") as stream:
        stream.write("CCO 0.5 \nC 1e-3\n")
    assert read_smiles("DRD2", bare)[0] == ["CCO", "C"] and read_smiles("drd2", str(bare))[1].tolist() == [0.5, 0.001]
    (bare / layout).unlink()
    (bare / "drd2.txt").write_text("CCO 0.5\nCC\n")
    with pytest.raises(ValueError, match="line 2.*'CC'"):
        read_smiles("DRD2", bare)


def test_argument_comes_before_environment_before_cache(bare, monkeypatch):
    for place, size in (("argument", 2), ("environment", 3), ("cache", 1)):
        write_tiny(bare / place / "MUTAG", "MUTAG", node_labels="\n".join(["0"] * 5 + [str(size - 1)]))
    monkeypatch.setenv("GIB_NB_DATA", str(bare / "environment"))
    width = lambda root: load_dataset("MUTAG", root).num_features
    assert width(bare / "argument") == 2 and width(None) == 3
    monkeypatch.delenv("GIB_NB_DATA")
    assert width(None) == 1


@pytest.fixture
def server(monkeypatch):
    "A web server on this computer: `server.files` maps path -> bytes, `server.asked` lists the requests, `server.cut` truncates."

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            web.asked.append(self.path)
            content = web.files.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write((content or b"")[: web.cut])

        def log_message(self, *arguments):
            pass

    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.files, web.asked, web.cut, web.url = {}, [], None, f"http://127.0.0.1:{web.server_port}"
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield web
    web.shutdown()
    web.server_close()


@pytest.fixture
def online(bare, server, monkeypatch):
    "COX2 as the tiny set in two archives, QED as three molecules."
    archive = zip_tiny(bare / "made" / "COX2.zip", "COX2").read_bytes()
    truth = zip_tiny(bare / "made" / "truth.zip", "COX2", inside="", node_labels="0\n" * 6).read_bytes()
    smiles = b"CCO 0.5 \nC 0.25 \nCC 0.125 \n"
    server.files |= {"/a/COX2.zip": archive, "/b/COX2.zip": truth, "/qed.txt": smiles}
    urls = {"COX2": (f"{server.url}/a/COX2.zip", f"{server.url}/b/COX2.zip"), "QED": (f"{server.url}/qed.txt",)}
    digests = {"COX2": _digest(bare / "made" / "COX2.zip", "COX2"), "QED": hashlib.sha256(smiles).hexdigest()}
    monkeypatch.setattr(download_module, "URLS", download_module.URLS | urls)
    monkeypatch.setattr(download_module, "SHA256", download_module.SHA256 | digests)
    return server


def leftovers(folder):
    return [path for path in (folder / "cache").rglob("*") if path.is_file()]


def load(name):
    return load_dataset(name) if name == "COX2" else read_smiles(name)[0]


@pytest.mark.parametrize("name, requests", [("COX2", 2), ("QED", 1)])
def test_download_shows_progress_and_is_kept(bare, online, capfd, name, requests):
    assert len(load(name)) == 3
    assert "100%" in capfd.readouterr().err and len(online.asked) == requests
    load(name)
    assert len(online.asked) == requests and capfd.readouterr().err == ""
    assert locate(name, download=False).is_relative_to(bare / "cache")
    assert not [path for path in (bare / "cache").rglob("*") if path.name.startswith("tmp")]


def test_a_second_archive_adds_but_does_not_replace(online):
    data = load_dataset("COX2")
    assert data.num_features == 3 and data[0].edge_mask.tolist() == [1, 1]


@pytest.mark.parametrize("name, path", [("COX2", "/a/COX2.zip"), ("QED", "/qed.txt")])
def test_other_content_is_refused(bare, online, name, path):
    online.files[path] = online.files["/b/COX2.zip"] if name == "COX2" else b"CCO 0.5 \nC 0.25 \nCC 0.126 \n"
    with pytest.raises(ValueError, match="SHA-256 " + download_module.SHA256[name]):
        load(name)
    assert not leftovers(bare)
    with pytest.raises(FileNotFoundError):
        locate(name, download=False)


def test_a_page_in_place_of_the_archive_is_refused(bare, online):
    online.files["/a/COX2.zip"] = b"<html>please log in</html>"
    with pytest.raises(ValueError, match="expected a zip file for COX2"):
        load("COX2")
    assert not leftovers(bare)


@pytest.mark.parametrize("name", ["COX2", "QED"])
def test_truncated_download_leaves_nothing(bare, online, name):
    online.cut = 20
    with pytest.raises(FileNotFoundError, match="the download failed"):
        load(name)
    assert not leftovers(bare)
    online.cut = None
    assert len(load(name)) == 3


def test_missing_page(bare, online):
    del online.files["/qed.txt"]
    with pytest.raises(FileNotFoundError, match="HTTPError"):
        load("QED")
    assert not leftovers(bare)


def test_offline_there_is_one_clear_error(bare, monkeypatch):
    import traceback

    monkeypatch.setattr(download_module, "URLS", download_module.URLS | {"NCI1": ("http://127.0.0.1:9/NCI1.zip",)})
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("nci1", root=bare / "mine")
    text = str(caught.value)
    assert str(bare / "mine/tu/NCI1.zip") in text and str(bare / "cache/tu/NCI1.zip") in text
    assert "http://127.0.0.1:9/NCI1.zip" in text and "ConnectionError" in text
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("Traceback") == 1 and "urllib3" not in shown
    with pytest.raises(FileNotFoundError, match="GIB_NB_DATA") as caught:
        read_smiles("HLM", download=False)
    assert str(bare / "cache/interpretation/hlm.txt") in str(caught.value)


def test_files_put_where_the_error_says_are_found(bare):
    for place in ("mine", "cache"):
        zip_tiny(bare / place / "tu/NCI1.zip", "NCI1")
        assert len(load_dataset("NCI1", root=bare / "mine", download=False)) == 3
        (bare / place / "tu/NCI1.zip").unlink()


def test_mutag_from_grakel_without_importing_it(bare, monkeypatch):
    pytest.importorskip("grakel")
    monkeypatch.delitem(sys.modules, "grakel", raising=False)
    assert len(load_dataset("MUTAG", download=False)) == 188
    assert "grakel" in locate("MUTAG", download=False).parts and "grakel" not in sys.modules
    write_tiny(bare / "cache/tu/MUTAG", "MUTAG")
    assert len(load_dataset("MUTAG")) == 3  # files of one's own come first


def test_import_and_cache_folder_touch_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    assert download_module.cache_folder().name == "gib_nb" and not (tmp_path / "new").exists()


def test_names():
    with pytest.raises(ValueError, match="did you mean IMDB-BINARY") as caught:
        load_dataset("imdb_binary")
    assert all(name in str(caught.value) for name in (*TU_NAMES, *MOLECULE_NAMES, "motif", "molecules"))
    with pytest.raises(ValueError, match="'zzz'") as caught:
        load_dataset("zzz")
    assert "did you mean" not in str(caught.value)
    with pytest.raises(ValueError, match="expected one of"):
        locate("motif")


def test_molecule_sets_are_loaded_with_what_was_asked(monkeypatch):
    asked = []
    for name in ("QED", "molecules", "DRD2", "HLM", "MLM"):
        assert DATASETS[name] is molecule_dataset
        monkeypatch.setitem(
            DATASETS._things,
            name,
            lambda name, root=None, download=True, seed=0: asked.append((name, root, download, seed)),
        )
    for name in ("qed", "Molecules", "drd2", "HLM", "mlm"):
        load_dataset(name, root="here", download=False, seed=4)
    assert asked == [(name, "here", False, 4) for name in ("QED", "molecules", "DRD2", "HLM", "MLM")]


# ---- checking graphs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad, words",
    [
        (
            graph(x=torch.tensor([[0.0, 1], [2, 3], [4, float("nan")]])),
            "graph 1: expected finite x .got nan in column 1, row 2",
        ),
        (
            graph(x=torch.tensor([[float("-inf"), 1], [2, 3], [4, 5]])),
            "graph 1: expected finite x .got -inf in column 0",
        ),
        (graph(x=torch.ones(3, 2, dtype=torch.long)), "graph 1: expected x .*int64.*x.float"),
        (graph(x=torch.ones(3)), "graph 1: expected x of shape"),
        (graph(width=5), "graph 1: expected columns of x 2, as in graph 0 .got 5"),
        (graph(x=None, num_nodes=3), "graph 1: expected columns of x 2, as in graph 0 .got 0"),
        (graph(edge_index=torch.tensor([[0, 1], [1, 3]])), "graph 1: expected edge_index between 0 and 2 .got 0 to 3"),
        (graph(edge_index=torch.tensor([[0, -1], [1, 2]])), "graph 1: expected edge_index between 0 and 2 .got -1"),
        (
            graph(edge_index=torch.tensor([[0, 1], [1, 0]]).int()),
            "graph 1: expected edge_index of type torch.int64 .got torch.int32",
        ),
        (graph(edge_index=torch.zeros(2, 0)), "graph 1: expected edge_index of type torch.int64 .got torch.float32"),
        (
            graph(edge_index=torch.tensor([[0, 1], [1, 0], [1, 2]])),
            r"graph 1: expected edge_index of shape \[2, E\] .got \[3, 2\]",
        ),
        (graph(edge_index=None), r"graph 1: expected edge_index of shape \[2, E\] .got None"),
        (Data(x=torch.ones(3, 2), edge_index=edges((0, 1))), "graph 1: expected y, .*got None"),
        (graph(y=[0, 1]), "graph 1: expected number of labels 1, as in graph 0 .got 2"),
        (
            Data(x=torch.ones(3, 2), edge_index=edges((0, 1)), y=torch.tensor([0, 1, 1])),
            r"graph 1: expected y, .*\[1, T\].*got shape \[3\]",
        ),
        (graph(y=1.5), "graph 1: expected type of y integer, as in graph 0 .got floating-point"),
        (graph(edge_mask=torch.ones(3)), "graph 1: expected edge_mask of length 4 .got 3"),
        (graph(node_mask=torch.ones(4)), "graph 1: expected node_mask of length 3 .got 4"),
    ],
)
def test_bad_graphs_are_named(bad, words):
    with pytest.raises(ValueError, match=words):
        validate_graphs([graph(0), bad, graph(1)])
    with pytest.raises(ValueError, match=words):
        load_dataset([graph(0), bad, graph(1)])


def test_bad_lists_are_refused():
    with pytest.raises(ValueError, match="at least one graph"):
        validate_graphs([])
    with pytest.raises(ValueError, match="at least two classes .got only class 1 in 2 graphs"):
        validate_graphs([graph(1), graph(1)])
    with pytest.raises(ValueError, match="finite y .got nan"):
        validate_graphs([graph(float("nan"))])
    with pytest.raises(ValueError, match="integer y for classification"):
        validate_graphs([graph(0.5)], task="classification")
    with pytest.raises(ValueError, match="expected task"):
        validate_graphs([graph(0.5)], task="regresion")
    with pytest.raises(TypeError, match="graph 1: expected a torch_geometric.data.Data .got dict"):
        validate_graphs([graph(1), {}])


def test_task_and_classes_are_inferred():
    assert validate_graphs([graph(0), graph(2)]) == GraphFormat("classification", 2, 2)
    assert validate_graphs([graph(0.5), graph(0.7)]) == GraphFormat("regression", None, 2)
    assert validate_graphs([graph(0), graph(1)], task="regression").task == "regression"
    plain = [graph(y, x=None, num_nodes=3) for y in (0, 1)]
    assert validate_graphs(plain).num_features == 0


def test_graphs_without_nodes_or_edges_are_allowed():
    empty = graph(0, x=torch.ones(0, 2), edge_index=torch.zeros(2, 0, dtype=torch.long))
    lonely = graph(1, x=torch.ones(1, 2), edge_index=torch.zeros(2, 0, dtype=torch.long))
    data = load_dataset([empty, lonely, graph(1)])
    assert len(data) == 3 and "graphs" in repr(data)
    plain = [graph(y, x=None, num_nodes=y, edge_index=torch.zeros(2, 0, dtype=torch.long)) for y in (0, 1)]
    assert make_dataset("plain", plain)[1].x.tolist() == [[1]]


def test_labels_are_read_graph_by_graph():
    class Stored(InMemoryDataset):
        def __init__(self, graphs):
            super().__init__(None)
            self.data, self.slices = self.collate(graphs)

    whole = Stored([graph(y) for y in (0, 1, 2, 0, 1, 2)])
    part = whole[[4, 0, 3]]
    assert len(part._data.y) == 6  # the unsliced store
    assert load_dataset(part).labels.tolist() == [1, 0, 0]
    assert validate_graphs(part).num_classes == 2


# ---- degree features ----------------------------------------------------------------------------------------------


def test_degree_features_have_one_width_and_clip():
    small, star = graph(x=None, num_nodes=4), Data(edge_index=edges(*((0, i) for i in range(1, 7))), num_nodes=7)
    features = DegreeFeatures.fit([small])
    assert features.max_degree == 2
    assert features(small).x.tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert features(star).x[0].tolist() == [0, 0, 1] and features(star).x.shape == (7, 3) and star.x is None
    assert DegreeFeatures.fit([small, star]).max_degree == 6
    hub = Data(edge_index=edges(*((0, i) for i in range(1, 2001))), num_nodes=2001)
    assert DegreeFeatures.fit([hub]).max_degree == 255
    with pytest.raises(ValueError, match="max_degree >= 0"):
        DegreeFeatures(-1)


def test_data_sets_without_features_get_them_once_for_all():
    plain = [graph(i % 2, x=None, num_nodes=3) for i in range(10)]
    plain[7] = Data(edge_index=edges(*((0, i) for i in range(1, 6))), num_nodes=6, y=torch.tensor([1]))
    data = load_dataset(plain)
    assert data.num_features == 6 and {g.x.size(1) for g in data} == {6} and plain[0].x is None
    assert data.degree_features(graph(x=None, num_nodes=3)).x.shape == (3, 6)


def test_make_dataset_brings_types_into_shape_and_copies():
    mine = [graph(x=torch.ones(3, 2).double()) for i in range(6)]
    for i, g in enumerate(mine):
        g.y = torch.tensor([[i % 2]], dtype=torch.int32)
    data = make_dataset("mine", mine)
    assert data[0].x.dtype == torch.float and data[0].y.dtype == torch.long and data[0].y.shape == (1,)
    assert mine[0].x.dtype == torch.double and mine[0].y.shape == (1, 1)
    real = make_dataset("mine", [graph(i / 7) for i in range(6)], task="regression")
    assert real[0].y.dtype == torch.float and real.num_classes is None
    truth = make_dataset("mine", [graph(i % 2 == 0) for i in range(4)])
    assert truth.labels.tolist() == [1, 0, 1, 0]


# ---- splits -------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.floats(0.05, 0.9), st.floats(0, 1), st.integers(0, 5))
def test_splits_are_partitions_and_stratified(labels, train, rest, seed):
    valid = (1 - train) * rest * 0.999
    split = split_indices(labels, train, valid, seed)
    n, labels = len(labels), np.array(labels)
    assert sorted(np.concatenate(list(split.values())).tolist()) == list(range(n))
    assert (
        abs(len(split["train"]) - train * n) <= 0.51
        and abs(len(split["train"]) + len(split["valid"]) - (train + valid) * n) <= 0.51
    )
    for label in set(labels.tolist()):
        members = (labels == label).sum()
        most = (
            1 + members / n * max(0, len(set(labels.tolist())) - 2)
        ) / 2  # each class is cut where the line is, half a member off at most, and the line by as much of all others
        assert abs((labels[split["train"]] == label).sum() - members * len(split["train"]) / n) <= most + 1e-9
    again = split_indices(labels, train, valid, seed)
    assert all((split[part] == again[part]).all() for part in split)


def test_split_sizes_and_seeds():
    labels = np.repeat([0, 1], [63, 125])
    sizes = lambda *shares: [len(part) for part in split_indices(labels, *shares).values()]
    assert sizes() == [150, 19, 19] and sizes(*DENOISING_SPLIT) == [132, 9, 47]
    assert [len(part) for part in split_indices(np.zeros(35000), *INTERPRETATION_SPLIT).values()] == [29750, 1750, 3500]
    one, two = split_indices(labels, seed=1)["test"], split_indices(labels, seed=2)["test"]
    assert set(one) != set(two)
    for shares in ((0, 0.1), (0.8, 0.3), (1.2, 0), (0.8, -0.1)):
        with pytest.raises(ValueError, match="expected shares"):
            split_indices(labels, *shares)


def test_every_graph_can_land_in_every_part():
    counts = np.zeros((3, 12))
    for seed in range(400):
        for row, part in zip(counts, split_indices([0] * 4 + [1] * 8, 0.5, 0.25, seed).values()):
            row[part] += 1
    assert abs(counts / 400 - np.array([[0.5], [0.25], [0.25]])).max() < 0.12


def test_folds_follow_the_kernel_benchmark():
    from sklearn.model_selection import StratifiedKFold

    labels = np.random.default_rng(3).integers(0, 2, 97)
    data = make_dataset("x", [graph(int(y)) for y in labels])
    tests = [
        torch.from_numpy(i)
        for _, i in StratifiedKFold(10, shuffle=True, random_state=12345).split(torch.zeros(97), labels)
    ]
    folds = data.folds()
    assert len(folds) == 10
    for i, fold in enumerate(folds):
        mask = torch.ones(97, dtype=torch.bool)
        mask[tests[i]], mask[tests[i - 1]] = False, False
        assert (
            fold.split["test"].tolist() == tests[i].tolist() and fold.split["valid"].tolist() == tests[i - 1].tolist()
        )
        assert fold.split["train"].tolist() == mask.nonzero().view(-1).tolist()
        assert fold.test[0] is data[int(tests[i][0])]
    with pytest.raises(ValueError, match="between 3 folds"):
        data.folds(2)
    with pytest.raises(ValueError, match="smallest class .got k=90"):
        data.folds(90)
    real = make_dataset("x", [graph(y / 10) for y in range(20)])
    assert sorted(np.concatenate([fold.split["test"] for fold in real.folds(4)])) == list(range(20))


def test_data_set_is_a_frozen_record():
    data = make_dataset("mine", [graph(i % 2) for i in range(20)])
    with pytest.raises(AttributeError):
        data.task = "regression"
    assert (
        data[-1] is data.graphs[-1]
        and len(data[2:5]) == 3
        and len(data[np.array([0, 3])]) == 2
        and len(list(data)) == 20
    )
    anew = data.with_split(0.7, 0.05, seed=3)
    assert [len(part) for part in (anew.train, anew.valid, anew.test)] == [14, 1, 5] and anew.graphs is data.graphs
    summary = data.summary()
    assert (
        summary["classes"] == "10, 10"
        and summary["mean nodes"] == 3
        and summary["mean edges"] == 4
        and summary["split"] == "16/2/2"
    )
    assert "mine" in repr(data) and "0.00 %" in repr(data)
    lonely = make_dataset("lonely", [graph(0.1 * i, nodes=4) for i in range(4)])
    assert lonely.summary()["isolated nodes"] == "25.00 %" and "0 to 0.3, mean 0.15" in repr(lonely)
    for split in ({"train": [0]}, {"train": [0], "valid": [0], "test": []}, {"train": [99], "valid": [], "test": []}):
        with pytest.raises(ValueError, match="expected"):
            GraphDataset("x", data.graphs, data.task, 2, 2, split)


# ---- motifs -------------------------------------------------------------------------------------------------------


def networkx_of(edge_index, nodes=()):
    g = networkx.Graph(edge_index.T.tolist())
    g.add_nodes_from(nodes)
    return g


def test_motif_truth():
    from torch_geometric.datasets.motif_generator import CycleMotif, HouseMotif

    data = motif_dataset(40)
    motifs = [networkx_of(HouseMotif()().edge_index), networkx_of(CycleMotif(5)().edge_index)]
    for g in data:
        whole, inside = networkx_of(g.edge_index), g.edge_index[:, g.edge_mask == 1]
        assert g.num_nodes == 25 and g.is_undirected() and g.is_coalesced() and networkx.is_connected(whole)
        assert networkx.is_isomorphic(networkx_of(inside), motifs[int(g.y)])
        assert sorted(inside.unique().tolist()) == g.node_mask.nonzero().view(-1).tolist()
        bridge = [(a, b) for a, b in whole.edges if g.node_mask[a] != g.node_mask[b]]
        assert len(bridge) == 1 and networkx.is_tree(whole.subgraph((g.node_mask == 0).nonzero().view(-1).tolist()))
        assert g.x.argmax(1).tolist() == [min(whole.degree[i], 9) for i in range(25)]
    assert np.bincount(data.labels).tolist() == [20, 20] and data.num_features == 10


def test_motif_bridge_reaches_every_node():
    reached = [
        g.edge_index[:, (g.node_mask[g.edge_index[0]] == 0) & (g.node_mask[g.edge_index[1]] == 1)]
        for g in motif_dataset(300)
    ]
    ends = torch.cat(reached, 1)
    assert set(ends[0].tolist()) == set(range(20)) and set(ends[1].tolist()) == set(range(20, 25))


def test_motifs_depend_on_the_seed_alone():
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    one = motif_dataset(30, seed=5)
    assert (
        (torch.get_rng_state() == before[0]).all()
        and (np.random.get_state()[1] == before[1]).all()
        and random.getstate() == before[2]
    )
    torch.manual_seed(2), np.random.seed(2), random.seed(2)
    two, longer, other = motif_dataset(30, seed=5), motif_dataset(50, seed=5), motif_dataset(30, seed=6)
    same = lambda a, b: all(
        x.edge_index.shape == y.edge_index.shape and (x.edge_index == y.edge_index).all() for x, y in zip(a, b)
    )
    assert same(one, two) and same(one, longer) and not same(one, other)
    assert all((one.split[part] == two.split[part]).all() for part in one.split)


@pytest.mark.slow
def test_a_thousand_motifs_in_seconds():
    started = time.process_time()
    data = load_dataset("Motif")
    assert time.process_time() - started < 3
    assert len(data) == 1000 and [len(part) for part in (data.train, data.valid, data.test)] == [800, 100, 100]
    for part in (data.train, data.valid, data.test):
        assert sum(int(g.y) for g in part) * 2 == len(part)
    for sizes in ((1, 20), (10, 1)):
        with pytest.raises(ValueError, match="at least 2 graphs"):
            motif_dataset(*sizes)


# ---- noise --------------------------------------------------------------------------------------------------------


def simple_graphs(max_nodes=12):
    pairs = st.integers(0, max_nodes).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, max(n - 1, 0)), st.integers(0, max(n - 1, 0))), max_size=25 if n else 0),
        )
    )
    return pairs.map(
        lambda found: Data(num_nodes=found[0], x=torch.arange(found[0] * 2.0).view(-1, 2), edge_index=edges(*found[1]))
    )


@settings(max_examples=150)
@given(simple_graphs(), st.floats(0, 3), st.integers(0, 99))
def test_redundant_edges(g, share, seed):
    noisy = add_redundant_edges(g, share, seed)
    before, after = set(map(tuple, g.edge_index.T.tolist())), list(map(tuple, noisy.edge_index.T.tolist()))
    undirected = {frozenset(pair) for pair in before if pair[0] != pair[1]}
    room = g.num_nodes * (g.num_nodes - 1) // 2 - len(undirected)
    mask = dict(zip(after, noisy.edge_mask.tolist()))
    added = [pair for pair in after if mask[pair] == 0]
    assert len(mask) == len(after) == len(before) + 2 * min(int(share * len(undirected) + 0.5), room)
    assert {pair for pair in after if mask[pair] == 1} == before
    assert all(a != b and mask[b, a] == 0 for a, b in added)
    assert noisy.edge_index.dtype == torch.long and noisy.is_coalesced() and (noisy.x == g.x).all()
    assert "edge_mask" not in g and (noisy.edge_index == add_redundant_edges(g, share, seed).edge_index).all()


def test_redundant_edges_are_uniform_and_capped():
    path = Data(num_nodes=5, edge_index=edges((0, 1), (1, 2), (2, 3), (3, 4)))
    counts = {}
    for seed in range(1200):
        noisy = add_redundant_edges(path, 0.5, seed)
        for a, b in noisy.edge_index[:, noisy.edge_mask == 0].T.tolist():
            counts[min(a, b), max(a, b)] = counts.get((min(a, b), max(a, b)), 0) + 0.5
    assert len(counts) == 6 and all(abs(count - 1200 * 2 / 6) < 70 for count in counts.values())
    nearly = Data(num_nodes=4, edge_index=edges((0, 1), (0, 2), (0, 3), (1, 2), (1, 3)))
    assert add_redundant_edges(nearly, 2.0).num_edges == 12
    with pytest.raises(ValueError, match="share >= 0"):
        add_redundant_edges(path, -0.1)


def test_redundant_edges_on_a_large_graph():
    started = time.process_time()
    n = 40000
    ring = Data(num_nodes=n, edge_index=edges(*((i, (i + 1) % n) for i in range(n))))
    noisy = add_redundant_edges(ring)
    assert (
        int((noisy.edge_mask == 0).sum()) == 2 * 12000
        and int(noisy.edge_index.max()) == n - 1
        and noisy.is_undirected()
    )
    assert time.process_time() - started < 5


def test_denoising_set(bare):
    pytest.importorskip("grakel")
    data = denoising_dataset()
    assert [len(part) for part in (data.train, data.valid, data.test)] == [132, 9, 47]
    clean = load_dataset("MUTAG")
    for g, original in zip(data, clean):
        real = g.edge_index[:, g.edge_mask == 1]
        assert torch.equal(real, original.edge_index) and (g.x == original.x).all()
    assert abs(sum(float(g.edge_mask.sum()) for g in data) / sum(g.num_edges for g in data) - 1 / 1.3) < 0.005
    assert len({tuple(g.edge_index[:, g.edge_mask == 0].flatten().tolist()) for g in data}) > 180


def test_degrees_do_not_give_the_noise_away():
    motifs = motif_dataset(20)
    plain = [Data(num_nodes=g.num_nodes, edge_index=g.edge_index, y=g.y) for g in motifs]
    for source in (motifs, plain):
        for g in denoising_dataset(source):
            degrees = np.bincount(g.edge_index[0], minlength=g.num_nodes)
            assert g.x.argmax(1).tolist() == np.minimum(degrees, g.x.size(1) - 1).tolist()
    own = denoising_dataset(motifs.graphs)  # features that the caller brought stay as they are
    assert own.degree_features is None and all((a.x == b.x).all() for a, b in zip(own, motifs))


# ---- line graphs --------------------------------------------------------------------------------------------------


def slow_line_graph(g):
    ends = sorted({(min(pair), max(pair)) for pair in g.edge_index.T.tolist()})
    pairs = [[i, j] for (i, a), (j, b) in itertools.product(enumerate(ends), repeat=2) if i != j and set(a) & set(b)]
    return ends, pairs, [(g.x[a] + g.x[b]).tolist() for a, b in ends]


@settings(max_examples=150)
@given(simple_graphs())
def test_line_graph_agrees_with_a_double_loop(g):
    g.edge_mask = torch.tensor([float((a + b) % 2) for a, b in g.edge_index.T.tolist()])
    line, (ends, pairs, x) = to_line_graph(g), slow_line_graph(g)
    assert line.num_nodes == len(ends) and list(map(tuple, line.ends.tolist())) == ends
    assert line.edge_index.T.tolist() == pairs and line.x.tolist() == x
    assert line.node_mask.tolist() == [float((a + b) % 2) for a, b in ends]
    assert (
        line.edge_index.shape == (2, len(pairs))
        and line.edge_index.dtype == torch.long
        and line.x.shape == (len(ends), 2)
    )


def test_line_graph_of_odd_graphs():
    one = to_line_graph(Data(x=torch.eye(2), edge_index=edges((0, 1)), y=torch.tensor([1])))
    assert one.num_nodes == 1 and one.edge_index.shape == (2, 0) and one.x.tolist() == [[1, 1]] and int(one.y) == 1
    none = to_line_graph(Data(x=torch.eye(2), edge_index=torch.zeros(2, 0, dtype=torch.long)))
    assert (
        none.num_nodes == 0
        and none.x.shape == (0, 2)
        and none.edge_index.shape == (2, 0)
        and none.edge_index.dtype == torch.long
    )
    loop = to_line_graph(Data(x=torch.eye(2), edge_index=torch.tensor([[0, 0, 1], [0, 1, 0]])))
    assert (
        loop.ends.tolist() == [[0, 0], [0, 1]]
        and loop.edge_index.tolist() == [[0, 1], [1, 0]]
        and loop.x[0].tolist() == [2, 0]
    )
    double = to_line_graph(Data(x=torch.eye(3), edge_index=edges((0, 1), (0, 1), (1, 2))))
    assert double.num_nodes == 2 and double.num_edges == 2
    batch = Batch.from_data_list([one, to_line_graph(graph(y=0)), one])
    assert batch.num_nodes == 4 and batch.ends.shape == (4, 2) and batch.edge_index.tolist() == [[1, 2], [2, 1]]


def test_line_graph_agrees_with_networkx():
    for g in motif_dataset(6):
        line = to_line_graph(add_redundant_edges(g, 0.3, 1))
        expected = networkx.line_graph(networkx_of(add_redundant_edges(g, 0.3, 1).edge_index))
        relabeled = networkx.Graph(
            [[tuple(line.ends[a].tolist()), tuple(line.ends[b].tolist())] for a, b in line.edge_index.T.tolist()]
        )
        assert {frozenset((tuple(sorted(a)), tuple(sorted(b)))) for a, b in expected.edges} == {
            frozenset(pair) for pair in relabeled.edges
        }
        assert line.num_nodes == expected.number_of_nodes() and int(line.node_mask.sum()) == g.num_edges // 2
