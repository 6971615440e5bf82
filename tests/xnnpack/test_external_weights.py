"""Weights of delegates in `.ptd` files: how small the program becomes, who shares a file, what is said without one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidExternalDataError, InvalidTypeError
from executorch_py.exir.passes.external_constants_pass import (
    delegate_external_constants_pass,
    delegate_external_constants_pass_unlifted,
    external_constants_pass,
)

X = (torch.randn(2, 3, 8, 8),)
ALL = et.ExecutorchBackendConfig(external_constants=True)


class Network(nn.Module):
    """Convolutions with a norm, a depthwise and a transposed one, and linear layers that hold most of the bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.depthwise, self.up = nn.Conv2d(16, 16, 3, groups=16), nn.ConvTranspose2d(16, 8, 3)
        self.slope, self.hidden, self.head = nn.PReLU(8), nn.Linear(512, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = self.slope(self.up(self.depthwise(x)))
        return self.head(torch.relu(self.hidden(x.flatten(1))))


def _program(preset: str, module: nn.Module | None = None) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    module = (module or Network()).eval()
    if preset in ("float", "half"):
        dtype = torch.half if preset == "half" else torch.float
        return torch.export.export(module.to(dtype), (X[0].to(dtype),))
    return quantizer.quantize(module, X, preset, [X])


def _lower(program, config=None, delegate: bool = True):
    partitioner = [XnnpackPartitioner(largest=True)] if delegate else None
    return et.to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch(config)


def _save(manager, folder: Path, name: str = "model.pte") -> tuple[Path, list[Path]]:
    folder.mkdir(exist_ok=True)
    manager.save(folder / name)
    return folder / name, manager.write_tensor_data_to_file(folder)


def _size(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


@pytest.mark.parametrize("delegate", [True, False], ids=["delegate", "kernels"])
@pytest.mark.parametrize(
    "preset",
    ["float", "half", "static_int8", "dynamic_int8", "int8_weight_only", "dynamic_int4", "int4_weight_only", "fp16"],
)
def test_all_weights_leave_the_program(preset: str, delegate: bool, tmp_path: Path) -> None:
    program = _program(preset)
    x = X[0].half() if preset == "half" else X[0]
    inside, outside = _lower(program, None, delegate), _lower(program, ALL, delegate)
    file, data = _save(outside, tmp_path)
    assert len(outside.buffer) < 24_000 < len(inside.buffer) // 3
    assert 0.9 * len(inside.buffer) - 24_000 < _size(data) < len(inside.buffer)
    assert torch.equal(et.load(file, data_path=data)(x), et.load(inside.buffer)(x))


def _rule(node) -> str | None:
    return "big" if node.name.endswith(("hidden_weight", "head_weight")) else None


@pytest.mark.parametrize("preset", ["float", "dynamic_int8", "dynamic_int4"])
def test_a_function_says_which(preset: str, tmp_path: Path) -> None:
    program = _program(preset)
    inside = _lower(program)
    of_node = lambda node: "big" if node.meta["val"].numel() > 10_000 else None  # noqa: E731
    of_name = lambda name, tensor: "big" if tensor.numel() > 10_000 else ""  # noqa: E731
    for rule in (*((_rule,) if preset == "float" else ()), of_node, of_name):
        some = _lower(program, et.ExecutorchBackendConfig(external_constants=rule))
        file, data = _save(some, tmp_path)
        assert [path.name for path in data] == ["big.ptd"]
        assert len(some.buffer) + _size(data) < len(inside.buffer) + 2_000
        assert torch.equal(et.load(file, data_path=data[0])(*X), et.load(inside.buffer)(*X))


def test_functions_that_do_not_fit() -> None:
    program = _program("float")
    with pytest.raises(InvalidTypeError, match=r"\(name, tensor\), or \(node\)"):
        _lower(program, et.ExecutorchBackendConfig(external_constants=lambda: "a"))
    with pytest.raises(InvalidTypeError, match="gave 3 for"):
        _lower(program, et.ExecutorchBackendConfig(external_constants=lambda node: 3))


def _tag_exported(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    delegate_external_constants_pass(program, _rule)
    return program


def _tag_module(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    module = program.module()
    changed = delegate_external_constants_pass_unlifted(module, lambda node: "big" if "hidden" in node.target else None)
    assert changed.modified
    return torch.export.export(module, X)


def _tag_graph(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    external_constants_pass(program.graph_module, _rule)
    return program


@pytest.mark.parametrize("tag", [_tag_exported, _tag_module, _tag_graph])
@pytest.mark.parametrize("delegate", [True, False], ids=["delegate", "kernels"])
def test_tags_say_which(tag: Callable, delegate: bool, tmp_path: Path) -> None:
    inside = _lower(_program("float"), None, delegate)
    some = _lower(tag(_program("float")), None, delegate)
    file, data = _save(some, tmp_path)
    assert [path.name for path in data] == ["big.ptd"] and _size(data) > 512 * 256 * 4
    assert torch.equal(et.load(file, data_path=data)(*X), et.load(inside.buffer)(*X))


class Adapted(nn.Module):
    """Base layers with low-rank adapters beside them."""

    def __init__(self, base: list[nn.Linear], rank: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.base = nn.ModuleList(base)
        self.lora_a = nn.ModuleList(nn.Linear(128, rank, bias=False) for _ in base)
        self.lora_b = nn.ModuleList(nn.Linear(rank, 128, bias=False) for _ in base)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for base, a, b in zip(self.base, self.lora_a, self.lora_b, strict=True):
            x = torch.relu(base(x) + b(a(x)))
        return x


def _mappings(path: Path) -> int:
    return sum(line.rstrip().endswith(os.fspath(path)) for line in Path("/proc/self/maps").read_text().splitlines())


@pytest.mark.parametrize("delegate", [True, False], ids=["delegate", "kernels"])
def test_adapters_over_one_base(delegate: bool, tmp_path: Path) -> None:
    base = [nn.Linear(128, 128) for _ in range(4)]
    x = torch.randn(3, 128)
    config = et.ExecutorchBackendConfig(external_constants=lambda node: "adapter" if "lora" in node.name else "base")
    models, files, bases = [], [], []
    for seed, rank in ((1, 4), (2, 8)):
        models.append(Adapted(base, rank, seed).eval())
        program = _lower(torch.export.export(models[-1], (x,)), config, delegate)
        assert len(program.buffer) < 12_000
        file, data = _save(program, tmp_path / str(seed))
        adapter, own_base = sorted(data)
        assert (adapter.name, own_base.name) == ("adapter.ptd", "base.ptd")
        assert adapter.stat().st_size < 4 * rank * 128 * 4 * 2 + 4_000 < own_base.stat().st_size
        files.append((file, adapter))
        bases.append(own_base)
    assert bases[0].read_bytes() == bases[1].read_bytes()
    bases[1].unlink()  # one file serves both
    modules = [et.load(file, data_path=[bases[0], adapter]) for file, adapter in files]
    for module, model in zip(modules, models, strict=True):
        torch.testing.assert_close(module(x), model(x).detach(), atol=1e-5, rtol=1e-5)
    assert _mappings(bases[0]) == 1
    del module, modules[0]
    torch.testing.assert_close(modules[0](x), models[1](x).detach(), atol=1e-5, rtol=1e-5)
    del modules
    assert _mappings(bases[0]) == 0


def _private_nbytes() -> int:
    """Memory of this process that is no file's."""
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * int(next(row.split()[1] for row in rows if row.startswith("Anonymous:")))


def _base_and_own(name: str, weight: torch.Tensor) -> str:
    return "own" if name.startswith("own.") else "base"


class Wide(nn.Module):
    """A base of two layers that is large beside all else, and a layer of its own."""

    def __init__(self, base: list[nn.Linear], seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.base, self.own = nn.ModuleList(base), nn.Linear(1024, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.base:
            x = torch.relu(layer(x))
        return self.own(x)


@pytest.mark.parametrize("preset", ["float", "half", "dynamic_int8", "dynamic_int4", "fp16"])
def test_programs_over_one_base_pack_it_once(preset: str, tmp_path: Path) -> None:
    base = [nn.Linear(1024, 3072), nn.Linear(3072, 1024)]
    x = torch.randn(3, 1024).to(torch.half if preset == "half" else torch.float)
    config = et.ExecutorchBackendConfig(external_constants=_base_and_own)
    files, expected = [], []
    for seed in (1, 2, 3):
        model = Wide(base, seed).eval().to(x.dtype)
        quantized = torch.export.export(model, (x,))
        if preset not in ("float", "half"):
            quantized = quantizer.quantize(model, (x,), preset, [(x,)])
        inside, outside = _lower(quantized), _lower(quantized, config)
        expected.append(et.load(inside.buffer)(x))
        files.append(_save(outside, tmp_path / str(seed)))
    data = [[files[0][1][0], own] for _, (_, own) in files]  # one base.ptd serves all
    nbytes, before = data[0][0].stat().st_size, _private_nbytes()
    first = et.load(files[0][0], data_path=data[0])
    assert torch.equal(first(x), expected[0])
    with_one = _private_nbytes()
    assert with_one - before > 0.7 * nbytes, "the base is packed, into memory of the process"
    others = [et.load(file, data_path=own) for (file, _), own in zip(files[1:], data[1:], strict=True)]
    for module, wanted in zip(others, expected[1:], strict=True):
        assert torch.equal(module(x), wanted)
    assert _private_nbytes() - with_one < 0.2 * nbytes, "two more programs find it"
    del first, module
    assert torch.equal(others[1](x), expected[2]), "it stays while a program uses it"
    del others
    assert _private_nbytes() < before + 0.2 * nbytes, "it goes with the last one"


@pytest.mark.parametrize("preset", ["float", "dynamic_int8", "dynamic_int4", "static_int8"])
def test_one_weight_with_another_bias_is_another_packed_weight(preset: str) -> None:
    """The library is not told of the bias when it looks for the packed weight of a dynamically quantized product."""
    x, weight = torch.randn(3, 64), torch.randn(32, 64)
    programs, expected = {}, {}
    for name, bias in (("low", -5.0), ("high", 5.0)):
        model = nn.Sequential(nn.Linear(64, 32)).eval()
        model[0].weight, model[0].bias = nn.Parameter(weight), nn.Parameter(torch.full((32,), bias))
        exported = torch.export.export(model, (x,))
        programs[name] = exported if preset == "float" else quantizer.quantize(exported, (x,), preset, [(x,)])
        expected[name] = et.load(_lower(programs[name]).buffer)(x)
    loaded = et.Runtime.get().load_program(_lower(programs).buffer)
    methods = {name: loaded.load_method(name) for name in programs}
    for name, method in methods.items():
        assert torch.equal(method.execute([x])[0], expected[name])
    assert (expected["high"] - expected["low"]).mean() > 9


def test_a_base_is_packed_once_by_threads_side_by_side(tmp_path: Path) -> None:
    base = [nn.Linear(1024, 3072), nn.Linear(3072, 1024)]
    x = torch.randn(3, 1024)
    config = et.ExecutorchBackendConfig(external_constants=_base_and_own)
    models = [Wide(base, seed).eval() for seed in range(4)]
    files = [
        _save(_lower(torch.export.export(model, (x,)), config), tmp_path / str(seed))
        for seed, model in enumerate(models)
    ]
    shared = files[0][1][0]
    before = _private_nbytes()
    with ThreadPoolExecutor(4) as pool:
        modules = list(pool.map(lambda one: et.load(one[0], data_path=[shared, one[1][1]]), files))
        results = list(pool.map(lambda module: module(x), modules))
    for result, model in zip(results, models, strict=True):
        torch.testing.assert_close(result, model(x).detach(), atol=1e-4, rtol=1e-4)
    assert _private_nbytes() - before < 1.6 * shared.stat().st_size


def test_a_replaced_file_is_another_one(tmp_path: Path) -> None:
    model, other = nn.Linear(64, 64), nn.Linear(64, 64)
    x = (torch.randn(2, 64),)
    file, data = _save(_lower(torch.export.export(model, x), ALL), tmp_path)
    first = et.load(file, data_path=data)
    file, data = _save(_lower(torch.export.export(other, x), ALL), tmp_path, "other.pte")
    torch.testing.assert_close(et.load(file, data_path=data)(*x), other(*x).detach())
    torch.testing.assert_close(first(*x), model(*x).detach())


def test_what_is_said_of_a_missing_weight_of_a_kernel(tmp_path: Path) -> None:
    x = (torch.randn(2, 64),)
    file, _ = _save(_lower(torch.export.export(nn.Linear(64, 64), x), ALL, delegate=False), tmp_path)
    with pytest.raises(InvalidExternalDataError, match=r"tensor '[\w.-]+' from a \.ptd file"):
        et.load(file)(*x)


def test_what_is_said_of_missing_and_wrong_files(tmp_path: Path) -> None:
    x = (torch.randn(2, 64),)
    config = et.ExecutorchBackendConfig(external_constants=lambda node: "weights")
    file, (data,) = _save(_lower(torch.export.export(nn.Linear(64, 64), x), config), tmp_path / "right")
    _, (wrong,) = _save(_lower(torch.export.export(nn.Linear(64, 64), x), config), tmp_path / "wrong")
    for given, said in ((None, "none"), (wrong, f"'{wrong}'")):
        with pytest.raises(InvalidExternalDataError) as error:
            et.load(file, data_path=given)(*x)
        assert re.search(r"constant '[\w-]{15}' was written to 'weights\.ptd'", str(error.value))
        assert f".ptd files that were given: {said}" in str(error.value)
    assert et.load(file, data_path=[wrong, data])(*x).shape == (2, 64)
    damaged = data.read_bytes()
    (tmp_path / "cut.ptd").write_bytes(damaged[: len(damaged) // 2])
    with pytest.raises(InvalidExternalDataError, match="cut off"):
        et.load(file, data_path=tmp_path / "cut.ptd")


def test_one_weight_of_a_kernel_and_a_delegate_is_once_in_the_file(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(512, 64)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(torch.relu(self.table(tokens)), self.table.weight)

    model, tokens = Tied().eval(), (torch.tensor([[1, 5, 9]]),)
    program = _lower(torch.export.export(model, tokens), ALL)
    file, data = _save(program, tmp_path)
    assert len(program.buffer) < 12_000 and _size(data) < 512 * 64 * 4 + 4_000
    torch.testing.assert_close(et.load(file, data_path=data)(*tokens), model(*tokens).detach())
