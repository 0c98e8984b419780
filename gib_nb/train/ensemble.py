"""Ensembles of GIBs that differ in their seed: mean predictions and their spread."""

import dataclasses
import json
import math
import os
import pathlib

import numpy as np
import torch
from torch import Tensor

from gib_nb.data.spec import DataSpec
from gib_nb.data.stream import CHUNK, stream_of
from gib_nb.information.critic_estimate import CriticEstimate
from gib_nb.train.callbacks import as_callbacks
from gib_nb.train.config import GIBConfig, config_to_dict, configure, flat_settings
from gib_nb.train.functions import TrainingFunctions
from gib_nb.train.parts import Frozen
from gib_nb.train.predictions import Predictions
from gib_nb.train.trainer import GIBTrainer, GraphEstimator, in_chunks
from gib_nb.utils.files import write_atomically


class GIBEnsemble(GraphEstimator):
    """A deep ensemble (Lakshminarayanan et al. 2017): members with the seeds s, s + 1, … on the same training and validation graphs.

    The probability of a class is the mean of the members' probabilities, a value the mean of their values, and a mask
    the mean of their masks. Embeddings are concatenated, [N, sum of d]. `members` are fitted `GIBTrainer`s.
    """

    def __init__(
        self,
        config: GIBConfig | None = None,  # of all members; its seed is that of the first member
        num_models: int = 5,
        *,
        loss=None,  # as in `GIBTrainer`, like the next two
        optimizer=None,
        scheduler=None,
        **settings,
    ):
        if not isinstance(num_models, int) or isinstance(num_models, bool) or num_models < 2:
            raise ValueError(f"expected num_models as an integer ≥ 2 (got {num_models!r})")
        self.config, self.num_models = configure(config, **settings), num_models
        if isinstance(self.config.classifier, Frozen):
            raise ValueError("expected a classifier that is trained (got classifier='frozen'); use GIBTrainer(model=…)")
        functions = TrainingFunctions(loss, optimizer, scheduler)
        self.functions = functions.check(self.config.optim.lr_schedule, self.config.class_weight)
        self.members: list[GIBTrainer] = []
        self.explained_model, self.record = None, {}

    def get_params(self, deep: bool = True) -> dict:
        "All settings by name, the number of models, and your own functions."
        return flat_settings(self.config) | self._in_python()

    def _in_python(self) -> dict:
        return {"num_models": self.num_models} | vars(self.functions)

    def __sklearn_clone__(self):
        return type(self)(self.config, **self._in_python())

    def _configure(self, **settings):
        self.__init__(self.config, **(self._in_python() | settings))

    def __repr__(self):
        state = f"fitted, {self.spec.task}" if self.members else "not fitted"
        return f"GIBEnsemble({self.config}, num_models={self.num_models}, {state})"

    @property
    def model(self) -> torch.nn.ModuleList | None:
        "The models of all members; None before `fit`."
        return torch.nn.ModuleList([member.model for member in self.members]) if self.members else None

    @property
    def spec(self) -> DataSpec:
        "The format of the graphs, the same for all members."
        return self.members[0].spec

    @property
    def history(self) -> dict:
        "The history of the first member; those of all: `[member.history for member in members]`."
        return self.members[0].history

    @property
    def collapse(self) -> str | None:
        "Which members collapsed and how, as text, or None."
        found = [(i, member.collapse) for i, member in enumerate(self.members) if member.collapse]
        return "; ".join(f"member {i}: {text}" for i, text in found) or None

    def fit(
        self,
        train,  # as in `GIBTrainer.fit`, like the others
        y=None,
        *,
        valid=None,
        checkpoint: str
        | os.PathLike
        | None = None,  # file; each member has its own in a folder next to it: member-0, …
        progress: bool = True,
        callbacks=None,  # called for all members, one after the other
        num_workers: int = 0,
    ) -> "GIBEnsemble":
        "Train all members, one after the other."
        function = vars(self.functions)
        members = [
            GIBTrainer(configure(self.config, seed=self.config.seed + i), **function) for i in range(self.num_models)
        ]
        spec, graphs, valid = members[0]._prepared(train, y, valid, num_workers)
        callbacks = as_callbacks(callbacks)
        for i, member in enumerate(members):
            file = checkpoint and member_folder(pathlib.Path(checkpoint).parent, i) / pathlib.Path(checkpoint).name
            member._fit_prepared(graphs, valid, file, None, progress, callbacks)
        self.members = members
        return self

    def _logits(self, graphs) -> Tensor:
        return combine_logits(self.spec, self._member_logits(graphs))

    def _member_logits(self, graphs) -> Tensor:
        "Logits or outputs of each member [M, N, C]."
        self._fitted()
        if stream_of(graphs) is not None:
            return torch.cat([self._member_logits(part) for _, part in in_chunks(graphs, CHUNK)], 1)
        graphs = self.spec.prepare(graphs, labels=False)
        return torch.stack([member._logits(graphs) for member in self.members])

    def predict_std(self, graphs) -> np.ndarray:
        "Standard deviation over the members, with denominator M − 1: of the value in the units of y or of the probability of the predicted class, [N]; for several targets, of each value or of the probability of each second class, [N, T]."
        return self._std(self._member_logits(graphs))

    def _std(self, logits: Tensor) -> np.ndarray:
        std = np.stack([self.spec.outcomes(each) for each in logits]).astype(float).std(0, ddof=1)
        if self.spec.targets is not None:
            return std
        if self.spec.task == "regression":
            return std[:, 0]
        return np.take_along_axis(std, combine_logits(self.spec, logits).argmax(1, keepdim=True).numpy(), 1)[:, 0]

    def _pass(self, graphs, whole: bool = True):
        "Mean `Predictions` of one batch after the other, as in `GIBTrainer`."
        self._fitted()
        graphs = self.spec.prepare(graphs, labels=False)
        for parts in zip(*(member._pass(graphs, whole) for member in self.members)):
            yield self._mean(parts)

    def _mean(self, parts: tuple[Predictions, ...]) -> Predictions:
        "Combine the predictions of all members for the same graphs into one."
        stack = lambda name: torch.stack([getattr(part, name) for part in parts])
        beside = lambda name: torch.cat([getattr(part, name) for part in parts], 1)
        whole = parts[0].whole_prediction is not None
        return Predictions(
            node_mask=stack("node_mask").mean(0),
            edge_mask=stack("edge_mask").mean(0),
            prediction=combine_logits(self.spec, stack("prediction")),
            whole_prediction=combine_logits(self.spec, stack("whole_prediction")) if whole else None,
            subgraph_embedding=beside("subgraph_embedding"),
            graph_embedding=beside("graph_embedding"),
            **{name: getattr(parts[0], name) for name in ("edge_index", "batch", "ptr", "threshold")},
        )

    apply, explain, iter_explain = GIBTrainer.apply, GIBTrainer.explain, GIBTrainer.iter_explain

    def mutual_information(self, graphs, **settings) -> CriticEstimate:
        "I(G;G_sub) in nats; the estimate and its standard error are means over the members. Settings are those of `critic_estimate`."
        self._fitted()
        graphs = self.spec.prepare(graphs, labels=False)
        found = [member.mutual_information(graphs, **settings) for member in self.members]
        numbers = ("value", "in_sample", "held_out", "standard_error", "log_num_pairs")
        means = {name: float(np.mean([getattr(each, name) for each in found])) for name in numbers}
        texts = dict.fromkeys(text for each in found for text in each.warnings)
        return dataclasses.replace(found[0], **means, warnings=tuple(texts), history=())

    def save(self, folder: str | os.PathLike):
        "Write each member into a folder of its own, member-0 and so on, and config.json next to them."
        self._fitted()
        for i, member in enumerate(self.members):
            member.save(member_folder(folder, i))
        names = {"functions": names} if (names := self.functions.names()) else {}
        record = {"config": config_to_dict(self.config), "num_models": self.num_models, "collapse": self.collapse}
        write_atomically(pathlib.Path(folder) / "config.json", json.dumps(record | names, indent=1).encode())

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike,  # written by `save`
        encoder=None,  # as in `GIBTrainer.load`, like the next
        device: str | None = None,
    ) -> "GIBEnsemble":
        "Read a trained ensemble; FileNotFoundError or ValueError if the folder holds something else."
        record = ensemble_record(folder)
        if record is None:
            raise FileNotFoundError(
                f"expected a folder written by GIBEnsemble.save (got {folder}, which has no config.json of an ensemble)"
            )
        members = [
            GIBTrainer.load(member_folder(folder, i), encoder, None, device) for i in range(record["num_models"])
        ]
        ensemble = cls(members[0].config, record["num_models"])
        ensemble.members, ensemble.record = members, record
        return ensemble


