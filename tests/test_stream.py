"Data sets that are not in memory: the same model as from a list, and no list is made of them."

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset
from torch_geometric.data import Data, OnDiskDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import SimpleConv, global_add_pool

from gib_nb.data.datasets import load_dataset
from gib_nb.data.stream import StreamedGraphs, prepare_streams, stream_of
from gib_nb.data.synthetic import motif_dataset
from gib_nb.train.classifier_trainer import ClassifierTrainer
from gib_nb.train.config import configure
from gib_nb.train.ensemble import GIBEnsemble
from gib_nb.train.estimators import GIBClassifier
from gib_nb.train.trainer import GIBTrainer

QUICK = dict(epochs=4, pretrain_epochs=1, rampup_epochs=1, max_restarts=0, hidden_channels=8, batch_size=16)


class Counted(Dataset):
    "Graphs that are made anew each time, with a count of those that are alive."

    def __init__(self, graphs):
        self.graphs, self.alive, self.most, self.read = graphs, 0, 0, 0

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, i):
        import weakref

        if not 0 <= i < len(self.graphs):
            raise IndexError(i)
        graph = self.graphs[i].clone()
        self.alive, self.read = self.alive + 1, self.read + 1
        self.most = max(self.most, self.alive)
        weakref.finalize(graph, self._gone)
        return graph

    def _gone(self):
        self.alive -= 1


@pytest.fixture(scope="module")
def graphs():
    return motif_dataset(60, base_nodes=5).graphs


def weights(trainer):
    return torch.cat([value.flatten() for value in trainer.model.state_dict().values()])


def fitted(train, **settings):
    more = {name: settings.pop(name) for name in ("valid", "y", "num_workers") if name in settings}
    return GIBTrainer(**QUICK | settings).fit(train, progress=False, **more)


@pytest.mark.parametrize(
    "settings", [{}, {"information": "prior", "classifier": "reencode"}, {"encoder": "gine"}], ids=str
)
def test_the_same_weights_as_from_a_list(graphs, settings):
    listed, streamed = fitted(graphs, **settings), fitted(Counted(graphs), **settings)
    assert torch.equal(weights(listed), weights(streamed)) and listed.spec == streamed.spec
    assert str(listed.history) == str(streamed.history) and listed.collapse == streamed.collapse


@pytest.mark.slow
def test_with_validation_graphs_and_labels_of_ones_own(graphs):
    y = ["ab"[int(graph.y)] for graph in graphs]
    listed = fitted(graphs[:50], y=y[:50], valid=(graphs[50:], y[50:]))
    streamed = fitted(Counted(graphs[:50]), y=y[:50], valid=(graphs[50:], y[50:]))
    assert torch.equal(weights(listed), weights(streamed)) and streamed.classes_.tolist() == ["a", "b"]
    both = fitted(Counted(graphs[:50]), valid=Counted(graphs[50:]))
    assert torch.equal(weights(both), weights(fitted(graphs[:50], valid=graphs[50:])))


def test_graphs_without_features(graphs):
    bare = [Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes, y=graph.y) for graph in graphs]
    listed, streamed = fitted(bare), fitted(Counted(bare))
    assert listed.spec == streamed.spec and listed.spec.max_degree is not None
    assert torch.equal(weights(listed), weights(streamed))


@pytest.mark.slow
def test_values_and_several_targets(graphs):
    values = [Data(x=graph.x, edge_index=graph.edge_index, y=torch.tensor([i / 7])) for i, graph in enumerate(graphs)]
    assert torch.equal(weights(fitted(values)), weights(fitted(Counted(values))))
    label = lambda i, graph: torch.tensor([[float(graph.y), float("nan") if i % 2 else 1.0 - float(graph.y)]])
    several = [Data(x=g.x, edge_index=g.edge_index, y=label(i, g)) for i, g in enumerate(graphs)]
    assert torch.equal(weights(fitted(several)), weights(fitted(Counted(several))))


