"""Firmware projects: what `etpy firmware` writes builds, runs in the emulator, and says what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import executorch_py as et
from executorch_py import quantizer
from executorch_py.codegen.pte_stripping import stripped
from executorch_py.errors import InvalidArgumentError, InvalidStateError
from executorch_py.firmware import TARGETS, FirmwareReport, write_firmware
from executorch_py.firmware.build import build, missing_tools
from executorch_py.firmware.features import Feature, features_of
from executorch_py.firmware.project import Model, Pools, Project, memory_header, only_writer
from tests.targets.call_graph import Image

pytestmark = pytest.mark.mcu


def lowered(model: torch.nn.Module, example: tuple[torch.Tensor, ...], preset: str | None = None) -> bytes:
    program = (
        torch.export.export(model.eval(), example)
        if preset is None
        else quantizer.quantize(model.eval(), example, preset, [tuple(torch.randn_like(x) for x in example)] * 4)
    )
    return bytes(et.to_edge_transform_and_lower(program).to_executorch().buffer)


class Small(torch.nn.Module):
    """What the networks of microcontrollers use, in a few thousand multiply-accumulates."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, (3, 5), stride=2, padding=(1, 2)), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
            torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.nn.ReLU6(),
            torch.nn.Conv2d(8, 12, 1), torch.nn.ReLU(), torch.nn.AvgPool2d((5, 4)),
        )  # fmt: skip
        self.classifier = torch.nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.classifier(self.features(x).flatten(1)), 1)


@pytest.fixture(scope="module")
def integers() -> bytes:
    torch.manual_seed(0)
    return lowered(Small(), (torch.randn(1, 1, 10, 8),), "static_int8")


def need(target: str) -> None:
    missing = missing_tools(TARGETS[target])
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")


@pytest.fixture(scope="module")
def built(integers: bytes, tmp_path_factory: pytest.TempPathFactory) -> FirmwareReport:
    """A project for Cortex-M4, measured."""
    need("cortex-m4")
    return write_firmware(integers, tmp_path_factory.mktemp("cortex_m4"), "cortex-m4")


@pytest.mark.parametrize(
    "target", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "host"]
)
def test_integers_are_those_of_the_host(target: str, integers: bytes, built: FirmwareReport, tmp_path: Path) -> None:
    need(target)
    report = built if target == "cortex-m4" else write_firmware(integers, tmp_path, target)
    assert report.run is not None and report.run.matches, report.run
    if report.image is None:  # the host
        return
    # Every byte of RAM that the image has is a pool's, the arena's, or of the counters in board/.
    pools = report.pools
    assert 0 <= report.image.data - pools.method - pools.temp - sum(pools.arenas) < 200
    text = (report.folder / "README.md").read_text()
    assert f"{report.run.instructions:,} instructions" in text
    check_image(report)


def test_floats_are_close_to_the_hosts(tmp_path: Path) -> None:
    need("cortex-m4")
    torch.manual_seed(1)
    report = write_firmware(lowered(Small(), (torch.randn(1, 1, 10, 8),)), tmp_path, "cortex-m4")
    assert report.run is not None and report.run.matches, report.run


def test_a_pool_that_is_too_small_is_an_error_and_not_a_fault(built: FirmwareReport) -> None:
    pools = built.pools
    elf = built.folder / "build" / "firmware.elf"
    for less in (replace(pools, method=pools.method - 16), replace(pools, temp=16)):
        (built.folder / "memory.h").write_text(memory_header(less, "Too small."))
        subprocess.run(["cmake", "--build", built.folder / "build"], check=True, capture_output=True)
        done = subprocess.run([*built.target.emulator(), elf], capture_output=True, text=True, timeout=60, check=False)
        assert "MemoryAllocationFailed" in done.stdout + done.stderr and done.returncode not in (0, 70)


#: Of the heap, exceptions, run-time types, libstdc++, static constructors and their guards.
FORBIDDEN = (
    "malloc", "_malloc_r", "_sbrk", "free", "_free_r", "calloc", "__cxa_throw", "__cxa_allocate", "__cxa_atexit",
    "__cxa_guard", "__aeabi_atexit", "_Unwind", "__gxx_personality", "typeinfo", "vtable for __cxxabiv1",
    "operator new", "std::__", "std::terminate", "_GLOBAL__sub_I", "__static_initialization", "guard variable",
    "et::devtools", "et::runtime::Method::State::trace", "et::runtime::Method::State::run_traced",  # not asked for
)  # fmt: skip


def check_image(report: FirmwareReport) -> None:
    """What is not in the image; no recursion; the stack that it can take at most, beside what it took."""
    elf = report.folder / "build" / "firmware.elf"
    symbols = subprocess.run(["arm-none-eabi-nm", "-C", elf], capture_output=True, text=True, check=True).stdout
    names = [line.split(maxsplit=2)[-1] for line in symbols.splitlines()]
    assert len(names) > 100 and not [name for name in names if name.startswith(FORBIDDEN)]
    image = Image(elf)
    assert not [
        one.name for one in image.functions.values() if one.unbounded
    ]  # frames of a size known only at run time
    # A kernel, its loop, and what that asks for memory or says: three calls through pointers stand in each other.
    most, path = image.deepest("start", nested=3)
    run = report.run
    assert run is not None and max(run.load_stack, run.stack) < most <= 12 << 10, (run, most, path)


