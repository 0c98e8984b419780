"Published relatives of the GIB: their new parts, by hand and against plain loops."

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gib_nb import GIBTrainer, motif_dataset
from gib_nb.methods.gsat import SharedGIB, gsat_config
from gib_nb.methods.pgib import PrototypeClassifier, nearest_graphs, pgib_config
from gib_nb.methods.vgib import NoisyGIB, node_statistics, noise_kl, vgib_config
from gib_nb.nn.backbones import readout
from gib_nb.nn.masks import edge_mask_context
from gib_nb.train.config import config_from_dict, config_to_dict, flat_settings
from gib_nb.train.parts import Prior
from gib_nb.train.recipes import RECIPES, SUMMARIES, recipe

TINY = dict(hidden_channels=8, max_restarts=0)


@pytest.fixture(scope="module")
def motifs():
    return motif_dataset(60)


@pytest.mark.parametrize("method", SUMMARIES)
def test_a_summary_is_what_the_recipe_says(method):
    assert SUMMARIES[method] == RECIPES[method].__doc__.splitlines()[0]


def test_the_robust_recipe_is_the_two_stage_one_with_three_changes():
    ours, theirs = (flat_settings(recipe(name)) for name in ("robust", "two_stage"))
    changed = {name: value for name, value in ours.items() if theirs[name] != value}
    assert changed == {"alpha": 1.0, "generator_num_layers": 2, "generator_num_networks": 2}


@pytest.mark.parametrize("method", ["vgib", "gsat", "pgib"])
def test_a_method_trains_saves_and_loads(method, motifs, tmp_path):
    trainer = GIBTrainer(recipe(method, epochs=3, **TINY)).fit(motifs.train, valid=motifs.valid, progress=False)
    trainer.save(tmp_path)
    again = GIBTrainer.load(tmp_path)
    assert again.config == trainer.config == config_from_dict(config_to_dict(trainer.config))
    for name in ("prediction", "whole_prediction", "node_mask", "edge_mask"):
        assert torch.equal(getattr(again.apply(motifs.test), name), getattr(trainer.apply(motifs.test), name))
    assert all(math.isfinite(row["loss"]) for row in trainer.history["epochs"])
    assert any(row["mutual_information"] > 0 for row in trainer.history["steps"])


@pytest.mark.parametrize("method", RECIPES)
def test_random_numbers_come_from_the_seed_alone(method, motifs):
    settings = dict(hidden_channels=4, num_layers=1, num_steps=1) if method == "gib" else dict(hidden_channels=4)

    def weights(global_seed):
        torch.manual_seed(global_seed)
        trainer = GIBTrainer(recipe(method, epochs=3, max_restarts=0, **settings))
        trainer.fit(motifs.train[:20], valid=motifs.valid, progress=False)
        drawn = torch.rand(1)
        torch.manual_seed(global_seed)
        assert torch.equal(drawn, torch.rand(1)), "training drew from the global generator"
        return torch.cat([each.flatten() for each in trainer.model.parameters()])

    assert torch.equal(weights(1), weights(2))


def test_two_networks_of_a_mask_are_saved_and_loaded(motifs, tmp_path):
    trainer = GIBTrainer(recipe("robust", epochs=12, **TINY)).fit(motifs.train, valid=motifs.valid, progress=False)
    trainer.save(tmp_path)
    again = GIBTrainer.load(tmp_path)
    assert len(again.model.mask_networks) == 1
    assert torch.equal(again.apply(motifs.test).edge_mask, trainer.apply(motifs.test).edge_mask)


@settings(max_examples=30)
@given(st.integers(2, 6), st.integers(1, 3), st.integers(0, 10**6))
def test_noise_kl_is_that_of_two_normals(nodes, channels, seed):
    "The distributions of the sum of the noisy embeddings, column by column."
    generator = torch.Generator().manual_seed(seed)
    h, keep = torch.randn(nodes, channels, generator=generator), torch.rand(nodes, generator=generator)
    mean, std = h.mean(0), h.std(0, correction=0)
    found = noise_kl(keep, h, torch.zeros(nodes, dtype=torch.long), 1)
    expected = 0.0
    for column in range(channels):
        center = sum(keep[i] * h[i, column] + (1 - keep[i]) * mean[column] for i in range(nodes))
        variance = std[column] ** 2 * sum((1 - keep[i]) ** 2 for i in range(nodes))
        p = torch.distributions.Normal(center, variance.sqrt())
        q = torch.distributions.Normal(nodes * mean[column], (nodes * std[column] ** 2).sqrt())
        expected += torch.distributions.kl_divergence(p, q)
    assert float(found) == pytest.approx(float(expected), rel=1e-3, abs=1e-4)


def test_noise_kl_of_several_graphs_and_without_variance():
    "Each graph has its own; where all nodes are equal no noise hides and nothing shows."
    h = torch.tensor([[1.0], [-1.0], [2.0], [2.0], [2.0]])
    batch, keep = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])
    assert noise_kl(keep, h, batch, 2).tolist() == pytest.approx([math.log(2) / 2, 0.0])
    mean, std = node_statistics(h, batch, 2)
    assert mean[:, 0].tolist() == [0, 0, 2, 2, 2] and std[:, 0].tolist() == [1, 1, 0, 0, 0]


