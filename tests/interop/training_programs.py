"""Training programs, in one environment or the other.

    python training_programs.py ROOT make FOLDER        # model.pte, apart.pte and its .ptd
    python training_programs.py ROOT train FOLDER       # trains model.pte: losses as JSON
    python training_programs.py ROOT loss FOLDER PTD    # the loss of apart.pte with these weights, as JSON

ROOT is executorch or executorch_py, the root of the imports.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.loss = nn.Linear(4, 8), nn.Linear(8, 3), nn.CrossEntropyLoss()

    def forward(self, x, label):
        guess = self.b(torch.relu(self.a(x)))
        return self.loss(guess, label), guess.detach().argmax(dim=1)


def model_and_batch() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    return Net(), (torch.randn(5, 4), torch.randint(0, 3, (5,)))


def make(root: str, folder: Path) -> None:
    from torch.export.experimental import _export_forward_backward

    exir = importlib.import_module(f"{root}.exir")
    own = {"compatible": True} if root == "executorch_py" else {}
    model, batch = model_and_batch()
    for name, apart in (("model", False), ("apart", True)):
        edge = exir.to_edge(_export_forward_backward(torch.export.export(model, batch)))
        with torch.no_grad():
            program = edge.to_executorch(exir.ExecutorchBackendConfig(external_mutable_weights=apart, **own))
        (folder / f"{name}.pte").write_bytes(program.buffer)
        if apart:
            program.write_tensor_data_to_file(str(folder))


def train(root: str, folder: Path) -> list[float]:
    importlib.import_module(f"{root}.extension.pybindings.portable_lib")  # brings the published package's kernels
    training = importlib.import_module(f"{root}.extension.training")
    data = (folder / "model.pte").read_bytes()  # the published module borrows it
    module = training._load_for_executorch_for_training_from_buffer(data)
    _, batch = model_and_batch()
    losses: list[float] = []
    optimizer: Any = None
    for _ in range(5):
        losses.append(float(module.forward_backward("forward", batch)[0]))
        optimizer = optimizer or training.get_sgd_optimizer(module.named_parameters(), 0.5, 0, 0, 0, False)
        optimizer.step(module.named_gradients())
    return losses


def loss(root: str, folder: Path, weights: Path) -> float:
    load = importlib.import_module(f"{root}.extension.pybindings.portable_lib")._load_for_executorch_from_buffer
    program, data = (folder / "apart.pte").read_bytes(), weights.read_bytes()
    _, batch = model_and_batch()
    return float(load(program, data).run_method("forward", batch)[0])


if __name__ == "__main__":
    _, root, command, *paths = sys.argv
    print(json.dumps({"make": make, "train": train, "loss": loss}[command](root, *map(Path, paths))))
