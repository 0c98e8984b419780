"""Pre-trained encoders: making, loading, and what they refuse."""

import numpy as np
import pytest
import torch

from gib_nb.chem.smiles import molecule_to_data
from gib_nb.experiments import pretraining
from gib_nb.experiments.pretraining import PretrainingConfig, descriptors, pretrain_encoder, standardized
from gib_nb.nn.pretrained import embed_molecules, load_pretrained, pretrained_path, read_pretrained
from gib_nb.nn.registry import PRETRAINED
from gib_nb.report.baselines import plain_network
from gib_nb.train.config import config_from_dict, config_to_dict, configure, flat_settings
from gib_nb.train.parts import Encoder
from gib_nb.train.recipes import recipe
from gib_nb.train.trainer import GIBTrainer

SMILES = ["CCO", "c1ccccc1O", "CC(=O)O", "CCN", "CCCC", "c1ccncc1", "CC(C)O", "OCCO", "CCCl", "CC#N"] * 2


def labeled(number=20):
    graphs = [molecule_to_data(each) for each in SMILES[:number]]
    for graph, value in zip(graphs, range(number)):
        graph.y = torch.tensor([float(value)])
    return graphs


def test_what_ships_is_small_and_says_how_it_was_made():
    weights, record = read_pretrained("zinc")
    assert pretrained_path("zinc").stat().st_size < 2e6
    assert record["encoder"] == PRETRAINED["zinc"] and record["config"]["molecules"] == 60_000
    assert record["median_r2"] > 0.9 and len(record["r2"]) > 200
    assert all(torch.isfinite(value).all() for value in weights.values())


def test_a_pretrained_encoder_has_its_own_sizes():
    part = Encoder(pretrained="zinc")
    assert {name: getattr(part, name) for name in PRETRAINED["zinc"]} == PRETRAINED["zinc"]
    for wrong in (dict(name="gcn"), dict(hidden_channels=32), dict(num_layers=3), dict(norm="layer_norm")):
        with pytest.raises(ValueError, match=f"expected no {next(iter(wrong))} with pretrained='zinc'"):
            Encoder(**wrong, pretrained="zinc")
    with pytest.raises(ValueError, match="expected pretrained to be one of None, zinc"):
        configure(pretrained="chembl")


def test_the_recipe_survives_being_written():
    config = recipe("molecules", pretrained="zinc")
    assert config.encoder.num_layers == 5 and config.encoder.readout == "sum"
    assert config_from_dict(config_to_dict(config)) == config == configure(**flat_settings(config))


@pytest.mark.parametrize("more", [{}, {"classifier": "reencode"}])
def test_training_starts_with_the_weights(more):
    config = recipe("molecules", pretrained="zinc", epochs=1, finetune_epochs=0, lr=1e-12, **more)
    trainer = GIBTrainer(config).fit(labeled(), progress=False)
    weights = read_pretrained("zinc")[0]
    networks = [trainer.model.backbone] + [part.backbone for part in (trainer.model.classifier if more else ())]
    for network in networks:
        torch.testing.assert_close(
            network.state_dict()["convs.0.nn.lins.0.weight"], weights["convs.0.nn.lins.0.weight"]
        )


def test_the_plain_network_starts_with_them_too():
    trainer = GIBTrainer(recipe("molecules", pretrained="zinc", epochs=1, finetune_epochs=0, lr=1e-12))
    network = plain_network(trainer, edge_channels=8).fit(labeled())
    weights = read_pretrained("zinc")[0]
    found = network.model.backbone.state_dict()
    torch.testing.assert_close(found["convs.4.nn.lins.1.weight"], weights["convs.4.nn.lins.1.weight"])


def test_a_model_comes_back_from_its_file(tmp_path):
    graphs = labeled()
    trainer = GIBTrainer(recipe("molecules", pretrained="zinc", epochs=3, finetune_epochs=1)).fit(
        graphs, progress=False
    )
    trainer.save(tmp_path / "run")
    again = GIBTrainer.load(tmp_path / "run")
    np.testing.assert_allclose(again.predict(graphs), trainer.predict(graphs), rtol=1e-5)
    assert again.config.encoder.pretrained == "zinc"


def test_other_graphs_are_refused():
    graphs = labeled()
    for graph in graphs:
        graph.x = graph.x[:, :5]
    with pytest.raises(
        ValueError, match="expected molecules with the 18 atom features and 8 bond features .*pretrained='zinc'"
    ):
        GIBTrainer(recipe("molecules", pretrained="zinc", epochs=2)).fit(graphs, progress=False)
    with pytest.raises(ValueError, match="expected molecules"):
        embed_molecules(graphs)
    with pytest.raises(ValueError, match="expected molecules"):
        load_pretrained(torch.nn.Linear(2, 2), "zinc")


def test_vectors_do_not_depend_on_the_batch_or_the_order_of_atoms():
    graphs = [molecule_to_data(each) for each in ("CCO", "c1ccccc1O", "OCC")]
    z = embed_molecules(graphs)
    assert z.shape == (3, 2 * PRETRAINED["zinc"]["hidden_channels"])
    torch.testing.assert_close(z, embed_molecules(graphs, batch_size=1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(z[0], z[2], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(z, embed_molecules(["CCO", "c1ccccc1O", "OCC"]), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="expected a SMILES that RDKit accepts"):
        embed_molecules(["CCO", "C(("])
    with pytest.raises(ValueError, match="zinc"):
        embed_molecules(["CCO"], "chembl")


def test_descriptors_are_standardized_and_clipped():
    values, names = descriptors(["CCO", "c1ccccc1"], workers=1)
    assert values[1, names.index("RingCount")] == 1 and len(names) == values.shape[1]
    z, varies = standardized(np.array([[1.0, 5, 0], [3.0, 5, np.nan], [5.0, 5, 2]]))
    assert varies.tolist() == [True, False, True] and np.isnan(z[1, 1])
    assert standardized(np.r_[np.zeros(99), 1e6][:, None])[0].max() == 6


def test_one_call_makes_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(pretraining, "pretraining_molecules", lambda number, root, seed: SMILES[:number])
    sizes = {"name": "gine", "hidden_channels": 8, "num_layers": 1, "norm": "batch_norm"}
    config = PretrainingConfig(molecules=20, epochs=2, batch_size=8)
    record = pretrain_encoder("zinc", folder=tmp_path, config=config, progress=False, encoder=sizes)
    assert record["config"]["epochs"] == 2 and set(record["minutes"]) == {"descriptors", "training"}
    assert (tmp_path / "encoder_zinc.safetensors").is_file()


def test_no_molecule_of_a_table_is_used(data_root):
    import pandas as pd

    from gib_nb.experiments.own_data import SETS

    found = pretraining.pretraining_molecules(200, data_root)
    assert len(set(found)) == 200
    table = pd.read_csv(data_root / "moleculenet" / SETS["BBBP"].file)["smiles"]
    assert not {*map(pretraining.skeleton, found)} & {*map(pretraining.skeleton, table)}
