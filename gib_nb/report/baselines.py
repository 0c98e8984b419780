"""Baselines: a constant, a linear model without edges, a random forest, and the same network without a bottleneck."""

CONSTANT = {"classification": "majority class", "regression": "training mean"}
TREES = 500  # of the random forest
LINEAR, FOREST, NETWORK = "no-edges baseline", "random forest, Morgan counts", "same network, no bottleneck"


def baseline_predictions(
    data,  # `GraphDataset`
    trainer=None,  # fitted `GIBTrainer`: adds its network without a bottleneck and, for molecules, a random forest
    report=lambda text: None,  # called with the name of each baseline before it is trained
    progress: bool = False,  # show a progress bar for the network
) -> dict:  # name → probabilities or values [N, C] of all graphs of the data set
    "Predictions of baselines that are trained on the same training graphs."
    import numpy as np
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classes, graphs = data.task == "classification", data.graphs
    rows = [graph.x.mean(0).numpy() if graph.num_nodes else np.zeros(graph.x.size(1)) for graph in graphs]
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000) if classes else Ridge())
    constant = DummyClassifier() if classes else DummyRegressor()
    found = {
        CONSTANT[data.task]: fitted_outcomes(constant, np.array(rows), data),
        LINEAR: fitted_outcomes(linear, np.array(rows), data),
    }
    if trainer is None:
        return found
    if all("smiles" in graph for graph in graphs):
        report("random forest")
        found[FOREST] = fitted_outcomes(random_forest(classes), morgan_counts(graphs), data)
    report("the same network without a bottleneck")
    plain = plain_network(trainer).fit(data.train, valid=data.valid, progress=progress)
    return found | {NETWORK: plain.spec.outcomes(plain._logits(graphs))}


def fitted_outcomes(model, x, data):
    "Probabilities or values [N, C] of a scikit-learn model; for several targets [N, T], with one model for each."
    import numpy as np

    y, train, classes = data.labels, data.split["train"], data.task == "classification"
    columns = []
    for labels in y.T if data.targets is not None else [y]:
        seen = train[~np.isnan(labels[train].astype(float))]
        if classes and len(np.unique(labels[seen])) < 2:
            columns.append(np.full((len(x), 1), labels[seen].mean()))
            continue
        model.fit(x[seen], labels[seen])
        found = model.predict_proba(x) if classes else model.predict(x)[:, None]
        columns.append(found[:, -1:] if data.targets is not None else found)
    return _all_classes(columns[0], model, data) if data.targets is None else np.concatenate(columns, 1)


def _all_classes(found, model, data):
    "Add columns for the classes that do not occur in training."
    import numpy as np

    if data.task == "regression" or found.shape[1] == int(data.labels.max()) + 1:
        return found
    whole = np.zeros((len(found), int(data.labels.max()) + 1))
    whole[:, np.asarray(model.classes_, int)] = found
    return whole


def random_forest(classes: bool):
    "An unfitted random forest of scikit-learn, for classes or for values."
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if classes:
        return RandomForestClassifier(TREES, random_state=0, n_jobs=-1)
    return RandomForestRegressor(TREES, max_features=1 / 3, random_state=0, n_jobs=-1)


def morgan_counts(
    graphs,  # with `smiles`
    radius: int = 2,
    size: int = 2048,
):  # NumPy array [N, size]
    "Counts of the Morgan environments of each molecule."
    import numpy as np
    from rdkit.Chem import rdFingerprintGenerator

    from gib_nb.chem.smiles import read_molecule

    generator = rdFingerprintGenerator.GetMorganGenerator(radius, fpSize=size)
    rows = [generator.GetCountFingerprintAsNumPy(read_molecule(graph.smiles)) for graph in graphs]
    return np.array(rows, dtype=np.uint16)


def plain_network(
    trainer,  # `GIBTrainer`
    edge_channels: int | None = None,  # columns of edge_attr; None: those of the fitted trainer
):  # ClassifierTrainer, not fitted
    "A network with the encoder and readout of a GIB and a classifier, to be trained on whole graphs for the same number of epochs."
    from gib_nb.nn.backbones import GraphClassifier
    from gib_nb.nn.pretrained import load_pretrained
    from gib_nb.train.classifier_trainer import ClassifierTrainer

    config = trainer.config
    encoder = config.encoder
    edge_channels = trainer.spec.edge_channels if edge_channels is None else edge_channels

    def network(in_channels, out_channels):
        name = encoder.name(in_channels) if callable(encoder.name) else encoder.name
        sizes = encoder.hidden_channels, encoder.num_layers, encoder.dropout, encoder.norm, encoder.readout
        plain = GraphClassifier(in_channels, out_channels, name, *sizes, edge_channels=edge_channels)
        return load_pretrained(plain, encoder.pretrained)

    return ClassifierTrainer(
        network,
        hidden_channels=encoder.hidden_channels,
        epochs=config.epochs,
        lr=config.optim.lr,
        max_grad_norm=config.optim.max_grad_norm,
        batch_size=config.optim.batch_size,
        metric=config.metric,
        class_weight=config.class_weight,
        seed=config.seed,
        device=config.device,
        **vars(trainer.functions),
    )


def score_of(outcomes, data, rows) -> float:
    "Accuracy, or R², on some graphs of a data set."
    from gib_nb.train.metrics import metric_value

    name = "accuracy" if data.task == "classification" else "r2"
    return metric_value(name, data.labels[rows], outcomes[rows], data.targets is not None)