def combine_logits(
    spec: DataSpec,
    logits: Tensor,  # [M, N, C], of each member
) -> Tensor:  # [N, C]
    "Mean values, or logits whose probabilities are the means of the members' probabilities."
    if spec.task == "regression":
        return logits.double().mean(0).to(logits.dtype)
    log_mean = lambda log_p: log_p.logsumexp(0) - math.log(len(logits))
    if spec.targets is None:
        return log_mean(logits.double().log_softmax(2)).to(logits.dtype)
    log_p = torch.nn.functional.logsigmoid
    return (log_mean(log_p(logits.double())) - log_mean(log_p(-logits.double()))).to(logits.dtype)


def member_folder(folder: str | os.PathLike, number: int) -> pathlib.Path:
    "The folder in which a member of an ensemble is saved."
    return pathlib.Path(folder) / f"member-{number}"


def ensemble_record(folder: str | os.PathLike) -> dict | None:
    "The content of config.json of an ensemble; None for another folder."
    path = pathlib.Path(folder) / "config.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("num_models"), int) else None


def load_trainer(
    folder: str | os.PathLike,  # written by `GIBTrainer.save`, `GIBEnsemble.save`, or `gib-nb train`
    **settings,  # of `load`
) -> "GIBTrainer | GIBEnsemble":
    "Read a trained model or a trained ensemble, whichever the folder holds."
    return (GIBTrainer if ensemble_record(folder) is None else GIBEnsemble).load(folder, **settings)