@pytest.mark.slow
def test_few_graphs_are_in_memory(graphs, monkeypatch):
    monkeypatch.setattr("gib_nb.data.stream.CHUNK", 10)
    monkeypatch.setattr("gib_nb.data.stream.SAMPLE", 12)
    many = Counted(graphs * 10)
    trainer = fitted(many, epochs=3, pretrain_epochs=1, rampup_epochs=1)
    assert many.most <= 10 + 16 + 5 and many.read >= 4 * 600
    many.most = 0
    assert trainer.predict(many).shape == (600,)
    assert many.most <= 40
    many.most = 0
    assert sum(1 for _ in trainer.iter_explain(many)) == 600 and many.most <= 60
    many.most = 0
    score = trainer.score(many)
    assert many.most <= 1100 and score == pytest.approx(trainer.score(graphs * 10))


@pytest.mark.slow
def test_workers_read_in_the_same_order(graphs):
    assert torch.equal(weights(fitted(Counted(graphs), num_workers=2)), weights(fitted(graphs)))
    loader = DataLoader(Counted(graphs), batch_size=5, num_workers=2)
    assert stream_of(loader)[1] == 2 and torch.equal(weights(fitted(loader)), weights(fitted(graphs)))


def test_what_is_in_memory_is_taken_as_a_list(graphs):
    assert stream_of(graphs) is None and stream_of(motif_dataset(20)) is None and stream_of(DataLoader(graphs)) is None
    assert stream_of(Subset(Counted(graphs), [1, 2]))[1] == 0
    assert torch.equal(weights(fitted(Subset(Counted(graphs), range(40)))), weights(fitted(graphs[:40])))


class OnDisk(OnDiskDataset):
    def __init__(self, root):
        schema = {
            "x": {"dtype": torch.float, "size": (-1, 10)},
            "edge_index": {"dtype": torch.long, "size": (2, -1)},
            "y": int,
        }
        super().__init__(root, schema=schema)

    def serialize(self, data):
        return {"x": data.x, "edge_index": data.edge_index, "y": int(data.y)}

    def deserialize(self, row):
        return Data(x=row["x"], edge_index=row["edge_index"], y=torch.tensor([row["y"]]))


def test_pyg_on_disk(graphs, tmp_path):
    data = OnDisk(tmp_path)
    data.extend(graphs)
    trainer = fitted(data)
    assert torch.equal(weights(trainer), weights(fitted(graphs)))
    assert np.array_equal(trainer.predict(data), trainer.predict(graphs)) and trainer.score(data) == trainer.score(
        graphs
    )
    data.close()


def test_faults_are_named(graphs):
    wrong = [graph.clone() for graph in graphs]
    wrong[37].x = wrong[37].x[:, :3]
    with pytest.raises(ValueError, match="graph 37: expected columns of x 10"):
        fitted(Counted(wrong))
    wrong[37].x, wrong[37].y = graphs[37].x, None
    with pytest.raises(ValueError, match="graph 37: expected y"):
        fitted(Counted(wrong))
    with pytest.raises(ValueError, match="empty data set"):
        fitted(Counted([]))


def test_interrupted_and_resumed(graphs, tmp_path):
    class Stop(Exception):
        pass

    def stop(losses):
        if losses["epoch"] == 2:
            raise Stop

    with pytest.raises(Stop):
        GIBTrainer(**QUICK).fit(Counted(graphs), progress=False, checkpoint=tmp_path / "c", callbacks=stop)
    resumed = GIBTrainer(**QUICK).fit(Counted(graphs), progress=False, checkpoint=tmp_path / "c")
    assert torch.equal(weights(resumed), weights(fitted(graphs)))


def test_a_stream_is_prepared_graphs(graphs):
    spec, train, valid = prepare_streams(Counted(graphs))
    assert isinstance(train, StreamedGraphs) and len(train) + len(valid) == 60 and len(train + valid) == 60
    joined = train + valid
    assert torch.equal(joined.y, torch.cat([train.y, valid.y])) and torch.equal(joined[54].y, joined.y[54:55])
    assert len(train[3:7]) == 4 and train.mean_nodes == np.mean([graph.num_nodes for graph in graphs])
    assert [batch.num_graphs for batch in train.batches(20)] == [20, 20, 14]


