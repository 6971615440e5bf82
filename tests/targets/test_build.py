"""`etpy build`: generated code gives the interpreter's outputs bit for bit; what it cannot be written for says so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import ErrorCode, ExecutorchError, InvalidArgumentError, NotSupportedError
from executorch_py.firmware import TARGETS
from executorch_py.firmware.build import missing_tools
from executorch_py.native import build_native
from tests.targets.generated import Generated


def lowered(model: nn.Module, example: tuple[Any, ...], preset: str | None = None) -> bytes:
    model = model.eval()
    if preset is None:
        program = torch.export.export(model, example)
    else:
        program = quantizer.quantize(model, example, preset, [tuple(torch.randn_like(x) for x in example)] * 4)
    return bytes(et.to_edge_transform_and_lower(program).to_executorch().buffer)


class Separable(nn.Module):
    """A small DS-CNN: what keyword spotting runs."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, (4, 3), stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 12, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.classifier = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.classifier(self.features(x)), 1)


class Block(nn.Module):
    """A block of a transformer over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.block(self.tokens(tokens))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.relu(self.yes(x)), lambda x: self.no(x).sin(), (x,)) + 1


class Counter(nn.Module):
    """State with a value of its own, and state that begins as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(1, 2, 5))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls.add_(1)
        self.mean.mul_(0.5).add_(x * 0.5)
        return self.mean * 2, self.calls + 10


