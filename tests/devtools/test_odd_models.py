"""Every tool on models none of the usual: empty, of odd names, without source, with state, branches, other files.

What a model calls itself is text of a user: it stands in pages and tables as it is, and never becomes markup.
"""

import io
import json
import random

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py.devtools import Inspector, compare, compare_with_aten, first_divergence, memory_report
from executorch_py.lowering.config import ExecutorchBackendConfig

MARKUP = "<script>alert(1)</script>'&"


class Identity(nn.Module):
    def forward(self, x):
        return x


class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(3))

    def forward(self, x):
        return self.table


class NoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self):
        return self.weight * 2


class Named(nn.Module):
    """Layers of these names, one after the other."""

    def __init__(self, *names):
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(4, 4) for name in names})

    def forward(self, x):
        for layer in self.layers.values():
            x = torch.sin(layer(x))
        return x


class Lambda(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.after = lambda x: torch.sin(x) * 2

    def forward(self, x):
        return self.after(self.layer(x))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("sum", torch.zeros(4))

    def forward(self, x):
        self.sum.add_(x.sum(0))
        return self.layer(x) + self.sum


class OtherResults(nn.Module):
    def forward(self, x, *, scale):
        return {"place": x.argmax(-1), "mask": x > 0, "bytes": (x * 10).to(torch.int8), "nested": [x, (scale * 2,)]}


class NotNumbers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.log(self.layer(x)), self.layer(x) / 0 * 0


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: torch.sin(self.first(x)), lambda x: torch.cos(self.second(x)), (x,))


def without_source():
    """A model whose code is in no file."""
    names = {"nn": nn, "torch": torch, "__name__": "made"}
    text = "class Made(nn.Linear):\n    def forward(self, x):\n        return torch.sin(super(Made, self).forward(x))\n"
    exec(text, names)
    return names["Made"](4, 4)


ROWS = (torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),)
MODELS = {
    "identity": (Identity(), ROWS, {}),
    "constant": (Constant(), ROWS, {}),
    "no_inputs": (NoInputs(), (), {}),
    "names": (Named("a-b", "ü n", MARKUP, "1", "//", "x" * 500), ROWS, {}),
    "markup_class": (type(MARKUP + "\n", (Named,), {})("a"), ROWS, {}),
    "lambda": (Lambda(), ROWS, {}),
    "without_source": (without_source(), ROWS, {}),
    "state": (Counter(), ROWS, {}),
    "other_results": (OtherResults(), ROWS, {"scale": torch.ones(2)}),
    "not_numbers": (NotNumbers(), ROWS, {}),
    "branch": (Branch(), ROWS, {}),
    "no_elements": (nn.Tanh(), (torch.zeros(0, 4),), {}),
    "scalar": (nn.Tanh(), (torch.tensor(0.5),), {}),
    "float64": (nn.Linear(4, 4).double(), (ROWS[0].double(),), {}),
    "recurrent": (nn.GRU(4, 5), ROWS, {}),
}
FLOWS = {
    "kernels": ([], ExecutorchBackendConfig()),
    "delegated": ([XnnpackPartitioner(largest=True)], ExecutorchBackendConfig()),
    "other_file": ([], ExecutorchBackendConfig(external_constants=True)),
}


def lowered(name, flow):
    model, args, kwargs = MODELS[name]
    partitioner, config = FLOWS[flow]
    exported = torch.export.export(model.eval(), args, kwargs)
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner, generate_etrecord=True)
    return edge.to_executorch(config)


def profiled(program, leaves, folder):
    paths = []
    if program.backend_config.external_constants:
        paths = program.write_tensor_data_to_file(folder)
    loaded = et.Runtime.get().load_program(
        program.buffer, data_path=paths or None, enable_etdump=True, debug_buffer_size=1 << 20
    )
    method = loaded.load_method("forward")
    for _ in range(2):
        method.execute(leaves)
    return loaded


def is_text(page):
    assert "<script>alert" not in page


