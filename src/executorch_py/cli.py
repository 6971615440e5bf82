"""``etpy``: exports, runs, inspects and validates programs from a shell.

etpy export my.models:make -o model.pte         make() returns (model, example_inputs)
etpy run model.pte --input x.npy --runs 100     prints outputs and the latency
etpy inspect model.pte                          methods, tensors, operators, delegates, memory
etpy validate model.pte my.models:make          the program against its model
etpy quantization float.pt2 int8.pt2 --data my.models:samples --html page.html   what quantization costs, layer by layer
etpy ops model.pte                              which operators it calls, which kernel each call got, and what is missing
etpy passes                                     the compiler's passes
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from executorch_py import __version__, _core
from executorch_py.errors import ExecutorchError, InvalidArgumentError
from executorch_py.runtime import Method, MethodMetadata, Program, Runtime, ScalarType, TensorInfo

__all__ = ["main"]


def _import(module: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(module)


def _resolve(name: str) -> Any:
    """The object that ``package.module:attribute`` names; the current folder counts."""
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InvalidArgumentError(f"{name!r} names no object, write package.module:name")
    found = _import(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def _model(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What a factory makes: a model, positional and keyword arguments."""
    factory = _resolve(name)
    if not callable(factory):
        raise InvalidArgumentError(
            f"{name} is of type {type(factory).__name__}, must be a function that returns (model, example_inputs)"
        )
    made = factory()
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[1], tuple):
        raise InvalidArgumentError(f"{name} must return (model, example_inputs) or (model, example_inputs, kwargs)")
    model = made[0].eval() if hasattr(made[0], "eval") else made[0]
    return model, made[1], dict(made[2]) if len(made) == 3 else {}


def _numpy_dtype(dtype: ScalarType) -> np.dtype[Any]:
    if dtype is ScalarType.BFloat16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    names = {
        ScalarType.Byte: "uint8",
        ScalarType.Char: "int8",
        ScalarType.Short: "int16",
        ScalarType.Int: "int32",
        ScalarType.Long: "int64",
        ScalarType.Half: "float16",
        ScalarType.Float: "float32",
        ScalarType.Double: "float64",
        ScalarType.Bool: "bool",
    }
    return np.dtype(names.get(dtype, dtype.name.lower()))


