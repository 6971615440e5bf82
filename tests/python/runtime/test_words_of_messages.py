"""What messages call dtypes and shapes: as torch prints them, in every layer that says something."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.training import AdamW

SHORT = re.compile(r"(?<![\w.])(bf16|[fiu](8|16|32|64)|c64|c128)(?!\w)")
SHAPE = re.compile(r"(?<= )\[\d+(, \d+)*\]")
LINEAR = nn.Linear(4, 3).eval()
X = torch.randn(2, 4)


def method(module: nn.Module = LINEAR, *inputs: torch.Tensor, **options) -> et.Method:
    exported = torch.export.export(module, inputs or (X,), **options)
    return et.Runtime.get().load_program(et.to_edge(exported).to_executorch().buffer).load_method("forward")


def dynamic() -> et.Method:
    return method(LINEAR, X, dynamic_shapes={"input": {0: torch.export.Dim("rows", min=1, max=8)}})


def delegated() -> et.Method:
    edge = et.to_edge_transform_and_lower(torch.export.export(LINEAR, (X,)), partitioner=[XnnpackPartitioner()])
    return et.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")


#: What a user does -> words that its message must have.
ERRORS = {
    "another dtype": (lambda: method().execute((X.double(),)), ["torch.float64", "torch.float32"]),
    "another dtype of numpy": (lambda: method().execute((X.numpy().astype("f2"),)), ["torch.float16", "torch.float32"]),
    "another dtype for a delegate": (lambda: delegated().execute((X.to(torch.int64),)),
                                     ["torch.int64", "torch.float32"]),
    "no tensor": (lambda: method().execute((3,)), ["torch.float32 (2, 4)"]),
    "an output of another size": (
        lambda: method().execute((X,), out=[np.empty((2, 2), np.float32)]),
        ["torch.float32 (2, 2)", "torch.float32 (2, 3)"],
    ),
    "an output of another dtype": (
        lambda: method().execute((X,), out=[torch.empty(2, 3, dtype=torch.int32)]),
        ["torch.int32 (2, 3)", "torch.float32 (2, 3)"],
    ),
    "a parameter that is no float": (
        lambda: quantizer.quantize(nn.Linear(4, 3).half().eval(), (X.half(),), "static_int8", [(X.half(),)]),
        ["torch.float16"],
    ),
    "a gradient of another size": (
        lambda: AdamW({"a": torch.zeros(3)}, lr=0.1).step({"a": torch.zeros(2)}),
        ["torch.float32 (2,)", "torch.float32 (3,)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_dtypes_and_shapes_as_torch_does(name: str) -> None:
    act, words = ERRORS[name]
    with pytest.raises(et.ExecutorchError) as caught:
        act()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert not SHORT.search(message) and not SHAPE.search(message), message


def test_no_source_of_a_message_has_the_short_names() -> None:
    """The texts of checks and logs in C++ say no dtype in the notation of the IR."""
    root = Path(__file__).resolve().parents[3]
    literal = re.compile(r'"(?:[^"\\]|\\.)*"')
    found = []
    for folder in (
        "src/cpp/base",
        "src/cpp/kernels",
        "src/cpp/runtime",
        "src/cpp/extension",
        "src/cpp/training",
        "backends",
    ):
        for path in [*(root / folder).rglob("*.cpp"), *(root / folder).rglob("*.h")]:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                texts = [] if line.lstrip().startswith("//") else literal.findall(line)
                if any("%s" in text and SHORT.search(text) for text in texts):
                    found.append(f"{path.relative_to(root)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)
