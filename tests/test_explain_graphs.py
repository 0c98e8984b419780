"`gib-nb explain` for a file of graphs: rows, pictures, and a model that is trained for the purpose."

import csv

import pytest
import torch
from torch_geometric.data import Data

from gib_nb import GIBTrainer, motif_dataset
from gib_nb.cli import main
from gib_nb.cli.explain_graphs import holds_graphs
from gib_nb.report.graphs import GRAPH_COLUMNS, selected_edges


@pytest.fixture(scope="module")
def motifs():
    return motif_dataset(60)


@pytest.fixture(scope="module")
def run(motifs, tmp_path_factory):
    "A folder with a small model."
    folder = tmp_path_factory.mktemp("run")
    trainer = GIBTrainer(epochs=3, pretrain_epochs=1, rampup_epochs=0, hidden_channels=8, max_restarts=0)
    with pytest.warns():
        trainer.fit(motifs.train, valid=motifs.valid, progress=False).save(folder)
    return folder


@pytest.fixture(scope="module")
def file(motifs, tmp_path_factory):
    path = tmp_path_factory.mktemp("graphs") / "graphs.pt"
    torch.save([Data(x=graph.x, edge_index=graph.edge_index, y=graph.y) for graph in motifs.test], path)
    return path


def test_rows_are_what_the_trainer_says(motifs, run, file, capsys):
    assert main(["explain", str(file), "--model", str(run), "--no-progress"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    trainer = GIBTrainer.load(run)
    assert list(rows[0]) == list(GRAPH_COLUMNS) and len(rows) == len(motifs.test)
    labels = trainer.predict(motifs.test)
    for number, (row, explanation) in enumerate(zip(rows, trainer.iter_explain(motifs.test)), 1):
        nodes = explanation.selected_nodes.nonzero().flatten().tolist()
        assert int(row["graph"]) == number and row["prediction"] == str(labels[number - 1])
        assert [int(node) for node in row["nodes"].split()] == nodes
        assert float(row["fraction"]) == pytest.approx(len(nodes) / 25, abs=1e-4)
        assert int(row["components"]) == explanation.components
        pairs = [tuple(map(int, pair.split("-"))) for pair in row["edges"].split()]
        assert pairs == selected_edges(explanation) and all(i < j for i, j in pairs)
        assert {node for pair in pairs for node in pair} <= set(nodes)


def test_edges_above_the_threshold_between_selected_nodes():
    from gib_nb.train.predictions import SubgraphExplanation

    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    explanation = SubgraphExplanation(
        edge_index=edge_index,
        edge_mask=torch.tensor([0.9, 0.9, 0.2, 0.2, 0.8, 0.8]),
        selected_nodes=torch.tensor([True, True, True, False]),
        selected_threshold=0.5,
    )
    assert selected_edges(explanation) == [(0, 1)]


def test_a_page_has_a_picture_of_each_graph(run, file, tmp_path, capsys):
    page = tmp_path / "graphs.html"
    assert main(["explain", str(file), "--model", str(run), "--out", str(page)]) == 0
    text = page.read_text()
    assert (
        text.count("<figure>") == 6
        and f"Explained by the model in {run}." in text
        and "http" not in text.lower().replace("http-equiv", "").replace("http://www.w3.org", "")
    )
    assert "wrote" in capsys.readouterr().err and "ground truth" not in text


def test_the_legend_says_what_an_outline_means_where_there_is_one(motifs, run, file, tmp_path):
    torch.save(list(motifs.test), tmp_path / "true.pt")
    page = tmp_path / "true.html"
    assert main(["explain", str(tmp_path / "true.pt"), "--model", str(run), "--out", str(page)]) == 0
    assert "black outline: ground truth" in page.read_text()


def test_a_threshold_selects_others(run, file, capsys):
    words = ["explain", str(file), "--model", str(run), "--no-progress", "--threshold"]
    fractions = []
    for threshold in ("0", "0.999"):
        assert main([*words, threshold]) == 0
        fractions.append([float(row["fraction"]) for row in csv.DictReader(capsys.readouterr().out.splitlines())])
    assert set(fractions[0]) == {1.0} and set(fractions[1]) == {0.0}


@pytest.mark.slow
def test_without_a_model_one_is_trained(motifs, tmp_path, capsys, monkeypatch):
    from gib_nb.train import recipes

    file = tmp_path / "all.pt"
    torch.save([Data(x=graph.x, edge_index=graph.edge_index, y=graph.y) for graph in motifs.graphs], file)
    whole = recipes.recipe
    small = dict(epochs=12, hidden_channels=8, max_restarts=0)
    monkeypatch.setattr(recipes, "recipe", lambda name, **settings: whole(name, **small | settings))
    assert main(["explain", str(file), "--no-progress"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 61 and "trained on 48 of these graphs, accuracy" in err and "on 6 others" in err


def test_what_cannot_be_explained_is_said(run, file, tmp_path, capsys):
    bare = tmp_path / "bare.pt"
    torch.save([Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 0]]))], bare)
    for words, said in (
        ([str(bare)], "expected --model RUN, or graphs with labels y"),
        ([str(bare), "--model", str(run)], "expected a model for graphs with 2 features"),
        ([str(file), "--property", "QED"], "expected molecules for --property"),
        ([str(file), "--jobs", "2"], "expected molecules for --jobs"),
        ([str(file), "--out", "a.svg"], "expected --out with the ending .csv or .html for graphs"),
    ):
        assert main(["explain", *words, "--no-progress"]) != 0
        assert said in capsys.readouterr().err


def test_where_graphs_are(tmp_path):
    assert holds_graphs("a.pt") and not holds_graphs("a.csv") and not holds_graphs("CCO")
    (tmp_path / "processed").mkdir()
    assert not holds_graphs(str(tmp_path))
    (tmp_path / "processed" / "data.pt").touch()
    assert holds_graphs(str(tmp_path))
