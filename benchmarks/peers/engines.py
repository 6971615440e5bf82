"""The engines that are compared, one class each: how a model becomes a file, and how a file becomes a call.

Each class is used in a process of its own kind (`worker.py`), run by the interpreter of the environment that has the
package: ours and PyTorch's in the project's environment, the peers in theirs. Nothing is imported before it is needed.
Each engine is set up as its documentation recommends for a CPU, with its own quantizer for int8.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

Call = Callable[[], Sequence[Any]]
CALIBRATION_BATCHES = 8


class Unsupported(Exception):
    """The engine cannot do this row; the text says why and goes into the report."""


class Engine(ABC):
    """A package that runs models.

    Attributes:
        precisions: What it can do.
        peer: True if the package lives in the peers' environment.
        suffix: Of its file.
    """

    precisions: ClassVar[tuple[str, ...]] = ("fp32",)
    peer: ClassVar[bool] = True
    suffix: ClassVar[str] = ".pt2"

    def start(self) -> None:  # noqa: B027 - optional
        """Imports the package, so that later measurements do not contain it."""

    def prepare(self, exported: Path, inputs: tuple[torch.Tensor, ...], precision: str, out: Path) -> None:  # noqa: B027 - optional
        """Writes `out` from the exported program of the model."""

    def enter(self, threads: int) -> None:  # noqa: B027 - optional
        """In the process that will load a model: what a program does once, such as making the pool of threads."""

    @abstractmethod
    def load(self, file: Path, inputs: tuple[torch.Tensor, ...], threads: int) -> Call:
        """A call that runs the model once on the inputs and returns its flat outputs. Its time is measured."""


def calibration(inputs: tuple[torch.Tensor, ...]) -> list[tuple[torch.Tensor, ...]]:
    """Inputs like the example ones: floats drawn with its mean and deviation, integers as they are."""
    generator = torch.Generator().manual_seed(7)

    def like(value: torch.Tensor) -> torch.Tensor:
        if not value.is_floating_point():
            return value
        return torch.randn(value.shape, generator=generator) * value.std() + value.mean()

    return [inputs, *(tuple(like(value) for value in inputs) for _ in range(CALIBRATION_BATCHES - 1))]


class Ours(Engine):
    """executorch_py without a delegate."""

    peer = False
    precisions = ("fp32", "int8", "dynamic")
    suffix = ".pte"
    partitioned: ClassVar[bool] = False

    def start(self) -> None:
        import executorch_py as et

        et.Runtime.get()  # the package is lazy: this loads the extension, as the peers' imports load theirs

    def prepare(self, exported: Path, inputs: tuple[torch.Tensor, ...], precision: str, out: Path) -> None:
        import executorch_py as et

        partitioner = []
        if self.partitioned:
            from executorch_py.backends.xnnpack import XnnpackPartitioner

            partitioner = [XnnpackPartitioner()]
        program = torch.export.load(exported)
        if precision != "fp32":
            from executorch_py import quantizer

            preset = {"int8": "static_int8", "dynamic": "dynamic_int8"}[precision]
            program = quantizer.quantize(program, (), preset, calibration(inputs) if precision == "int8" else None)
        et.to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch().save(out)

    def enter(self, threads: int) -> None:
        import executorch_py as et

        et.set_num_threads(threads)

    def load(self, file: Path, inputs: tuple[torch.Tensor, ...], threads: int) -> Call:
        import executorch_py as et

        method = et.Runtime.get().load_program(file).load_method("forward")
        return lambda: method.execute(inputs)


class OursXnnpack(Ours):
    """executorch_py with its XNNPACK delegate."""

    partitioned = True


class Eager(Engine):
    """PyTorch eager, under inference_mode."""

    peer = False

    def enter(self, threads: int) -> None:
        torch.set_num_threads(threads)

    def load(self, file: Path, inputs: tuple[torch.Tensor, ...], threads: int) -> Call:
        module = self._module(file)

        def call() -> Sequence[Any]:
            with torch.inference_mode():
                return torch.utils._pytree.tree_leaves(module(*inputs))

        return call

    def _module(self, file: Path) -> torch.nn.Module:
        from benchmarks.peers.models import MODELS

        return MODELS[file.stem]().module


class Compiled(Eager):
    """torch.compile with its default backend."""

    def start(self) -> None:
        import torch._dynamo
        import torch._inductor.compile_fx  # noqa: F401

    def _module(self, file: Path) -> torch.nn.Module:
        return torch.compile(super()._module(file))


class Executorch(Engine):
    """executorch 1.5.1 with its XNNPACK delegate."""

    precisions = ("fp32", "int8", "dynamic")
    suffix = ".pte"

    def start(self) -> None:
        from executorch.runtime import Runtime

        Runtime.get()

    def prepare(self, exported: Path, inputs: tuple[torch.Tensor, ...], precision: str, out: Path) -> None:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        program = torch.export.load(exported)
        if precision != "fp32":
            program = torch.export.export(self._quantized(program, inputs, precision == "dynamic"), inputs)
        lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        out.write_bytes(lowered.to_executorch().buffer)

    @staticmethod
    def _quantized(
        program: torch.export.ExportedProgram, inputs: tuple[torch.Tensor, ...], dynamic: bool
    ) -> torch.nn.Module:
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(True, is_dynamic=dynamic))
        prepared = prepare_pt2e(program.module(), quantizer)
        for batch in calibration(inputs):
            prepared(*batch)
        return convert_pt2e(prepared)

    def enter(self, threads: int) -> None:
        from executorch.extension.pybindings import portable_lib

        if portable_lib._threadpool_get_thread_count() != threads:
            portable_lib._unsafe_reset_threadpool(threads)

    def load(self, file: Path, inputs: tuple[torch.Tensor, ...], threads: int) -> Call:
        from executorch.runtime import Runtime

        method = Runtime.get().load_program(file).load_method("forward")
        return lambda: method.execute(inputs)


class OnnxRuntime(Engine):
    """onnxruntime on the model that torch.onnx exports."""

    precisions = ("fp32", "int8", "dynamic")
    suffix = ".onnx"

    def start(self) -> None:
        import onnxruntime  # noqa: F401

    def prepare(self, exported: Path, inputs: tuple[torch.Tensor, ...], precision: str, out: Path) -> None:
        plain = out.with_name(f"{exported.stem}.onnx")
        if not plain.exists():
            torch.onnx.export(
                torch.export.load(exported), inputs, dynamo=True, external_data=False, verbose=False
            ).save(plain)
        if precision == "int8":
            self._quantize(plain, inputs, out)
        elif precision == "dynamic":
            from onnxruntime import quantization

            kinds = ["MatMul", "Gemm"]  # as our dynamic_int8: what multiplies by a weight, but no convolution
            quantization.quantize_dynamic(
                plain, out, op_types_to_quantize=kinds, weight_type=quantization.QuantType.QInt8, per_channel=True
            )
        elif plain != out:
            out.write_bytes(plain.read_bytes())

    @staticmethod
    def _quantize(plain: Path, inputs: tuple[torch.Tensor, ...], out: Path) -> None:
        import onnx
        from onnxruntime import quantization
        from onnxruntime.quantization.shape_inference import quant_pre_process

        quant_pre_process(str(plain), str(out), skip_symbolic_shape=True)
        names = [value.name for value in onnx.load(str(plain), load_external_data=False).graph.input]

        class Reader(quantization.CalibrationDataReader):
            def __init__(self) -> None:
                self.batches = iter(calibration(inputs))

            def get_next(self) -> dict[str, Any] | None:
                batch = next(self.batches, None)
                return None if batch is None else {n: v.numpy() for n, v in zip(names, batch, strict=True)}

        quantization.quantize_static(
            str(out),
            str(out),
            Reader(),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
        )

    def load(self, file: Path, inputs: tuple[torch.Tensor, ...], threads: int) -> Call:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        feeds = {value.name: x.numpy() for value, x in zip(session.get_inputs(), inputs, strict=True)}
        return lambda: session.run(None, feeds)


class OpenVino(Engine):
    """OpenVINO on the same ONNX file; int8 by NNCF."""

    precisions = ("fp32", "int8")
    suffix = ".xml"

    def start(self) -> None:
        import openvino  # noqa: F401

    def enter(self, threads: int) -> None:
        import openvino

        self.core = openvino.Core()

    def prepare(self, exported: Path, inputs: tuple[torch.Tensor, ...], precision: str, out: Path) -> None:
        import openvino

        plain = out.with_name(f"{exported.stem}.onnx")
        OnnxRuntime().prepare(exported, inputs, "fp32", plain)
        model = openvino.convert_model(plain)
        if precision == "int8":
            import nncf

            names = [value.get_any_name() for value in model.inputs]
            batches = [{n: v.numpy() for n, v in zip(names, batch, strict=True)} for batch in calibration(inputs)]
            model = nncf.quantize(model, nncf.Dataset(batches))
        openvino.save_model(model, out, compress_to_fp16=False)

    def load(self, file: Path, inputs: tuple[torch.Tensor, ...], threads: int) -> Call:
        # Its default on AVX512-BF16 machines is bfloat16 arithmetic; the comparison is between float32 programs.
        options = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = self.core.compile_model(str(file), "CPU", options)
        request = compiled.create_infer_request()
        feeds = [x.numpy() for x in inputs]

        def call() -> Sequence[Any]:
            results = request.infer(feeds, share_inputs=True, share_outputs=True)
            return [results[output] for output in compiled.outputs]

        return call


#: Name -> class, in the order of the report. Ours come first: nothing delegated, then the default with a delegate.
ENGINES: dict[str, type[Engine]] = {
    "ours": Ours,
    "ours+xnnpack": OursXnnpack,
    "executorch": Executorch,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "eager": Eager,
    "compile": Compiled,
}
OURS = ("ours", "ours+xnnpack")
#: What a user writes; the ratios are this one's.
DEFAULT = "ours+xnnpack"
#: Those that keep to the instruction sets that `executorch_py.cli.instruction_sets.isa_settings` allows.
LIMITED = ("ours", "ours+xnnpack", "openvino", "eager", "compile")


def quiet() -> None:
    """Silences what the packages say while they work; errors still come as exceptions."""
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    os.environ.update({"TORCH_LOGS": "-all", "ORT_LOGGING_LEVEL": "3", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"})
