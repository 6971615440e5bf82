"""Linear layers that a model writes another way: which products with a constant become linear, and which stay what they
are.
"""

import copy

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.quantizer.rules.linear_forms import as_linear
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidStateError
from executorch_py.graphs.sources import source_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

aten = torch.ops.aten
GENERATOR = torch.Generator().manual_seed(7)


def rand(*sizes):
    return torch.randn(*sizes, generator=GENERATOR)


class Form(nn.Module):
    """A function of an input and of parameters."""

    def __init__(self, call, w=None, b=None) -> None:
        super().__init__()
        self.call = call
        self.w, self.b = (None if one is None else nn.Parameter(one) for one in (w, b))

    def forward(self, x):
        return self.call(x, self.w, self.b)


X, ROWS, IMAGE = rand(2, 5, 8), rand(6, 8), rand(2, 8, 3, 4)
W, TURNED, B, HEADS = rand(8, 6), rand(6, 8), rand(6), rand(8, 3, 4)

#: name -> what the model does, input, weight, bias, views around the linear layer.
FORMS = {
    "addmm": (lambda x, w, b: torch.addmm(b, x.view(-1, 8), w).view(2, 5, 6), X, W, B, 2),
    "addmm_scaled": (lambda x, w, b: torch.addmm(b, x, w, beta=0.5, alpha=2.0), ROWS, W, B, 0),
    "addmv": (lambda x, w, b: torch.addmv(b, w, x, alpha=2.0), rand(8), TURNED, B, 0),
    "mm": (lambda x, w, b: torch.mm(x, w), ROWS, W, None, 0),
    "matmul": (lambda x, w, b: x @ w + b, X, W, B, 0),
    "matmul_turned": (lambda x, w, b: x @ w.T + b, X, TURNED, B, 0),
    "matmul_t": (lambda x, w, b: x @ w.t(), X, TURNED, None, 0),
    "sum_in_front": (lambda x, w, b: b + x @ w, X, W, B, 0),
    "sum_scaled": (lambda x, w, b: torch.add(x @ w, b, alpha=-2), X, W, B, 0),
    "sum_behind_a_view": (lambda x, w, b: (x.view(-1, 8) @ w).view(2, 5, 6) + b, X, W, rand(1, 1, 6), 2),
    "bias_made_later": (lambda x, w, b: x @ w + (2 * b).neg(), X, W, B, 0),
    "one_bias_for_all": (lambda x, w, b: x @ w + b, X, W, rand(1), 0),
    "left": (lambda x, w, b: w @ x + b[:, None], X, rand(6, 5), B, 2),
    "vector": (lambda x, w, b: x @ w, X, rand(8), None, 1),
    "expanded": (lambda x, w, b: torch.bmm(x, w.expand(2, -1, -1)), X, rand(1, 8, 6), None, 0),
    "baddbmm": (lambda x, w, b: torch.baddbmm(b, x, w.expand(2, -1, -1)), X, W, B, 0),
    "inner": (lambda x, w, b: torch.inner(x, w), X, TURNED, None, 0),
    "tensordot": (lambda x, w, b: torch.tensordot(x, w, dims=1), X, W, None, 0),
    "tensordot_heads": (lambda x, w, b: torch.tensordot(x.view(2, 5, 2, 4), w, ([2, 3], [0, 1])), X, rand(2, 4, 6),
                        None, 2),
    "einsum": (lambda x, w, b: torch.einsum("bti,io->bto", x, w), X, W, None, 0),
    "einsum_turned": (lambda x, w, b: torch.einsum("bti,oi->bto", x, w) + b, X, TURNED, B, 0),
    "einsum_weight_first": (lambda x, w, b: torch.einsum("oi,...i->...o", w, x), X, TURNED, None, 0),
    "einsum_implicit": (lambda x, w, b: torch.einsum("bti,io", x, w), X, W, None, 1),
    "einsum_to_heads": (lambda x, w, b: torch.einsum("btd,dhk->bhtk", x, w) + b[:, None], X, HEADS, rand(3, 4), 2),
    "einsum_of_heads": (
        lambda x, w, b: torch.einsum("bthk,hkd->btd", x.view(2, 5, 2, 4), w) + b, X, rand(2, 4, 6), B, 2
    ),
    "einsum_of_pixels": (lambda x, w, b: torch.einsum("bihw,io->bohw", x, w), IMAGE, W, None, 2),
    "one_input_for_heads": (lambda x, w, b: x.unsqueeze(1) @ w, X, rand(3, 8, 4), None, 4),
    "masked": (lambda x, w, b: x @ (w * torch.tril(torch.ones(8, 6))), X, W, None, 0),
    "a_part": (lambda x, w, b: x @ w[:, :4] + b[:4], X, W, B, 0),
}  # fmt: skip


def written(model, x, wanted=lambda node: True, **options) -> torch.fx.GraphModule:
    module = torch.export.export(model.eval(), (x,), **options).module(check_guards=False)
    return as_linear(module, wanted)