@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_noise_covers_the_nodes_that_are_not_kept(reduce):
    "A node that is kept is unchanged; the mean over many draws of the others is the mean of the graph."
    model = NoisyGIB(2, 2, hidden_channels=4, readout=reduce)
    h, batch = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(3, dtype=torch.long)
    ones = torch.ones(3)
    torch.testing.assert_close(model.covered(h, ones, batch, 1, noise=True), readout(h, batch, 1, reduce))
    keep = torch.tensor([1.0, 0.0, 0.0])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = torch.cat([model.covered(h, keep, batch, 1, noise=True) for _ in range(4000)])
    expected = model.covered(h, keep, batch, 1)
    torch.testing.assert_close(expected[0], (h[0] + 2 * h.mean(0)) / (3 if reduce == "mean" else 1))
    spread = math.sqrt(2) / (3 if reduce == "mean" else 1)
    torch.testing.assert_close(draws.mean(0), expected[0], atol=0.1, rtol=0)
    torch.testing.assert_close(draws.std(0), spread * h.std(0, correction=0), atol=0.05, rtol=0.05)


def test_noise_of_the_encoder_has_no_gradient():
    "The encoder cannot make the noise smaller; the embeddings of the chosen nodes learn."
    h = torch.randn(4, 2, requires_grad=True)
    mean, std = node_statistics(h, torch.zeros(4, dtype=torch.long), 1)
    assert not mean.requires_grad and not std.requires_grad


def test_gsat_reads_the_graph_twice_with_one_encoder(motifs):
    model = SharedGIB(10, 2, hidden_channels=8, readout="sum", mask_on="edges").eval()
    graph = motifs.train[0]
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    with torch.no_grad():
        output = model(graph.x, graph.edge_index)
        with edge_mask_context(model.backbone, output.edge_mask, graph.edge_index):
            nodes = model.backbone(graph.x, graph.edge_index)
        expected = model.classify(readout(nodes, batch, 1, "sum"))
    torch.testing.assert_close(output.prediction, expected)
    assert not torch.allclose(output.prediction, model.predict_graph(graph.x, graph.edge_index, batch, 1))


def test_both_directions_of_an_edge_have_one_sample(motifs):
    "In whatever order the edges stand."
    model, graph = SharedGIB(10, 2, hidden_channels=8, mask_on="edges", sample_mask=True), motifs.train[0]
    order = torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(0))
    edges = graph.edge_index[:, order]
    with torch.no_grad():
        _, p, mask = model.mask(graph.x, edges)
        _, sample = model.sample(p, mask, edges)
    drawn = {tuple(pair): value for pair, value in zip(edges.t().tolist(), sample.tolist())}
    assert all(drawn[u, v] == pytest.approx(drawn[v, u], abs=1e-5) for u, v in drawn)
    assert len({round(value, 4) for value in drawn.values()}) > graph.num_edges / 4


def test_the_prior_falls_and_epochs_are_compared_at_its_end(motifs):
    "In the validation loss the prior has its last value in every epoch."
    assert [Prior(0.5, start=0.9, step_epochs=2).prob_at(epoch) for epoch in range(10)] == [
        0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.6, 0.6, 0.5, 0.5,
    ]  # fmt: skip
    config = gsat_config(10, **TINY)
    assert config.information.step_epochs == 1 and config.phases[0].loss_weight(0) == 1
    falling = GIBTrainer(config).fit(motifs.train, valid=motifs.valid, progress=False)
    rows = falling.history["epochs"]
    p = falling.apply(motifs.valid).node_mask.clamp(1e-6, 1 - 1e-6)
    kl = float((p * (p / 0.5).log() + (1 - p) * ((1 - p) / 0.5).log()).mean())
    best = rows[falling.history["best_epoch"]]
    assert best["loss"] - best["classification"] == pytest.approx(kl, rel=0.05, abs=1e-3)


def test_a_recipe_takes_other_settings():
    assert vgib_config(beta=0.5).beta == 0.5 and gsat_config(prior_prob=0.3).information == Prior(0.3, 0.9, 10)
    with pytest.raises(ValueError, match="prior_prob only with information='prior'"):
        vgib_config(prior_prob=0.3)


def test_similarity_and_contrast_by_hand():
    "Two prototypes of two classes; embeddings at distance 0 and 1 from the first."
    classifier = PrototypeClassifier(1, 2, 1)
    classifier.prototypes.data = torch.tensor([[0.0], [3.0]])
    similar = lambda distance: math.log((distance + 1) / (distance + 1e-4))
    found = classifier.similarity(torch.tensor([[0.0], [1.0]]))
    expected = [[similar(0), similar(9)], [similar(1), similar(4)]]
    torch.testing.assert_close(found, torch.tensor(expected))
    torch.testing.assert_close(classifier(torch.tensor([[1.0]]))[0, 0], torch.tensor(similar(1) - similar(4) / 2))
    contrast = classifier.contrast(torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]))
    assert float(contrast) == pytest.approx(
        -(math.log(similar(0) / similar(9)) + math.log(similar(4) / similar(1))) / 2
    )


def test_prototypes_become_embeddings_of_graphs_of_their_class(motifs):
    config = pgib_config(3, prototypes_per_class=2, project_every=2, **TINY)
    trainer = GIBTrainer(config).fit(motifs.train, valid=motifs.valid, progress=False)
    model, graphs = trainer.model, trainer.spec.prepare(motifs.train)
    nearest, embeddings = nearest_graphs(model, graphs, batch_size=16)
    whole = trainer.apply(motifs.train).subgraph_embedding
    torch.testing.assert_close(embeddings, whole[nearest])
    for prototype, kind, graph in zip(model.classifier.prototypes, model.classifier.classes, nearest):
        own = [i for i, each in enumerate(motifs.train) if int(each.y) == kind]
        distances = (whole[own] - prototype).norm(dim=1)
        assert own[int(distances.argmin())] == int(graph)


def test_prototypes_need_classes():
    graphs = [graph.clone() for graph in motif_dataset(20).graphs]
    for i, graph in enumerate(graphs):
        graph.y = torch.tensor([float(i)])
    with pytest.raises(ValueError, match="a single classification target for prototypes"):
        GIBTrainer(pgib_config(3, **TINY)).fit(graphs, progress=False)
