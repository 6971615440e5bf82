"""The importer: types, arguments, state, structures and sources in the IR's text; clear refusals."""

import re
from typing import NamedTuple

import pytest
import torch
from torch import nn

from executorch_py import to_edge
from executorch_py.errors import NotSupportedError
from executorch_py.export.importer.programs import import_programs


class Call(nn.Module):
    def __init__(self, function, **state):
        super().__init__()
        self.function = function
        for name, value in state.items():
            if isinstance(value, nn.Module):
                self.add_module(name, value)
            else:
                self.register_buffer(name, value)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def _text(model, inputs=(), kwargs=None, **options):
    constant_methods = options.pop("constant_methods", None)
    exported = torch.export.export(model, inputs, kwargs, **options)
    edge = to_edge(exported)
    return import_programs({"forward": edge.exported_program()}, constant_methods).program.text()


def _body(text):
    return text[text.index("method @forward") :]


def test_arguments_follow_the_schema_with_defaults():
    text = _text(Call(lambda self, x: torch.add(x, x, alpha=2).sum(1, keepdim=True)), (torch.randn(2, 3),))
    assert "aten::add.Tensor(%args_0, %args_0, 2) : f32[2, 3]" in text
    assert "aten::sum.dim_IntList(%add, [1], true, none) : f32[2, 1]" in text


def test_ints_for_floats_and_dtypes_as_numbers():
    def forward(self, x):
        return torch.nn.functional.layer_norm(x, (3,), eps=1), torch.full((2,), 3, dtype=torch.int32), x.to(torch.bool)

    text = _text(Call(forward), (torch.randn(2, 3),))
    assert re.search(r"native_layer_norm\(%args_0, \[3\], none, none, 1\.0\)", text)
    assert re.search(r"aten::full\(\[2\], 3, 3, none, none, (false|none)\) : i32\[2\]", text)
    assert "aten::_to_copy(%args_0, 11, none, none, none, false, none) : bool[2, 3]" in text


def test_symbols_are_named_in_order_and_bounded():
    batch, length = torch.export.Dim("batch", min=2, max=9), torch.export.Dim("length", min=1, max=64)

    def forward(self, x, y):
        return torch.cat([x, y], 1), x.reshape(-1), x.shape[0] * 2 + 1

    text = _text(
        Call(forward),
        (torch.randn(4, 5), torch.randn(4, 8)),
        dynamic_shapes={"args": ({0: batch, 1: length}, {0: batch})},
    )
    assert "%args_0: f32[s0:{2..9}, s1:{" in text
    assert re.search(r"aten::cat\(\[%args_0, %args_1\], 1\) : f32\[s0, (s1 \+ 8|8 \+ s1)", text)
    assert "executorch_prim::" in text and "aten::sym_size.int(%args_0, 0)" in text


def test_tied_and_shared_weights_are_one_constant():
    weight = nn.Parameter(torch.randn(4, 4))

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
            self.a.weight = self.b.weight = weight

        def forward(self, x):
            return self.b(self.a(x))

    text = _text(Tied(), (torch.randn(1, 4),))
    assert len(re.findall(r"^constant @", text, re.M)) == 1


def test_methods_share_what_is_the_same_storage_not_the_same_name():
    shared, other = nn.Linear(2, 2), nn.Linear(2, 2)
    exported = {
        name: torch.export.export(module, (torch.randn(1, 2),))
        for name, module in (("a", shared), ("b", shared), ("c", other))
    }
    edge = to_edge(exported)
    text = import_programs({name: edge.exported_program(name) for name in exported}).program.text()
    assert sorted(re.findall(r"^constant @(\S+)", text, re.M)) == ["bias", "c.bias", "c.weight", "weight"]


def test_state_of_several_methods():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.arange(3.0))

        def forward(self, x):
            self.count.add_(x)
            return self.count.sum()

    class Reader(nn.Module):
        def __init__(self, counter):
            super().__init__()
            self.counter = counter

        def forward(self):
            return self.counter.count * 2

    counter = Counter()
    edge = to_edge(
        {
            "step": torch.export.export(counter, (torch.ones(3),)),
            "read": torch.export.export(Reader(counter), ()),
        }
    )
    text = import_programs({name: edge.exported_program(name) for name in ("step", "read")}).program.text()
    assert len(re.findall(r"^buffer @", text, re.M)) == 1
    assert "= [0.0, 1.0, 2.0]" in text and "writes {buffer @" in text
    assert "constant @" not in text