def test_the_reader_of_images_sees_recursion_and_large_frames(tmp_path: Path) -> None:
    need("cortex-m4")
    (tmp_path / "a.c").write_text(
        "int even(int); __attribute__((noinline)) int odd(int n) { return n == 0 ? 0 : 1 + even(n - 1) * 3; }\n"
        "__attribute__((noinline)) int even(int n) {"
        " volatile char a[512]; a[0] = n; return n ? 1 + 3 * odd(n - 1) : a[0]; }\n"
        "__attribute__((noinline)) int sum(int n) { volatile char a[n]; a[0] = 7; return a[0] + n; }\n"
        "int (*volatile g)(int) = sum; int flat(int n) { return 1 + 2 * g(n); }\n"
        "int main() { return odd(3) + sum(2) + flat(3); }\n"
    )
    elf = tmp_path / "a.elf"
    flags = ["-mcpu=cortex-m4", "-mthumb", "-O1", "-nostartfiles", "--specs=nano.specs", "-Wl,-e,main"]
    subprocess.run(["arm-none-eabi-gcc", *flags, tmp_path / "a.c", "-o", elf], check=True)
    image = Image(elf)
    assert [one.name for one in image.functions.values() if one.unbounded] == ["sum"]
    with pytest.raises(RecursionError, match=r"odd -> even|even -> odd"):
        image.deepest("main", nested=0)
    flat, path = image.deepest("flat", nested=1)
    assert [step.split()[0] for step in path] == ["flat", "sum"] and flat >= 16
    assert image.deepest("flat", nested=0)[0] < flat
    assert next(one.frame for one in image.functions.values() if one.name == "even") >= 512


def test_a_project_that_is_written_again_has_the_packages_sources(integers: bytes, tmp_path: Path) -> None:
    """It kept its own copies, so that a new version of the package changed nothing."""
    project = Project(tmp_path, TARGETS["host"])
    model, pools = Model(integers, "forward", [], []), Pools(1024, 1024, ())
    project.write(model, pools, "")
    copy = tmp_path / "executorch/src/kernels/cortex_m/product.cpp"
    text = copy.read_text()
    copy.write_text("// of another version\n")
    project.write(model, pools, "")
    assert copy.read_text() == text


def test_files_that_the_user_changed_stay(integers: bytes, tmp_path: Path) -> None:
    """A project that was written again for a new model had lost the product's own main.cpp and board."""
    need("host")
    assert write_firmware(integers, tmp_path, "host", measure=False).kept == ()
    own = {name: f"// of a product: {name}\n" for name in ("board/board.h", "main.cpp")}
    for name, text in own.items():
        (tmp_path / name).write_text(text)
    report = write_firmware(integers, tmp_path, "host")
    assert report.kept == tuple(own) and {name: (tmp_path / name).read_text() for name in own} == own
    assert report.folder == tmp_path and report.run is not None and report.run.matches, report
    assert f"kMethodPoolBytes = {report.run.method_bytes};" in (tmp_path / "memory.h").read_text()
    assert "kept     board/board.h, main.cpp: changed by you" in (tmp_path / "README.md").read_text()
    for name in own:
        (tmp_path / name).unlink()  # the way back to the files as they were
    assert write_firmware(integers, tmp_path, "host", measure=False).kept == ()
    assert all((tmp_path / name).read_text() != text for name, text in own.items())


def test_a_folder_has_one_writer_at_a_time(integers: bytes, tmp_path: Path) -> None:
    """Two builds in one folder made an image of both's files, once."""
    with only_writer(tmp_path):
        with pytest.raises(InvalidStateError, match="another `etpy firmware` writes"):
            write_firmware(integers, tmp_path, "host", measure=False)
        other = "from pathlib import Path\nfrom executorch_py.firmware.project import only_writer\n"
        other += f"with only_writer(Path({str(tmp_path)!r})): pass"
        done = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=False)
        assert "InvalidStateError" in done.stderr
        assert not any(tmp_path.iterdir())
    write_firmware(integers, tmp_path, "host", measure=False)
    with pytest.raises(BlockingIOError), only_writer(tmp_path / "deeper"):
        raise BlockingIOError  # not the folder's
    assert (tmp_path / "main.cpp").is_file()