def operators(module) -> list[str]:
    """Operators of what depends on the input."""
    depends: set[torch.fx.Node] = set()
    for node in module.graph.nodes:
        if node.op == "placeholder" or depends & set(node.all_input_nodes):
            depends.add(node)
    found = [node for node in module.graph.nodes if node in depends and node.op == "call_function"]
    return [node.target._schema.name.split("::")[1] for node in found]


def loaded(program, delegated=False):
    manager = et.to_edge_transform_and_lower(
        program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else []
    )
    return et.Runtime.get().load_program(manager.to_executorch().buffer).load_method("forward")


def noise(exact, got) -> float:
    """Of the signal's power."""
    return float((got - exact).square().mean() / exact.square().mean())


@pytest.mark.parametrize("name", FORMS)
def test_forms_become_linear(name):
    call, x, w, b, views = FORMS[name]
    model = Form(call, w, b)
    module = written(model, x)
    found = operators(module)
    assert found.count("linear") == 1 and len(found) == 1 + views, found
    torch.testing.assert_close(module(x), model(x), atol=2e-5, rtol=1e-5)
    for node in module.graph.nodes:
        if node.op == "call_function":
            assert node.meta["val"].shape is not None and source_of(node).line, node.format_node()
            if node.target is aten.linear.default:
                assert len(node.args) == 2 + (b is not None)
                rows, columns = node.args[1].meta["val"].shape
                assert (rows, columns) == (node.meta["val"].shape[-1], node.args[0].meta["val"].shape[-1])


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "int8_weight_only", "int4_weight_only", "fp16"])
def test_forms_are_quantized(preset, delegated):
    for name in ("addmm", "sum_scaled", "left", "einsum_to_heads", "masked"):
        call, x, w, b, _ = FORMS[name]
        model = Form(call, w, b).eval()
        program = quantizer.quantize(model, (x,), preset, [(x,)] if preset == "static_int8" else None)
        reference = program.module()(x)
        assert noise(model(x), reference) < (0.03 if "int4" in preset else 1e-3), name
        (got,) = loaded(program, delegated).execute((x,))
        # The delegate quantizes each row at run time, eager the whole tensor.
        assert noise(model(x), got) < 1.3 * noise(model(x), reference) + 1e-7, name
        assert delegated or noise(reference, got) < 1e-4, name


def rotations(x, w, b):
    return x.unsqueeze(-1) @ w[None, None]


LEFT_AS_THEY_ARE = {
    "activations": (lambda x, w, b: x @ x.mT + w.sum(), X, W),
    "a_matrix_for_each": (lambda x, w, b: torch.bmm(x, w), X, rand(2, 8, 6)),
    "outer": (rotations, X, rand(1, 6)),
    "lookup": (lambda x, w, b: F.one_hot(x, 8).float() @ w, torch.tensor([[1, 7], [0, 3]]), W),
    "diagonal": (lambda x, w, b: torch.einsum("bti,ii->bti", x, w), X, rand(8, 8)),
    "summed_out": (lambda x, w, b: torch.einsum("bti,io->bo", x, w), X, W),
    "three": (lambda x, w, b: torch.einsum("bti,io,op->btp", x, w, w.T), X, W),
    "double": (lambda x, w, b: x.double() @ w.double(), X, W),
    "made_once": (lambda x, w, b: x.sum() + torch.zeros(2, 8) @ w, X, W),
}


@pytest.mark.parametrize("name", LEFT_AS_THEY_ARE)
def test_others_stay(name):
    call, x, w = LEFT_AS_THEY_ARE[name]
    model = Form(call, w)
    before = operators(torch.export.export(model.eval(), (x,)).module(check_guards=False))
    assert operators(written(model, x)) == before


def test_what_is_added_stays_where_it_is_no_bias():
    for b in (rand(5, 1), rand(5, 6), rand(3, 2, 5, 6)):  # of the batch, and one that makes the result larger
        found = operators(written(Form(lambda x, w, b: x @ w + b, W, b), X))
        assert found == ["linear", "add"], b.shape
    found = operators(written(Form(lambda x, w, b: (y := x @ w) + b + y, W, B), X))
    assert found == ["linear", "add", "add"]
    found = operators(written(Form(lambda x, w, b: torch.addmm(x[:, :6], x, w), W), ROWS))
    assert sorted(found) == ["add", "linear", "slice"]


class Kept(nn.Module):
    """A weight that each call changes: no constant."""

    def __init__(self, call) -> None:
        super().__init__()
        self.call, self.head = call, nn.Linear(8, 8)
        self.register_buffer("state", rand(8, 8))

    def forward(self, x):
        y = self.call(self.head(x), self.state)
        self.state.mul_(0.5)
        return y


@pytest.mark.parametrize("call", [lambda x, w: x @ w, lambda x, w: F.linear(x, w)], ids=["matmul", "linear"])
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8"])
def test_weights_that_a_model_writes_are_no_constants(call, preset):
    model, x = Kept(call).eval(), rand(3, 8)
    program = quantizer.quantize(copy.deepcopy(model), (x,), preset, [(x,)])
    module = program.module()
    method = loaded(program)
    for turn in range(3):
        exact = model(x)
        assert noise(exact, module(x)) < 1e-3, turn
        assert noise(exact, method.execute((x,))[0]) < 1e-3, turn