def _random_input(info: TensorInfo, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Values that any model takes: standard normal numbers, zeros for integers (an index is always in range)."""
    dtype = _numpy_dtype(info.dtype())
    if dtype.kind in "iub":
        return np.zeros(info.sizes(), dtype)
    return random.standard_normal(info.sizes()).astype(dtype)


def _input_of(text: str, info: TensorInfo | None) -> Any:
    """The array in a file, or the value (``info`` is ``None``) that JSON says."""
    try:
        if info is None:
            return json.loads(text)
        with open(text, "rb") as file:
            array = np.lib.format.read_array(file)
    except ValueError as error:
        what = "is no value in JSON" if info is None else "cannot be read as a .npy file"
        raise InvalidArgumentError(f"--input {text} {what}: {error}") from None
    # numpy stores the dtypes of extension packages as bytes without a meaning.
    is_bfloat16 = info is not None and info.dtype() is ScalarType.BFloat16 and array.dtype.str == "|V2"
    return array.view(_numpy_dtype(ScalarType.BFloat16)) if is_bfloat16 else array


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _inputs(method: Method, paths: Sequence[str]) -> list[Any]:
    """The inputs of a run: from files, in order; what is left is generated, or as it was at export."""
    metadata = method.metadata
    if len(paths) > metadata.num_inputs():
        raise InvalidArgumentError(
            f"{len(paths)} inputs were given, method '{metadata.name()}' takes {metadata.num_inputs()}"
        )
    random = np.random.default_rng(0)
    inputs: list[Any] = []
    for index in range(metadata.num_inputs()):
        kind = metadata.input_kind(index)
        if index < len(paths):
            info = metadata.input_tensor_meta(index) if kind == "Tensor" else None
            inputs.append(_input_of(paths[index], info))
        elif kind == "Tensor":
            inputs.append(_random_input(metadata.input_tensor_meta(index), random))
        else:
            inputs.append(method._core.input_value(index))
    return inputs


def _run(arguments: argparse.Namespace) -> int:
    runtime = Runtime.get()
    if arguments.threads is not None:
        runtime.set_num_threads(arguments.threads)
    started = time.perf_counter()
    program = runtime.load_program(arguments.program, data_path=arguments.data)
    method = program.load_method(arguments.method)
    loaded = time.perf_counter()
    inputs = _inputs(method, arguments.input)
    outputs = method.execute(inputs)
    first = time.perf_counter()
    times = []
    for _ in range(arguments.runs - 1):
        before = time.perf_counter()
        outputs = method.execute(inputs)
        times.append(time.perf_counter() - before)
    for index, output in enumerate(outputs):
        if not isinstance(output, np.ndarray):
            print(f"output {index}: {output!r}")
            continue
        print(f"output {index}: {output.dtype} {tuple(output.shape)}")
        if arguments.print:
            print(np.array2string(output, threshold=arguments.print))
        if arguments.output:
            path = os.path.join(arguments.output, f"output_{index}.npy")
            os.makedirs(arguments.output, exist_ok=True)
            np.save(path, output)
            print(f"  written to {path}")
    print(f"load {1e3 * (loaded - started):.3f} ms, first run {1e3 * (first - loaded):.3f} ms")
    if times:
        print(
            f"median of {len(times)} further runs {1e3 * float(np.median(times)):.4f} ms, best {1e3 * min(times):.4f} ms"
        )
    return 0


def _describe(metadata: MethodMetadata) -> dict[str, Any]:
    """A method as plain data."""

    def values(kind: str, count: int) -> list[dict[str, Any]]:
        found = []
        for index in range(count):
            inputs = kind == "input"
            what = metadata.input_kind(index) if inputs else metadata.output_kind(index)
            entry: dict[str, Any] = {
                "kind": what,
                "name": metadata.input_name(index) if inputs else metadata.output_name(index),
            }
            if what == "Tensor":
                info = metadata.input_tensor_meta(index) if inputs else metadata.output_tensor_meta(index)
                entry |= {"dtype": info.dtype().name, "sizes": list(info.sizes()), "dim_order": list(info.dim_order())}
                entry |= {"bounds": [list(bound) for bound in info.bounds()], "planned": info.is_memory_planned()}
            found.append(entry)
        return found

    return {
        "inputs": values("input", metadata.num_inputs()),
        "outputs": values("output", metadata.num_outputs()),
        "instructions": metadata.num_instructions(),
        "operators": sorted(metadata.operators()),
        "delegates": list(metadata.backends()),
        "planned_bytes": list(metadata.planned_buffer_sizes()),
        "uses_state": metadata.uses_state(),
    }


def _inspect(arguments: argparse.Namespace) -> int:
    program = Runtime.get().load_program(arguments.program)
    methods = {name: _describe(program.metadata(name)) for name in sorted(program.method_names)}
    named = dict(program.named_data())
    if arguments.json:
        print(json.dumps({"methods": methods, "named_data": named}, indent=2))
        return 0
    print(f"{arguments.program}: {os.path.getsize(arguments.program):,} bytes")
    for name, method in methods.items():
        print(
            f"\nmethod {name}: {method['instructions']} instructions" + (", has state" if method["uses_state"] else "")
        )
        metadata = program.metadata(name)
        for kind in ("input", "output"):
            for index in range(len(method[f"{kind}s"])):
                print(f"  {kind} {index}: {metadata._describe(kind, index)}")
        if sum(method["planned_bytes"]):
            print(f"  planned memory: {' + '.join(f'{size:,}' for size in method['planned_bytes'])} bytes")
        for delegate in method["delegates"]:
            print(f"  delegate: {delegate}")
        for operator in method["operators"]:
            print(f"  operator: {operator}")
    _print_delegation(program, arguments.delegation)
    if named:
        print("\nnamed data")
    for key, nbytes in named.items():
        print(f"  {key}: {nbytes:,} bytes{_dense_size(program, key)}")
    return 0


def _dense_size(program: Program, key: str) -> str:
    """What stands behind the size of a sparse entry (base/sparse_bytes.h): the bytes that it stands for."""
    if not key.startswith(("sparse:", "sparse_constant:")):
        return ""
    header = program.read_named_data(key)[:16]
    return f", dense {int.from_bytes(header[8:], 'little'):,}" if header.startswith(b"EPSB") else ""


def _print_delegation(program: Program, whole: bool) -> None:
    """What went to which backend and what did not, as the compiler wrote it into the program."""
    from .lowering.delegation_table import KEY, DelegationReport

    if KEY in program.named_data():
        report = DelegationReport.from_bytes(program.read_named_data(KEY))
        parts = (report.summary(), report.table(only_refused=not whole))
        print("\ndelegation\n" + "\n\n".join(part for part in parts if part))


def _ops(arguments: argparse.Namespace) -> int:
    from executorch_py import operators

    for library in arguments.kernels:
        Runtime.get().load_plugin(library)
    for module in arguments.imports:
        _import(module)
    if arguments.model is not None:
        return _needs(arguments)
    if arguments.markdown:
        print(operators.operators_page(), end="")
        return 0
    names = {op.kernel: op for op in operators.known_operators().values()}
    rows = [
        (name, names[name].dtype_text if name in names else "", " ".join(dict.fromkeys(k.label for k in kernels)))
        for name, kernels in sorted(operators.registered_kernels().items())
    ]
    if arguments.json:
        print(
            json.dumps([dict(zip(("kernel", "dtypes", "implementations"), row, strict=True)) for row in rows], indent=2)
        )
        return 0
    width = max(len(row[0]) for row in rows)
    for name, dtypes, libraries in rows:
        print(f"{name:<{width}}  {dtypes:<16} {libraries}".rstrip())
    return 0


def _needs(arguments: argparse.Namespace) -> int:
    """What a program needs; the exit status is 1 when something is missing."""
    from executorch_py.codegen.ops_yaml import TableError
    from executorch_py.codegen.select_ops import read_selection
    from executorch_py.devtools.requirements import lower_for_requirements, requirements, table_of

    path = Path(arguments.model)
    if path.suffix == ".pte":
        data = path.read_bytes()
    else:
        if path.exists() and not zipfile.is_zipfile(path):
            raise InvalidArgumentError(f"{path} is neither a .pte nor an exported program (torch.export.save)")
        data = lower_for_requirements(path, [_resolve(name)() for name in arguments.partitioner])
    try:
        needs = requirements(data, read_selection(Path(arguments.select)) if arguments.select else None)
    except TableError as error:
        raise InvalidArgumentError(str(error)) from None
    if arguments.json:
        plain = [
            {**dataclasses.asdict(need), "dtypes": sorted(need.dtypes), "kernels": dict(need.kernels)} for need in needs
        ]
        print(json.dumps(plain, indent=2))
    else:
        print(table_of(needs))
    return 1 if any(need.missing for need in needs) else 0


def _passes(_: argparse.Namespace) -> int:
    for name, summary in _core.list_passes():
        print(f"{name:36}  {summary}")
    return 0


def _lowered(arguments: argparse.Namespace) -> tuple[Any, Any, tuple[Any, ...], dict[str, Any]]:
    import torch

    from executorch_py.lowering.edge import to_edge_transform_and_lower

    from .graphs.torch_quantized import require_exportable

    model, inputs, kwargs = _model(arguments.model)
    partitioners = [_resolve(name)() for name in arguments.partitioner]
    require_exportable(model)
    exported = torch.export.export(model, inputs, kwargs or None)
    program = to_edge_transform_and_lower(exported, partitioner=partitioners or None).to_executorch()
    return program, model, inputs, kwargs


def _export(arguments: argparse.Namespace) -> int:
    program = _lowered(arguments)[0]
    program.save(arguments.output)
    print(f"{arguments.output}: {os.path.getsize(arguments.output):,} bytes")
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    from executorch_py.devtools.validate import Tolerance, validate

    model, inputs, kwargs = _model(arguments.model)
    tolerance = None
    if arguments.tolerance is not None or arguments.min_sqnr is not None:
        tolerance = Tolerance(relative_to_max=arguments.tolerance, min_sqnr_db=arguments.min_sqnr)
    report = validate(
        arguments.program, model, inputs, example_kwargs=kwargs, method=arguments.method, tolerance=tolerance
    )
    return 0 if report.passed else 1


def _exported(name: str) -> Any:
    """A model for a report: an exported program from a .pt2 file, or what a function makes."""
    if not name.endswith(".pt2"):
        made = _resolve(name)()
        model = made[0] if isinstance(made, tuple) else made
        return model.eval() if hasattr(model, "eval") else model
    from executorch_py.devtools.requirements import read_exported

    return read_exported(Path(name))


def _quantization(arguments: argparse.Namespace) -> int:
    from executorch_py.devtools.quantization.report import quantization_report

    report = quantization_report(
        _exported(arguments.model),
        _exported(arguments.quantized),
        _resolve(arguments.data)(),
        program=arguments.program,
        max_batches=arguments.batches,
        metric=_resolve(arguments.metric) if arguments.metric else None,
    )
    print(json.dumps(report.as_dict(), indent=2) if arguments.json else report)
    if arguments.html:
        report.to_html(arguments.html)
    least = min((output.difference.sqnr_db for output in report.outputs), default=0.0)
    return 0 if arguments.min_sqnr is None or least >= arguments.min_sqnr else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="etpy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"etpy {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    export = commands.add_parser("export", help="export and lower a model")
    export.add_argument("model", help="package.module:function, which returns (model, example_inputs[, kwargs])")
    export.add_argument("-o", "--output", required=True, help="the .pte to write")
    export.add_argument("--partitioner", action="append", default=[], help="package.module:Class; may be repeated")
    export.set_defaults(run=_export)

    run = commands.add_parser("run", help="run a method")
    run.add_argument("program", help="a .pte file")
    run.add_argument("--method", default="forward")
    run.add_argument(
        "--input", action="append", default=[], help=".npy file (a number: JSON); in order, rest generated"
    )
    run.add_argument("--output", help="folder for the outputs as .npy files")
    run.add_argument("--data", action="append", help=".ptd file with external weights; may be repeated")
    run.add_argument("--runs", type=_positive, default=1)
    run.add_argument("--threads", type=int, help="0: all processors")
    run.add_argument(
        "--print", type=int, nargs="?", const=16, default=0, help="print values, at most so many an output"
    )
    run.set_defaults(run=_run)

    inspect = commands.add_parser("inspect", help="what stands in a program")
    inspect.add_argument("program")
    inspect.add_argument("--json", action="store_true")
    inspect.add_argument(
        "--delegation", action="store_true", help="list the delegated operators, too, not only the rest"
    )
    inspect.set_defaults(run=_inspect)

    validate = commands.add_parser("validate", help="compare a program with its model")
    validate.add_argument("program")
    validate.add_argument("model", help="package.module:function, which returns (model, example_inputs[, kwargs])")
    validate.add_argument("--method", default="forward")
    validate.add_argument("--tolerance", type=float, help="largest max error / max value")
    validate.add_argument("--min-sqnr", type=float, help="smallest signal-to-noise ratio in dB, instead of a tolerance")
    validate.set_defaults(run=_validate)

    quantization = commands.add_parser(
        "quantization", help="what quantization costs, layer by layer and output by output"
    )
    quantization.add_argument(
        "model", help="the float model: a .pt2 (best what was quantized), or package.module:function"
    )
    quantization.add_argument("quantized", help="the quantized model: a .pt2, or package.module:function")
    quantization.add_argument(
        "--data", required=True, help="package.module:function, which returns an iterable of inputs"
    )
    quantization.add_argument("--batches", type=int, help="how many items of the data at most")
    quantization.add_argument("--program", help="the lowered program, whose outputs are compared, too")
    quantization.add_argument(
        "--metric",
        help="package.module:function, which gets a callable model and gives a number, measured before and after",
    )
    quantization.add_argument("--html", help="a page to write, with charts")
    quantization.add_argument("--json", action="store_true")
    quantization.add_argument("--min-sqnr", type=float, help="exit with 1 when an output has less, in dB")
    quantization.set_defaults(run=_quantization)

    passes = commands.add_parser(
        "passes", help="the compiler's passes, each of which a config can leave out by its name"
    )
    passes.set_defaults(run=_passes)

    ops = commands.add_parser("ops", help="operators and their kernels: all of them, or what a program needs")
    ops.add_argument(
        "model",
        nargs="?",
        help="a .pte, or an exported program (.pt2); the exit status is 1 when something that it needs is missing",
    )
    ops.add_argument(
        "--kernels", action="append", default=[], help="a library of kernels to load first; may be repeated"
    )
    ops.add_argument(
        "--import",
        action="append",
        default=[],
        dest="imports",
        metavar="MODULE",
        help="for a .pt2: a Python module that defines custom operators; may be repeated",
    )
    ops.add_argument("--select", help="check against a build with ET_SELECT_OPS=this file (list, .yaml or .pte)")
    ops.add_argument("--partitioner", action="append", default=[], help="for a .pt2: package.module:Class")
    ops.add_argument("--markdown", action="store_true", help="all operators as the page docs/reference/operators.md")
    ops.add_argument("--json", action="store_true")
    ops.set_defaults(run=_ops)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status is 0, 1 for a check that fails, 2 for an error."""
    parsed = _parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `etpy passes | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ExecutorchError, OSError, ModuleNotFoundError, AttributeError) as error:
        print(f"etpy: {type(error).__name__}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