@pytest.mark.filterwarnings("ignore:The tensor attributes")
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("name", MODELS)
def test_every_tool(name, flow, tmp_path):
    pytest.importorskip("pandas")
    model, args, kwargs = MODELS[name]
    program = lowered(name, flow)
    leaves = torch.utils._pytree.tree_leaves((args, kwargs))
    loaded = profiled(program, leaves, tmp_path)
    program.get_etrecord().save(tmp_path / "a.etrecord")
    inspector = Inspector.of(loaded, tmp_path / "a.etrecord")
    memory = memory_report(program, try_options=True)
    for one in (inspector, Inspector.of(loaded)):
        one.save_data_to_tsv(tmp_path / "a.tsv")
        opened = io.StringIO()
        one.save_data_to_tsv(opened)
        assert (tmp_path / "a.tsv").read_text() == opened.getvalue()
        json.loads(one.to_json(), parse_constant=pytest.fail)
        one.to_chrome_trace(tmp_path / "a.json")
        json.loads((tmp_path / "a.json").read_text(), parse_constant=pytest.fail)
        one.to_html(tmp_path / "a.html", title=MARKUP, memory=memory)
        is_text((tmp_path / "a.html").read_text())
        assert len(one.to_dataframe()) == sum(len(block.events) for block in one.event_blocks)
    runs = [block for block in inspector.event_blocks if block.method]
    assert [block.method for block in runs] == ["forward"]
    for profile in (inspector.by_line(), inspector.by_module(), inspector.by_operator(), inspector.roofline()):
        is_text(profile._repr_html_())
        assert str(profile)
    if name not in ("identity", "constant", "no_inputs"):
        inspector.calculate_numeric_gap("SNR")
        assert any(row.key == "" for row in inspector.by_module().rows)  # the model itself
    elif name != "no_inputs":
        assert "no instruction was recorded" in str(inspector.by_line())
    for one in (program, loaded, inspector, memory, program.get_etrecord(), *inspector.event_blocks):
        is_text(one._repr_html_() if hasattr(one, "_repr_html_") else repr(one))
    assert first_divergence(program, model, args, kwargs=kwargs) is None
    assert compare_with_aten(program, args, kwargs=kwargs).passed
    compare(program, program, leaves)


def test_modules_of_odd_names():
    """The compiler's text quotes such names; the report has them as the user wrote them."""
    made = random.Random(5)
    names = {"".join(made.choices("ab ,:;-_/\\'<>&%@(){}[]#=ü\t\u2028雪", k=made.randint(1, 9))) for _ in range(40)}
    model = Named(*names).eval()
    program = et.to_edge_transform_and_lower(torch.export.export(model, ROWS)).to_executorch()
    lives = memory_report(program).lives
    assert {f"layers.{name}" for name in names} <= {life.tensor.fqn for life in lives}
    lines = {life.tensor.file_and_line_num.partition(":")[0] for life in lives} - {""}
    assert lines == {"tests/devtools/test_odd_models.py"}


@pytest.mark.parametrize("name", ['a"b', "a\nb", "in", "code"])
def test_names_of_which_pytorch_makes_no_module(name):
    """Parameters below them are named anew where a program becomes a module."""
    model = Named(name).eval()
    program = et.to_edge_transform_and_lower(torch.export.export(model, ROWS)).to_executorch()
    memory_report(program)
    assert first_divergence(program, model, ROWS) is None


class Part(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(4, size)

    def forward(self, x):
        return torch.relu(self.layer(x))


@pytest.mark.parametrize("flow", FLOWS)
def test_methods_with_the_same_instructions(flow, tmp_path):
    """Each execution is told of the method that ran, though their events are the same."""
    partitioner, config = FLOWS[flow]
    parts = {'encode (fast) "q"': Part(4).eval(), "decode": Part(4).eval()}
    exported = {name: torch.export.export(part, ROWS) for name, part in parts.items()}
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner, generate_etrecord=True)
    program = edge.to_executorch(config)
    paths = program.write_tensor_data_to_file(tmp_path) if flow == "other_file" else None
    loaded = et.Runtime.get().load_program(
        program.buffer, data_path=paths, enable_etdump=True, debug_buffer_size=1 << 16
    )
    for name in (*parts, *parts):
        loaded.load_method(name).execute(ROWS)
    inspector = Inspector.of(loaded, program.get_etrecord())
    told = {block.method: len(block.events[0].perf_data.raw) for block in inspector.event_blocks if block.method}
    assert told == dict.fromkeys(parts, 2)
    for name, part in parts.items():
        assert first_divergence(program, part, ROWS, method=name) is None
        assert memory_report(program, method=name).method == name


def test_an_etdump_of_a_method_that_the_record_has_not():
    part = Part(4).eval()
    exported = torch.export.export(part, ROWS)
    one = et.to_edge_transform_and_lower({"one": exported}, generate_etrecord=True).to_executorch()
    two = et.to_edge_transform_and_lower({"two": exported}, generate_etrecord=True).to_executorch()
    loaded = et.Runtime.get().load_program(one.buffer, enable_etdump=True)
    loaded.load_method("one").execute(ROWS)
    with pytest.raises(et.InvalidArgumentError, match="method 'two' is not 'one', which ran"):
        Inspector.of(loaded, two.get_etrecord())