def test_molecules_of_a_file_are_made_for_each_batch(tmp_path):
    chains = ["C" * n + end for n in range(1, 21) for end in ("O", "N", "F")]
    rows = [f"{smiles},{'yes' if 'O' in smiles else 'no'}" for smiles in chains]
    (tmp_path / "a.csv").write_text("\n".join(["smiles,label", *rows]))
    here, away = (load_dataset(tmp_path / "a.csv", in_memory=kept) for kept in (True, False))
    assert isinstance(here.graphs, list) and not isinstance(away.graphs, list)
    assert here.labels.tolist() == away.labels.tolist() and here.summary() == away.summary()
    trainers = [GIBTrainer(**QUICK).fit(data.train, valid=data.valid, progress=False) for data in (here, away)]
    assert torch.equal(*map(weights, trainers)) and trainers[1].classes_.tolist() == ["no", "yes"]
    assert trainers[1].predict(away.test).tolist() == trainers[0].predict(here.test).tolist()
    assert trainers[1].score(away.test) == trainers[0].score(here.test)
    assert len(trainers[1].explain(away.test)) == len(here.test)


def test_plain_networks_train_on_streams_too(graphs):
    settings = dict(hidden_channels=8, epochs=3, batch_size=16)
    listed = ClassifierTrainer("gin", **settings).fit(graphs[:50], valid=graphs[50:])
    streamed = ClassifierTrainer("gin", **settings).fit(Counted(graphs[:50]), valid=Counted(graphs[50:]))
    assert torch.equal(weights(listed), weights(streamed)) and listed.losses == pytest.approx(streamed.losses)
    assert np.array_equal(listed.predict(graphs), streamed.predict(Counted(graphs)))
    assert streamed.score(Counted(graphs)) == listed.score(graphs)


@pytest.mark.parametrize("chosen", ["sampler", "batches", "some at random"])
def test_a_loader_s_own_choice_of_graphs_is_respected(graphs, chosen):
    "Graphs that a sampler leaves out, such as those of a test, do not get into the training."
    data, few = Counted(graphs), list(range(15, 45))
    loader = {
        "sampler": lambda: DataLoader(data, batch_size=4, sampler=torch.utils.data.SubsetRandomSampler(few)),
        "batches": lambda: DataLoader(data, batch_sampler=[few[:10], few[10:]]),
        "some at random": lambda: DataLoader(data, sampler=torch.utils.data.RandomSampler(data, num_samples=30)),
    }[chosen]()
    found, _ = stream_of(loader)
    assert len(found) == 30 and (chosen == "some at random" or sorted(found.indices) == few)
    for plain in (DataLoader(data, batch_size=4), DataLoader(data, batch_size=4, shuffle=True)):
        assert stream_of(plain)[0] is data
    if chosen == "batches":
        assert torch.equal(weights(fitted(loader)), weights(fitted(Subset(data, few))))


def test_an_ensemble_and_an_estimator_read_graphs_in_parts(graphs, monkeypatch):
    for module in ("train.ensemble", "data.stream"):
        monkeypatch.setattr(f"gib_nb.{module}.CHUNK", 16)
    settings = QUICK | dict(epochs=2, pretrain_epochs=0, rampup_epochs=0)
    ensemble = GIBEnsemble(configure(**settings), 2).fit(graphs, progress=False)
    data = Counted(graphs)
    assert (ensemble.predict_std(data) == ensemble.predict_std(graphs)).all() and data.most <= 32  # two parts
    data = Counted(graphs)
    found = GIBClassifier(**settings).fit(data)
    assert data.most < 60
    assert torch.equal(weights(found.trainer_), weights(GIBClassifier(**settings).fit(graphs).trainer_))


def test_a_model_is_explained_in_memory_and_that_is_said(graphs):
    class Sums(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = SimpleConv()

        def forward(self, x, edge_index, batch):
            sums = global_add_pool(self.conv(x, edge_index), batch)[:, :2]
            return sums - sums.mean(0)

    with pytest.warns(UserWarning, match="all graphs are read into memory"):
        GIBTrainer(model=Sums(), **QUICK).fit(Counted(graphs), progress=False)
