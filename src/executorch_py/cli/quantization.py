"""``etpy quantization``: what quantization costs, layer by layer."""

from __future__ import annotations

import argparse
from typing import Any

from .models import model_of, resolve
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
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
    add_json(quantization)
    quantization.add_argument("--min-sqnr", type=float, help="exit with 1 when an output has less, in dB")
    quantization.set_defaults(run=_quantization)


def _model(name: str) -> Any:
    """A model for a report: an exported program from a .pt2 file, or what a function makes."""
    if name.endswith(".pt2"):
        return model_of(name)[0]
    made = resolve(name)()
    model = made[0] if isinstance(made, tuple) else made
    return model.eval() if hasattr(model, "eval") else model


def _quantization(arguments: argparse.Namespace) -> int:
    from executorch_py.devtools.quantization.report import quantization_report

    report = quantization_report(
        _model(arguments.model),
        _model(arguments.quantized),
        resolve(arguments.data)(),
        program=arguments.program,
        max_batches=arguments.batches,
        metric=resolve(arguments.metric) if arguments.metric else None,
    )
    show(arguments, report, report.as_dict)
    if arguments.html:
        report.to_html(arguments.html)
    least = min((output.difference.sqnr_db for output in report.outputs), default=0.0)
    return 0 if arguments.min_sqnr is None or least >= arguments.min_sqnr else 1