class Outputs(nn.Module):
    """Several outputs of several types, lists of tensors and of numbers, and a constant among them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(6).reshape(2, 3))

    def forward(self, x: torch.Tensor, n: torch.Tensor, mask: torch.Tensor) -> tuple[Any, ...]:
        first, second = torch.split(x, [2, 3], dim=1)
        joined = torch.cat([second, first, x.neg()], dim=1)
        picked = torch.where(mask, n, n.clamp(min=-3, max=4))
        return joined, picked, mask.logical_not(), n.sum(), self.table, x, picked.to(torch.int16) // 2


class Floats(nn.Module):
    """Convolutions in float, in channels-last order too, resizing and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.second = nn.ConvTranspose2d(6, 4, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.max_pool2d(torch.nn.functional.gelu(self.first(x)), 2)
        x = self.second(x.to(memory_format=torch.channels_last))
        return nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")


class Scan(nn.Module):
    """A loop that ends when the data says so."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch._higher_order_ops.while_loop(  # type: ignore[no-any-return]
            lambda i, x: (i < 3) & (x.sum() < 100), lambda i, x: (i + 1, x * 2 + i), (n, x)
        )


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layer = kind(4, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


def chain(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...], str | None]] = {
    "mlp": (lambda: chain(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(-1)), (torch.randn(2, 8),), None),
    "ds_cnn_int8": (Separable, (torch.randn(1, 1, 12, 10),), "static_int8"),
    "autoencoder_int8": (
        lambda: chain(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 32)),
        (torch.randn(3, 32),), "static_int8",
    ),
    "lstm": (lambda: Recurrent(nn.LSTM), (torch.randn(2, 5, 4),), None),
    "gru": (lambda: Recurrent(nn.GRU), (torch.randn(2, 5, 4),), None),
    "transformer": (Block, (torch.randint(20, (2, 7)),), None),
    "cond": (Branches, (torch.randn(3, 6),), None),
    "state": (Counter, (torch.randn(5),), None),
    "outputs": (Outputs, (torch.randn(2, 5), torch.randint(-9, 9, (4,)), torch.rand(4) > 0.5), None),
    "floats": (Floats, (torch.randn(1, 3, 8, 8),), None),
    "loop": (Scan, (torch.rand(4), torch.tensor(0)), None),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_the_interpreters(name: str, tmp_path: Path) -> None:
    torch.manual_seed(7)
    make, example, preset = MODELS[name]
    generated = Generated(lowered(make(), example, preset), tmp_path)
    calls = [example]
    for _ in range(3):
        calls.append(
            tuple(torch.randn_like(x) if x.is_floating_point() else x.flip(0) if x.dim() else x for x in example)
        )
    generated.check([("forward", call) for call in calls])
    generated.reset()
    generated.check([("forward", call) for call in calls[::-1]])


class Methods(nn.Module):
    """Two methods that share state; memory of one is not the other's."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(3))
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.add_(self.layer(x).sum(0))
        return self.kept * 2

    def look(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.kept - x, torch.relu(self.layer(x))


def test_methods_share_state_and_nothing_else(tmp_path: Path) -> None:
    model, x = Methods().eval(), torch.randn(2, 3)
    programs = {"forward": torch.export.export(model, (x,))}
    model.forward = model.look  # type: ignore[method-assign]
    programs["look"] = torch.export.export(model, (x,))
    config = et.ExecutorchBackendConfig(memory_planning_pass=et.exir.MemoryPlanningPass(share_mutable_buffers=True))
    data = bytes(et.to_edge_transform_and_lower(programs).to_executorch(config).buffer)
    generated = Generated(data, tmp_path)
    calls = [(name, (torch.randn(2, 3),)) for name in ("look", "forward", "look", "forward", "forward", "look")]
    generated.check(calls)
    generated.reset()
    generated.check(calls[::-1])


def need(target: str) -> None:
    if missing := missing_tools(TARGETS[target]):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")


@pytest.mark.mcu
def test_integers_on_a_microcontroller_are_the_hosts(tmp_path: Path) -> None:
    need("cortex-m3")
    model = chain(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
    report = build_native(lowered(model, (torch.randn(2, 8),), "static_int8"), tmp_path, "cortex-m3")
    assert report.matches and report.run is not None and "output 0: as on the host" in report.run.text
    # Neither a file, nor an interpreter, nor a heap.
    command = ["arm-none-eabi-nm", "-C", tmp_path / "build" / "model_run.elf"]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    absent = ("malloc", "flatbuffers", "et::runtime::Method", "et::runtime::Program", "KernelRegistry", "__cxa_")
    assert not [name for name in absent if name in symbols]
    # RAM is the tensors', the kernels' scratch memory and the counters of board/.
    assert report.image is not None
    assert 0 <= report.image.data - report.tensor_bytes - report.run.temp_bytes < 200


@pytest.mark.mcu
@pytest.mark.parametrize("target", ["cortex-m3", "cortex-m55"])
def test_microcontrollers_give_the_interpreters_bytes_in_less(target: str, tmp_path: Path) -> None:
    need(target)
    torch.manual_seed(7)
    data = lowered(Separable(), (torch.randn(1, 1, 12, 10),), "static_int8")
    report = build_native(data, tmp_path, target, check=True)
    found = report.comparison
    assert report.matches and found is not None and found.equal
    for less in ("flash", "start_instructions", "instructions"):
        assert getattr(found.generated, less) < getattr(found.interpreter, less), (less, found)
    # Kernels that are called once become part of the caller, with their frames.
    memory = [one.image.data + (one.stack or 0) for one in (found.generated, found.interpreter)]
    assert found.generated.image.data < found.interpreter.image.data - 1000 and memory[0] < memory[1], found


def test_a_library_for_c(tmp_path: Path) -> None:
    data = lowered(chain(nn.Linear(4, 2), nn.ReLU()), (torch.randn(1, 4),))
    report = build_native(data, tmp_path, library=True, name="two words")
    assert report.name == "two_words" and not (tmp_path / "main.cpp").exists()
    (tmp_path / "user.c").write_text(
        '#include "two_words.h"\n#include <string.h>\n'
        "int main(void) { const float x[TWO_WORDS_INPUT_0_BYTES / 4] = {0};\n"
        "const int shape[] = TWO_WORDS_OUTPUT_0_SHAPE;\n"
        "memcpy(two_words_input(0), x, sizeof(x)); two_words_reset_state();\n"
        "return two_words_run() != 0 || two_words_failed() != NULL || two_words_output(1) != NULL || shape[1] != 2; }\n"
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{tmp_path}"]
    library = tmp_path / "build" / "libtwo_words.a"
    subprocess.run(
        ["gcc", *flags, tmp_path / "user.c", library, "-lstdc++", "-lm", "-o", tmp_path / "user"], check=True
    )
    subprocess.run([tmp_path / "user"], check=True)


def test_a_program_on_the_host(tmp_path: Path) -> None:
    report = build_native(lowered(Counter(), (torch.randn(5),)), tmp_path)
    assert report.matches and report.run is not None and report.run.text.count("as on the host") == 4
    assert "outputs  as on the host" in str(report)


class Sequences(nn.Module):
    """Sizes that change, sizes computed from them, views of them, and an output that is a number."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.out = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        rows = self.block(x).reshape(-1, 8)
        return self.out(rows) + y.reshape(-1, 1), torch.cat((x, x), 1)[:, 1:], y.shape[1] * 2


class Resized(nn.Module):
    """A branch whose result has other sizes from call to call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.sin(), (x,)) + 1


@pytest.fixture(scope="module")
def sequences() -> bytes:
    torch.manual_seed(3)
    batch, steps = torch.export.Dim("batch", min=2, max=4), torch.export.Dim("steps", min=2, max=9)
    example, shapes = (torch.randn(3, 5, 8), torch.randn(3, 5)), ({0: batch, 1: steps}, {0: batch, 1: steps})
    program = torch.export.export(Sequences().eval(), example, dynamic_shapes=shapes)
    return bytes(et.to_edge_transform_and_lower(program).to_executorch().buffer)


def test_sizes_that_change(sequences: bytes, tmp_path: Path) -> None:
    generated = Generated(sequences, tmp_path)
    sizes = [(3, 5), (4, 9), (2, 2), (2, 9), (4, 3)]
    generated.check([("forward", (torch.randn(*size, 8), torch.randn(size))) for size in sizes])
    assert generated.output_sizes("forward", 0) == [12, 3] and generated.output_sizes("forward", 1) == [4, 5, 8]
    refused = ErrorCode.InvalidArgument
    for wrong in ((5, 3, 8), (4, 10, 8), (4, 3, 7), (-1, 3, 8)):
        assert generated.resize("forward", 0, wrong) == refused, wrong
    assert generated.resize("forward", 2, (1,)) == refused, "no such input"
    for x, y in (((4, 3, 8), (2, 3)), ((4, 3, 8), (4, 4)), ((1, 3, 8), (1, 3)), ((4, 0, 8), (4, 0))):
        assert generated.resize("forward", 0, x) == generated.resize("forward", 1, y) == 0
        assert generated.library.model_run() == refused, (x, y)
        assert generated.library.model_failed() == b"sizes of inputs"
    generated.check([("forward", (torch.randn(4, 3, 8), torch.randn(4, 3)))])


def test_a_branch_of_sizes_that_change(tmp_path: Path) -> None:
    rows = torch.export.Dim("rows", max=6)
    program = torch.export.export(Resized(), (torch.ones(3, 2),), dynamic_shapes=({0: rows},))
    generated = Generated(bytes(et.to_edge_transform_and_lower(program).to_executorch().buffer), tmp_path)
    generated.check([("forward", (torch.randn(n, 2).abs() * sign,)) for n in (3, 6, 1, 5) for sign in (1, -1)])


class Halves(nn.Module):
    """16-bit floats that numpy has not, beside floats."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return nn.functional.gelu(self.layer(x)), y + x.float()


def test_examples_of_bfloat16_are_made_up_in_both_sizes(tmp_path: Path) -> None:
    rows = {0: torch.export.Dim("rows", max=4)}
    inputs = (torch.randn(3, 8).bfloat16(), torch.randn(3, 8))
    program = torch.export.export(Halves().eval(), inputs, dynamic_shapes=(rows, rows))
    data = et.to_edge_transform_and_lower(program).to_executorch().buffer
    report = build_native(data, tmp_path, "host")
    assert report.matches and report.run is not None, report


@pytest.mark.mcu
def test_sizes_that_change_on_a_microcontroller(sequences: bytes, tmp_path: Path) -> None:
    need("cortex-m55")
    given = (torch.randn(2, 7, 8), torch.randn(2, 7))
    report = build_native(sequences, tmp_path / "sequences", "cortex-m55", inputs=given)
    assert report.matches and report.run is not None, report
    assert report.run.text.count("to the host's") + report.run.text.count("as on the host") == 6, "two sizes"
    layers = nn.Sequential(nn.Linear(6, 5), nn.ReLU())
    rows = ({0: torch.export.Dim("rows", max=8)},)
    program = torch.export.export(layers, (torch.randn(4, 6),), dynamic_shapes=rows)
    data = et.to_edge_transform_and_lower(program).to_executorch().buffer
    report = build_native(data, tmp_path / "rows", "cortex-m55", inputs=(torch.randn(3, 6),), check=True)
    assert report.matches and report.comparison is not None and report.comparison.equal, report


def test_what_no_code_is_written_for(tmp_path: Path) -> None:
    small = chain(nn.Linear(4, 2))
    data = lowered(small, (torch.randn(1, 4),))
    with pytest.raises(InvalidArgumentError, match=r"no target 'z80'; there are host, cortex-m0"):
        build_native(data, tmp_path, "z80")
    with pytest.raises(InvalidArgumentError, match=r"not a \.pte"):
        build_native(b"GIF89a" * 20, tmp_path)
    with pytest.raises(ExecutorchError):
        build_native(data[:-400], tmp_path)
    delegated = et.to_edge_transform_and_lower(
        torch.export.export(small.eval(), (torch.randn(1, 4),)), partitioner=[XnnpackPartitioner(largest=True)]
    )
    with pytest.raises(InvalidArgumentError, match=r"XnnpackBackend.*without a partitioner"):
        build_native(delegated.to_executorch(), tmp_path)
    exported = torch.export.export(small, (torch.randn(2, 4),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    unbound = et.to_edge_transform_and_lower(exported).to_executorch()
    with pytest.raises(NotSupportedError, match=r"input input of method 'forward' has a size without an upper bound"):
        build_native(unbound, tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_kernel_that_is_missing_is_named_with_its_types(tmp_path: Path) -> None:
    with torch.library._scoped_library("mine", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")

        class Twice(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.ops.mine.twice(x)  # type: ignore[no-any-return]

        edge = et.to_edge_transform_and_lower(torch.export.export(Twice(), (torch.ones(3),)))
        data = edge.to_executorch(et.ExecutorchBackendConfig(target_kernels=["mine::twice.out"])).buffer
    with pytest.raises(InvalidArgumentError, match=r"mine::twice\.out \(f32\)"):
        build_native(data, tmp_path)


def test_without_a_compiler_the_code_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    data = lowered(chain(nn.Linear(4, 2)), (torch.randn(1, 4),))
    report = build_native(data, tmp_path / "code")
    assert (tmp_path / "code" / "model.cpp").exists() and "g++" in str(report) and report.run is None
    with pytest.raises(InvalidArgumentError, match=r"g\+\+.*is not installed"):
        build_native(data, tmp_path / "code", check=True)


def test_numbers_that_a_call_gives(tmp_path: Path) -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> tuple[torch.Tensor, int]:
            return x * n + 1, n * 2

    x = torch.randn(3)
    program = torch.export.export(Scaled(), (x, 3), dynamic_shapes={"x": None, "n": torch.export.Dim.DYNAMIC})
    data = bytes(et.to_edge_transform_and_lower(program).to_executorch().buffer)
    generated = Generated(data, tmp_path)
    generated.check([("forward", (x, 5)), ("forward", (x, -2 + 4)), ("forward", (-x, 7))])