class Conv1D(nn.Module):
    """GPT-2's layer."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(rand(columns, rows) / columns**0.5), nn.Parameter(rand(rows))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.size()[:-1], -1)


class Twice(nn.Module):
    """One weight, read by two layers, and turned by a third."""

    def __init__(self, turned: bool) -> None:
        super().__init__()
        self.first, self.turned = Conv1D(256, 256), turned

    def forward(self, x):
        x = self.first(torch.tanh(self.first(x)))
        return x @ self.first.weight.T if self.turned else x


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "int4_weight_only"])
def test_a_weight_of_several_products_is_there_once(preset, delegated):
    x = rand(1, 4, 256)
    sizes = []
    for turned in (False, True):
        program = quantizer.quantize(Twice(turned).eval(), (x,), preset, [(x,)] if preset == "static_int8" else None)
        edge = et.to_edge_transform_and_lower(
            program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else []
        )
        sizes.append(len(edge.to_executorch().buffer))
    weight = 256 * 256 * (0.6 if "int4" in preset else 1)
    assert sizes[0] < 1.05 * weight + 16384, sizes
    assert sizes[1] < 2.1 * weight + 16384, sizes  # the other way around its scales are others: two at most


@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8"])
def test_dynamic_sizes(preset):
    model, x = nn.Sequential(Conv1D(16, 24), nn.GELU(), Conv1D(24, 8)).eval(), rand(2, 5, 16)
    shapes = ({0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("length", max=32)},)
    program = quantizer.quantize(model, (x,), preset, [(x,)], dynamic_shapes=shapes)
    assert et.count_macs(program, (x,)).share() == 1
    method = loaded(program)
    for sizes in ((2, 5), (7, 31), (1, 1)):
        other = rand(*sizes, 16)
        got = method.execute((other,))[0]
        assert noise(program.module()(other), got) < 1e-3 and noise(model(other), got) < 0.05, sizes


def test_choices_by_name_and_by_operator_hold():
    model, x = nn.Sequential(Conv1D(16, 24), nn.ReLU(), Conv1D(24, 8)).eval(), rand(2, 5, 16)

    def products(choice) -> list[str]:
        program = quantizer.quantize(model, (x,), choice)
        return [f"{row.op} {row.numbers}" for row in et.count_macs(program, (x,)).layers]

    chosen = quantizer.XNNPACKQuantizer().set_global("dynamic_int8")
    assert products(chosen) == ["linear integer"] * 2
    assert products(chosen.set_module_name("0", None)) == ["addmm float", "linear integer"]
    by_operator = quantizer.XNNPACKQuantizer().set_operator_type(aten.addmm.default, "dynamic_int8")
    assert products(by_operator) == ["linear integer"] * 2
    as_layers = quantizer.XNNPACKQuantizer().set_operator_type(aten.linear, "int8_weight_only")
    assert products(as_layers) == ["linear weight-only"] * 2
    without = quantizer.XNNPACKQuantizer().set_global("dynamic_int8").set_operator_type(aten.addmm, None)
    with pytest.raises(InvalidStateError, match="found nothing"):
        products(without)
    program = quantizer.quantize(model, (x,), chosen)
    places = [source_of(node) for node in program.graph.nodes if node.target is aten.linear.default]
    assert [place.module_path for place in places] == ["2"] and places[0].file.endswith("test_linear_forms.py")


def test_training_reaches_the_weight():
    torch.manual_seed(0)
    model, x = nn.Sequential(Conv1D(16, 24), nn.ReLU(), Conv1D(24, 8)).eval(), rand(32, 1, 16)
    aim = model(x).detach()
    before = model[0].weight.detach().clone()
    prepared = quantizer.prepare_qat(model, (x,))
    optimizer = torch.optim.SGD(prepared.parameters(), lr=1e-2)
    for _ in range(5):
        loss = (prepared(x) - aim).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    prepared.eval()
    program = quantizer.convert(prepared)
    assert et.count_macs(program, (x,)).share() == 1
    assert not torch.equal(dict(prepared.named_parameters())["0.weight"], before)
    (got,) = loaded(program).execute((x,))
    assert noise(program.module()(x), got) < 1e-4 and noise(aim, got) < 1e-2


def test_candidates_and_accuracy_control_see_the_layers():
    model, data = nn.Sequential(Conv1D(16, 24), nn.ReLU(), Conv1D(24, 8)).eval(), [(rand(2, 5, 16),) for _ in range(3)]
    candidates = quantizer.Candidates.of(model, data[0], "static_int8", data)
    assert [layer.name for layer in candidates.layers] == ["0", "2"]
    alone = candidates.module(float_layers=["0", "2"])
    torch.testing.assert_close(alone(*data[0]), model(*data[0]), atol=1e-5, rtol=1e-5)
