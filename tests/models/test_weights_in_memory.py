"""Weights that were packed at load leave the mapping of their file, and are read again where somebody needs them."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et


class Tied(nn.Module):
    """The table of an embedding, which is read where it lies, is also the weight of a product, which is packed."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(2000, 512)
        self.layers = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(self.table(tokens)) @ self.table.weight.t()


def mapped_bytes(path: Path) -> int:
    """Bytes of the file that this process has in memory (Linux)."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if not first.endswith(":"):  # the head of a mapping
            inside = line.endswith(str(path))
        elif inside and first == "Rss:":
            total += int(line.split()[1]) * 1024
    return total


@pytest.mark.parametrize("kind", ("kernels", "delegate", "external"))
def test_packed_weights_are_in_memory_once(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))).eval()
    x = torch.randn(7, 512)
    partitioner = [XnnpackPartitioner(largest=True)] if kind == "delegate" else []
    config = et.ExecutorchBackendConfig(external_constants=kind == "external")
    program = et.to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=partitioner)
    path = tmp_path / "model.pte"
    compiled = program.to_executorch(config)
    compiled.save(path)
    if kind == "external":
        compiled.write_tensor_data_to_file(tmp_path)
    data_files = sorted(tmp_path.glob("*.ptd"))
    weights = sum(p.numel() for p in model.parameters()) * 4
    loaded = et.Runtime.get().load_program(path, data_path=data_files)
    method = loaded.load_method("forward")
    assert mapped_bytes(data_files[0] if data_files else path) < weights / 4
    (y,) = method.execute((x,))
    torch.testing.assert_close(y, model(x), rtol=1e-5, atol=1e-5)
    again = loaded.load_method("forward")  # finds what was packed, or reads the file once more
    assert torch.equal(again.execute((x,))[0], y)


def test_a_weight_that_is_packed_and_read_in_place(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Tied().eval()
    tokens = torch.randint(2000, (1, 40))
    path = tmp_path / "model.pte"
    et.to_edge(torch.export.export(model, (tokens,))).to_executorch().save(path)
    for mmap in (True, False):
        method = et.Runtime.get().load_program(path, mmap=mmap).load_method("forward")
        (y,) = method.execute((tokens,))
        torch.testing.assert_close(y, model(tokens), rtol=1e-4, atol=1e-4)


def private_bytes() -> int:
    """Bytes of this process that no file stands behind (Linux), without what the C library keeps for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Anonymous:"))


@pytest.mark.parametrize("delegated", [False, True], ids=["kernels", "delegate"])
def test_methods_share_what_is_packed_and_programs_do_not(delegated: bool, tmp_path: Path) -> None:
    """Two methods of one program hold their weights once; another load of the file packs its own, which outlive the
    first's.
    """
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(8))).eval()
    x = torch.randn(3, 1024)
    exported = {name: torch.export.export(model, (x,)) for name in ("forward", "again")}
    path = tmp_path / "model.pte"
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)] if delegated else [])
    edge.to_executorch().save(path)
    weights = sum(p.numel() for p in model.parameters()) * 4
    expected = model(x)
    start = private_bytes()
    program = et.Runtime.get().load_program(path)
    first = program.load_method("forward")
    torch.testing.assert_close(first.execute((x,))[0], expected, rtol=1e-4, atol=1e-5)
    with_one = private_bytes()
    second = program.load_method("again")
    torch.testing.assert_close(second.execute((x,))[0], expected, rtol=1e-4, atol=1e-5)
    with_two = private_bytes()
    assert with_one - start < 1.25 * weights
    assert with_two - with_one < weights / 8
    assert mapped_bytes(path) < weights / 4
    other = et.Runtime.get().load_program(path).load_method("forward")
    with_other = private_bytes()
    assert 0.75 * weights < with_other - with_two < 1.25 * weights
    del program, first, second
    assert with_other - private_bytes() > 0.75 * weights  # the first program's went with it
    torch.testing.assert_close(other.execute((x,))[0], expected, rtol=1e-4, atol=1e-5)