def test_a_kernel_that_no_target_has_is_named(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    data = lowered(model, (torch.randn(1, 4),)).replace(b"aten::linear", b"aten::lineal").replace(
        b"et::linear_clamp", b"et::lineal_clamp"
    )  # fmt: skip
    with pytest.raises(Exception, match="lineal"):
        write_firmware(data, tmp_path, "cortex-m4")


class Dynamic(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


class Branching(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x)
        return self.count + 1


def program_with(feature: Feature) -> bytes:
    """A program that needs this and nothing else of what can be left out."""
    from executorch_py.backends.tosa import TOSAPartitioner

    x = torch.ones(2)
    model, config, dynamic, partitioner = Dynamic(), None, None, None
    if feature is Feature.DYNAMIC_SHAPES:
        dynamic = ({0: torch.export.Dim("n", max=9)},)
    elif feature is Feature.CONTROL_FLOW:
        model = Branching()
    elif feature is Feature.KEPT_MEMORY:
        model = Counting()
    elif feature is Feature.EXTERNAL_TENSORS:
        model, config = torch.nn.Linear(2, 2), et.ExecutorchBackendConfig(external_constants=True)
    elif feature is Feature.DELEGATES:
        model, partitioner = torch.nn.Linear(2, 2), [TOSAPartitioner()]
    exported = torch.export.export(model.eval(), (x,), dynamic_shapes=dynamic)
    if feature is Feature.DELEGATES:
        exported = quantizer.quantize(model.eval(), (x,), "static_int8", [(x,), (-x,)])
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner)
    return stripped(bytes(edge.to_executorch(config).buffer))[0]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project without features; one, so that its runtime is compiled once."""
    return tmp_path_factory.mktemp("bare")


def test_methods_that_share_no_memory_need_none_that_is_kept() -> None:
    """Those that say how inputs are quantized stand beside `forward` in many files for firmware."""
    samples = [(torch.randn(1, 4),) for _ in range(2)]
    quantized = quantizer.quantize(torch.nn.Linear(4, 2).eval(), samples[0], "static_int8", samples)
    config = et.ExecutorchBackendConfig(quantized_io=True)
    data = bytes(et.to_edge_transform_and_lower(quantized).to_executorch(config).buffer)
    assert len(et.load(data).method_names) > 1
    assert Feature.KEPT_MEMORY not in features_of(data)


# Debug information is not read; without sequences, the plain kernel computes them.
@pytest.mark.parametrize("feature", [one for one in Feature if one not in (Feature.DEBUG_INFO, Feature.SEQUENCES)])
def test_a_runtime_without_a_feature_refuses_what_needs_it(feature: Feature, bare: Path) -> None:
    need("host")
    data = program_with(feature)
    assert features_of(data) == feature
    project = Project(bare, TARGETS["host"])
    project.write(Model(data, "forward", [b""] * 2, []), Pools(16384, 1024, (1024,)), "")
    lists = bare / "executorch" / "CMakeLists.txt"
    assert f"ET_FEATURES={int(feature)} " in lists.read_text()
    lists.write_text(lists.read_text().replace(f"ET_FEATURES={int(feature)} ", "ET_FEATURES=0 "))
    done = subprocess.run([build(project)], capture_output=True, text=True, timeout=60, check=False)
    assert "NotSupported" in done.stdout and done.returncode > 0, done


def test_convolutions_over_sequences_are_a_feature_and_fast(integers: bytes, tmp_path: Path) -> None:
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Conv1d(3, 8, 5, 2, 2), torch.nn.ReLU(), torch.nn.Conv1d(8, 4, 3, groups=2))
    data = lowered(model, (torch.randn(1, 3, 40),), "static_int8")
    assert features_of(stripped(data)[0]) == Feature.SEQUENCES
    assert Feature.SEQUENCES not in features_of(integers)
    need("cortex-m3")
    report = write_firmware(data, tmp_path, "cortex-m3")
    assert report.run is not None and report.run.matches and not report.run.plain_kernels, report.run
    assert report.run.instructions < 300_000  # plain ones take a million


def test_debug_information_is_a_feature_that_strip_removes() -> None:
    exported = torch.export.export(Dynamic(), (torch.ones(2),))
    data = bytes(et.to_edge_transform_and_lower(exported).to_executorch().buffer)
    assert features_of(data) == Feature.DEBUG_INFO
    assert features_of(stripped(data)[0]) == Feature(0)


def test_a_delegate_is_refused(tmp_path: Path) -> None:
    from executorch_py.backends.xnnpack import XnnpackPartitioner

    exported = torch.export.export(torch.nn.Linear(4, 4).eval(), (torch.randn(1, 4),))
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)])
    with pytest.raises(InvalidArgumentError, match=r"XnnpackBackend.*without a partitioner"):
        write_firmware(edge.to_executorch(), tmp_path, "cortex-m4")


def test_bad_arguments(integers: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no target 'cortex-m99'; there are .*cortex-m55"):
        write_firmware(integers, tmp_path, "cortex-m99")
    with pytest.raises(InvalidArgumentError, match=r"not a \.pte file"):
        write_firmware(b"nothing", tmp_path)
    with pytest.raises(InvalidArgumentError, match="program is a int"):
        write_firmware(3, tmp_path)


def test_the_command(integers: bytes, tmp_path: Path) -> None:
    need("cortex-m55")
    (tmp_path / "model.pte").write_bytes(integers)
    done = subprocess.run(
        [sys.executable, "-m", "executorch_py", "firmware", "model.pte", "-o", "out", "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["target"] == "cortex-m55" and told["run"]["matches"] and told["image"]["code"] > 10_000
