"""Training on several devices with Lightning Fabric: each process embeds its part of a batch, and the losses are those of the whole batch."""

from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gib_nb.nn.gib import GIBOutput
from gib_nb.utils.reproducible import LocalRandomness

PRECISIONS = ("32-true", "bf16-mixed")


@dataclass(frozen=True)
class WholeBatch:
    "The fields that the losses need from a batch whose graphs are distributed over processes."

    y: Tensor
    num_graphs: int
    prior: Tensor | None = None

    def get(self, name: str, default=None):
        "A field, or `default` if the graphs do not have it."
        found = getattr(self, name, None)
        return default if found is None else found


class Processes:
    """The processes that train together; without a `fabric`, only this one.

    All processes hold the same weights and the same memory bank, and compute the same losses of the whole batch. Each process
    computes the gradient for its own graphs; the sum over processes is the gradient of a single process. Two things differ from
    training in one process: batch normalization uses the graphs of its own process, and dropout and sampled masks draw other numbers.
    """

    def __init__(
        self,
        fabric=None,  # a launched `lightning.fabric.Fabric`, of precision 32-true or bf16-mixed
    ):
        if fabric is not None and fabric.strategy.precision.precision not in PRECISIONS:
            raise ValueError(
                f"expected a Fabric of precision {' or '.join(PRECISIONS)} (got {fabric.strategy.precision.precision})"
            )
        self.fabric, self.divided = fabric, False
        self.rank, self.count = (0, 1) if fabric is None else (fabric.global_rank, fabric.world_size)

    @property
    def is_main(self) -> bool:
        "Whether this process writes files and shows progress."
        return self.rank == 0

    def callbacks(self, given: list) -> list:
        "The callbacks that are called in this process."
        return [each for each in given if self.is_main or not each.main_only]

    def share(self, rows: Tensor) -> Tensor:
        "The graphs of a batch that this process embeds; all of them if there are fewer than two for each process."
        if len(rows) < 2 * self.count:
            return rows
        return rows.tensor_split(self.count)[self.rank]

    def autocast(self):
        "A context in which layers compute in the precision of the fabric."
        return nullcontext() if self.fabric is None else self.fabric.autocast()

    def whole_batch(self, rows: Tensor, batch):
        "The batch of all graphs [rows], of which `batch` is the part of this process; `batch` itself if it has all of them."
        self.divided = batch.num_graphs < len(rows)
        if not self.divided:
            return batch
        prior = batch.get("prior")
        return WholeBatch(self.gather(batch.y), len(rows), prior if prior is None else self.gather(prior))

    def whole(self, rows: Tensor, output: GIBOutput, batch) -> tuple:
        "Output and batch of all graphs [rows], gathered from all processes; gradients flow only into the part of this process."
        found = self.whole_batch(rows, batch)
        if not self.divided:
            return output, found
        with_edges = len(batch.batch[batch.edge_index[0]].unique())  # L_con is a mean over the graphs that have an edge
        counts = self.gather(torch.tensor([float(with_edges)], device=batch.y.device))
        connectivity = self.gather((output.connectivity_loss * with_edges)[None]).sum() / counts.sum().clamp(min=1)
        fields = {name: self.gather(values) for name, values in vars(output).items() if name != "connectivity_loss"}
        return replace(output, connectivity_loss=connectivity, **fields), found

    def gather(self, values: Tensor) -> Tensor:
        "The rows of all processes [N, …], in their order; only the rows of this process [n, …] have gradients."
        if not self.divided:
            return values
        size = torch.tensor([len(values)], device=values.device)
        sizes = self.fabric.all_gather(size).flatten().tolist()
        padded = values.new_zeros(max(sizes), *values.shape[1:])
        padded[: len(values)] = values.detach()
        parts = [part[:size] for part, size in zip(self.fabric.all_gather(padded), sizes)]
        parts[self.rank] = values
        return torch.cat(parts)

    def backward(self, loss: Tensor, parameters):
        "Gradients of a loss, the same in all processes: their sum if each process has a part of the batch, their mean if each has all of it."
        if self.fabric is None:
            loss.backward()
            return
        self.fabric.backward(loss)
        mine = [each.grad for each in parameters if each.grad is not None]
        if self.count > 1 and mine:
            flat = torch.cat([gradient.flatten() for gradient in mine])
            flat = self.fabric.all_reduce(flat, reduce_op="sum" if self.divided else "mean")
            for gradient, agreed in zip(mine, flat.split([gradient.numel() for gradient in mine])):
                gradient.copy_(agreed.view_as(gradient))

    def begin_epoch(self, randomness: LocalRandomness, seed: int, epoch: int):
        "Give each process its own random numbers, derived from seed and epoch, so that a resumed training draws the same ones."
        if self.rank:
            randomness.seed = (seed + 1) * 2_654_435_761 % 2**31 + 7919 * epoch + self.rank
            randomness.generators.clear()

    def average_statistics(self, model: torch.nn.Module):
        "Give batch normalization the mean statistics of all processes."
        for buffer in model.buffers() if self.count > 1 else ():
            if buffer.is_floating_point():
                buffer.copy_(self.fabric.all_reduce(buffer.clone(), reduce_op="mean"))

    def agree(self, logs: dict) -> dict:
        "The measurements of the main process, sent to all processes so that all make the same decisions."
        return self.fabric.broadcast(logs) if self.count > 1 else logs