def test_structures_and_plain_inputs():
    class Pair(NamedTuple):
        left: torch.Tensor
        right: torch.Tensor

    def forward(self, x, options, flag=None, *, scale=2.0):
        return {"sum": x + options["a"][0], "rest": Pair(x * scale, (7, None, "text", x))}

    inputs = (torch.randn(2), {"a": [torch.randn(2), 3]}, None)
    text = _text(Call(forward), inputs, {"scale": 3.0})
    head = _body(text).splitlines()[0]
    assert ": int" in head and ": none" in head and ": double" in head
    assert '\\"builtins.dict\\"' in text and "Pair" in text
    assert re.search(r'return %\w+, %\w+, 7, none, "text", %args_0', text)


def test_torchs_own_result_types_become_tuples():
    text = _text(Call(lambda self, x: {"best": x.max(0), "sorted": x.sort()}), (torch.randn(3, 2),))
    assert "builtins.tuple" in text and "return_types" not in text


def test_outputs_that_are_inputs_constants_or_twice_the_same():
    def forward(self, x):
        y = x + 1
        return x, y, y, self.kept

    text = _text(Call(forward, kept=torch.ones(2)), (torch.randn(2),))
    assert re.search(r"return %args_0, %add, %add, %kept", text)


def test_channels_last_inputs_are_converted_once():
    x = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last)
    text = _text(Call(lambda self, x: torch.relu(x) + x), (x,))
    assert "f32[1, 3, 4, 4] order(0, 2, 3, 1)" in text or "dim_order" in text or "(0, 2, 3, 1)" in text
    assert text.count("_to_dim_order_copy") == 1


def test_constant_methods():
    text = _text(
        nn.Linear(2, 2),
        (torch.randn(1, 2),),
        constant_methods={"max_len": 128, "names": ["a", 1.5, True, torch.ones(2)]},
    )
    assert "constant_method @max_len = (128)" in text
    assert 'constant_method @names = ("a", 1.5, true, "@names.3")' in text


def test_sources_and_module_paths():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

        def forward(self, x):
            return self.blocks(x) * 2

    text = _text(Outer(), (torch.randn(1, 2),))
    assert re.search(r"aten::mul.Tensor.*// fx: mul.*tests/python/export/test_importer\.py:\d+ forward", text)
    assert re.search(r"aten::linear.*in blocks\.0", text)


def test_handles_lead_back_to_fx():
    edge = to_edge(torch.export.export(nn.Linear(2, 2), (torch.randn(1, 2),))).exported_program()
    handles = import_programs({"forward": edge}).handles
    names = {node.name: node.meta["debug_handle"] for node in edge.graph.nodes if node.op == "call_function"}
    assert {(name, own) for _, name, own in handles.values()} == {(name, (handle,)) for name, handle in names.items()}


def test_control_flow_becomes_regions():
    def forward(self, x, k):
        return torch.cond(x.sum() > 0, lambda a: a * k, lambda a: torch.cond(k > 1, torch.sin, torch.cos, (a,)), (x,))

    text = _text(Call(forward), (torch.randn(3), torch.tensor(2)))
    assert text.count("region @") == 4


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (Call(lambda self, x: torch.view_as_complex(x)), (torch.randn(2, 2),), "complex"),
        (Call(lambda self, x: x + self.kept.to_dense(), kept=torch.eye(2).to_sparse()), (torch.randn(2, 2),), "dense"),
    ],
    ids=["complex_output", "sparse_buffer"],
)
def test_refusals_name_the_operator_and_line(model, inputs, message):
    with pytest.raises(NotSupportedError, match=message) as caught:
        _text(model, inputs)
    assert "method 'forward'" in str(caught.value)


def test_partly_overlapping_written_buffers_are_refused():
    memory = torch.zeros(4)

    def forward(self, x):
        self.a.add_(x)
        return self.b.sum()

    with pytest.raises(NotSupportedError, match=r"different views of one memory.*clone"):
        _text(Call(forward, a=memory[:2], b=memory[1:3]), (torch.ones(2),))
