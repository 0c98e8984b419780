"""Your own functions in place of L_cls, of Adam, and of the constant learning rate."""

import functools
import io
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from gib_nb.data.spec import DataSpec

_MEANING = {
    "loss": "a function (prediction [N, C], y) → scalar, such as torch.nn.CrossEntropyLoss(label_smoothing=0.1)",
    "optimizer": "a function parameters → optimizer, such as lambda parameters: torch.optim.AdamW(parameters, 1e-3)",
    "scheduler": "a function optimizer → scheduler, such as lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 10)",
}


@dataclass(frozen=True)
class TrainingFunctions:
    """Functions that replace the loss, the optimizer, and the learning-rate schedule of a trainer; None keeps its own.

    Functions are not saved. Give them again to resume a training; its checkpoint holds only their states and names.
    """

    loss: Callable | None = None  # (prediction [N, C], y) → scalar; `targets_for_loss` explains y
    optimizer: Callable | None = None  # parameters → `torch.optim.Optimizer`, with a learning rate of its own
    scheduler: Callable | None = None  # optimizer → `torch.optim.lr_scheduler.LRScheduler`, stepped after each epoch

    def __post_init__(self):
        for name, function in self.given().items():
            if not callable(function):
                raise TypeError(f"expected {name} as {_MEANING[name]} (got {type(function).__name__})")

    def given(self) -> dict[str, Callable]:
        "The functions that are not None, by name."
        return {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) is not None}

    def names(self) -> dict[str, str]:
        "The names of the functions, as a checkpoint and a saved model store them."
        return {name: qualified_name(function) for name, function in self.given().items()}

    def check(self, lr_schedule: str = "constant", class_weight=None) -> "TrainingFunctions":
        "These functions unchanged; ValueError if a setting conflicts with one of them."
        if self.scheduler is not None and lr_schedule != "constant":
            raise ValueError(f"expected a scheduler or lr_schedule, not both (got lr_schedule={lr_schedule!r} too)")
        if self.loss is not None and class_weight is not None:
            raise ValueError(f"expected a loss or class_weight, not both (got class_weight={class_weight!r} too)")
        return self

    def loss_of(self, spec: DataSpec, prediction: Tensor, y: Tensor) -> Tensor:
        "The loss of logits or values [N, C]; ValueError if it is not a scalar."
        if self.loss is None:
            return spec.loss(prediction, y)
        loss = self.loss(prediction, targets_for_loss(spec, prediction, y))
        if not isinstance(loss, Tensor) or loss.dim() or not loss.is_floating_point():
            got = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise ValueError(f"expected a loss (prediction, y) → scalar tensor, such as a mean over graphs (got {got})")
        return loss

    def make_optimizer(self, parameters, default: Callable) -> torch.optim.Optimizer:
        "The optimizer of a new attempt."
        made = (default if self.optimizer is None else self.optimizer)(parameters)
        if not isinstance(made, torch.optim.Optimizer):
            raise TypeError(
                f"expected optimizer as {_MEANING['optimizer']} (got one that returns {type(made).__name__})"
            )
        return made

    def make_scheduler(self, optimizer: torch.optim.Optimizer):
        "The scheduler of a new attempt, or None."
        if self.scheduler is None:
            return None
        made = self.scheduler(optimizer)
        if not isinstance(made, torch.optim.lr_scheduler.LRScheduler) or made.optimizer is not optimizer:
            raise TypeError(
                f"expected scheduler as {_MEANING['scheduler']} (got one that returns {type(made).__name__})"
            )
        return made


def targets_for_loss(
    spec: DataSpec,
    prediction: Tensor,  # [N, C]
    y: Tensor,  # as in the graphs
) -> Tensor:
    """The y with which a loss of your own compares a prediction: classes [N], or values of the shape of the prediction, with mean 0 and variance 1 in training. For several targets y is 0, 1, or values [N, T], NaN if missing.

    The losses of torch, such as `torch.nn.CrossEntropyLoss()` and `torch.nn.HuberLoss()`, can therefore be used directly."""
    if spec.task == "classification":
        return y if spec.targets is None else y.to(prediction.dtype)
    mean, std = (torch.as_tensor(each, dtype=y.dtype, device=y.device) for each in (spec.y_mean, spec.y_std))
    return ((y.reshape(prediction.shape) - mean) / std).to(prediction.dtype)


def clip_gradients(parameters, max_norm: float | None):
    "Scale all gradients together so that their norm is at most `max_norm`; None leaves them as they are."
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)


def step_scheduler(scheduler, loss: float):
    "Advance a scheduler by one epoch; `ReduceLROnPlateau` also receives the validation loss."
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        scheduler.step(loss)
    elif scheduler is not None:
        scheduler.step()


def qualified_name(function: Callable) -> str:
    "Module and name of a function or of the class of an object, with the plain arguments of a `functools.partial`."
    if isinstance(function, functools.partial):
        given = [*function.args, *(value for pair in sorted(function.keywords.items()) for value in pair)]
        plain = [value for value in given if isinstance(value, (str, int, float, tuple, type(None)))]
        return f"{qualified_name(function.func)}{plain}"
    owner = function if hasattr(function, "__qualname__") else type(function)
    return f"{owner.__module__}.{owner.__qualname__}"


def pack_state(state: dict) -> Tensor:
    "The `state_dict` of an optimizer or a scheduler as bytes that a checkpoint can hold, [B] uint8."
    stream = io.BytesIO()
    torch.save(state, stream)
    return torch.frombuffer(bytearray(stream.getvalue()), dtype=torch.uint8)


def unpack_state(content: Tensor) -> dict:
    "The state that `pack_state` packed; only tensors and plain Python values are read."
    return torch.load(io.BytesIO(content.cpu().numpy().tobytes()), weights_only=True, map_location="cpu")
