"""What XNNPACKQuantizer, EmbeddingQuantizer and ExampleQuantizer say of a graph: the goldens of the patterns."""

import pytest
import torch
from executorch_py.quantizer import (
    ComposableQuantizer,
    EmbeddingQuantizer,
    ExampleQuantizer,
    SharedQuantizationSpec,
    XNNPACKQuantizer,
    quantization_config,
    quantize,
)
from executorch_py.quantizer.calibration.checks import QuantizationWarning
from executorch_py.quantizer.rules.loops import bodies_of
from executorch_py.quantizer.spec.config import PRESETS
from executorch_py.quantizer.spec.pt2e import ANNOTATION, MinMaxObserver
from torch import nn
from torch.nn import functional as F

from executorch_py import quantizer
from executorch_py.errors import InvalidArgumentError


def spec_text(spec) -> str:
    if spec is None:
        return "-"
    if isinstance(spec, SharedQuantizationSpec):
        source = spec.edge_or_node
        return f"as {source.name}" if isinstance(source, torch.fx.Node) else f"as {source[0].name}"
    bits = {(-128, 127): "i8", (-127, 127): "w8", (-8, 7): "w4", (-32767, 32767): "i16", (0, 255): "u8"}
    text = bits.get((spec.quant_min, spec.quant_max), str(spec.dtype).removeprefix("torch."))
    if spec.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine):
        text += f" by {spec.ch_axis}"
    if spec.qscheme == torch.per_channel_affine:
        text += " with zero points"
    return text + (" dynamic" if spec.is_dynamic else "")


def annotated(module, inputs, quantizer) -> list[str]:
    """A line for each annotated node: ``operator(input: spec, …) -> spec of the result``."""
    model = torch.export.export(module.eval(), inputs).module(check_guards=False)
    model = quantizer.transform_for_annotation(model)
    quantizer.annotate(model)
    quantizer.validate(model)
    lines = []
    names = dict(zip((node for node in model.graph.nodes if node.op == "placeholder"), "xyz", strict=False))
    for node in model.graph.nodes:
        annotation = node.meta.get(ANNOTATION)
        if annotation is not None:
            inputs_text = ", ".join(
                f"{names.get(n, n.name)}: {spec_text(s)}" for n, s in annotation.input_qspec_map.items()
            )
            lines.append(f"{node.name}({inputs_text}) -> {spec_text(annotation.output_qspec)}")
    return lines


def preset(name: str) -> XNNPACKQuantizer:
    return XNNPACKQuantizer().set_global(PRESETS[name]())


class Call(nn.Module):
    """A function, with layers that it may use."""

    def __init__(self, function, **layers) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *inputs):
        return self.function(self, *inputs)


IMAGE = torch.randn(2, 4, 8, 8)
ROWS = torch.randn(3, 8)
CONV = {"conv": nn.Conv2d(4, 4, 3, padding=1)}
LINEAR = {"fc": nn.Linear(8, 8)}

CASES = {
    "linear": (
        Call(lambda m, x: m.fc(x), **LINEAR),
        (ROWS,),
        ["linear(x: i8, fc_weight: w8 by 0) -> i8"],
    ),
    "linear_relu_as_a_unit": (
        Call(lambda m, x: F.relu(m.fc(x)), **LINEAR),
        (ROWS,),
        ["linear(x: i8, fc_weight: w8 by 0) -> -", "relu() -> i8"],
    ),
    "linear_whose_result_is_used_twice": (
        Call(lambda m, x: (F.relu(y := m.fc(x)), y), **LINEAR),
        (ROWS,),
        ["linear(x: i8, fc_weight: w8 by 0) -> i8", "relu(linear: as linear) -> as linear"],
    ),
    "conv_1d": (
        Call(lambda m, x: m.conv(x), conv=nn.Conv1d(4, 4, 3)),
        (torch.randn(2, 4, 9),),
        ["conv1d(x: i8, conv_weight: w8 by 0) -> i8"],
    ),
    "conv_bn_relu6_as_a_unit": (
        Call(lambda m, x: F.relu6(m.bn(m.conv(x))), bn=nn.BatchNorm2d(4), **CONV),
        (IMAGE,),
        ["conv2d(x: i8, conv_weight: w8 by 0) -> -", "batch_norm() -> -", "relu6() -> i8"],
    ),
    "batch_norm_behind_joined_tensors": (
        Call(lambda m, x: F.relu(m.bn(torch.cat([m.conv(x), m.conv(x)], 1))), bn=nn.BatchNorm2d(8), **CONV),
        (IMAGE,),
        [
            "conv2d(x: i8, conv_weight: w8 by 0) -> i8",
            "conv2d_1(x: i8, conv_weight: w8 by 0) -> i8",
            "cat(conv2d: i8, conv2d_1: as conv2d) -> as conv2d",
            "batch_norm(cat: i8, _folded_batch_norm_weight: w8 by 0) -> -",
            "relu() -> i8",
        ],
    ),
    "batch_norm_of_an_input": (Call(lambda m, x: m.bn(x), bn=nn.BatchNorm2d(4)), (IMAGE,), []),
    "conv_transposed": (
        Call(lambda m, x: m.up(x), up=nn.ConvTranspose2d(4, 6, 2)),
        (IMAGE,),
        ["conv_transpose2d(x: i8, up_weight: w8 by 1) -> i8"],
    ),
    "conv_transposed_in_groups_has_one_scale": (
        Call(lambda m, x: m.up(x), up=nn.ConvTranspose2d(4, 6, 2, groups=2)),
        (IMAGE,),
        ["conv_transpose2d(x: i8, up_weight: w8) -> i8"],
    ),
    "residual": (
        Call(lambda m, x: F.relu(m.conv(x) + x), **CONV),
        (IMAGE,),
        ["conv2d(x: i8, conv_weight: w8 by 0) -> i8", "add(conv2d: i8, x: i8) -> -", "relu() -> i8"],
    ),
    "in_place": (
        Call(lambda m, x: m.conv(x).add_(x).relu_(), **CONV),
        (IMAGE,),
        ["conv2d(x: i8, conv_weight: w8 by 0) -> i8", "add_(conv2d: i8, x: i8) -> -", "relu_() -> i8"],
    ),
    "followers": (
        Call(
            lambda m, x: torch.cat([y := F.max_pool2d(m.conv(x), 2), y * m.conv(x).mean((2, 3), True)], 1).flatten(1),
            **CONV,
        ),
        (IMAGE,),
        [
            "conv2d(x: i8, conv_weight: w8 by 0) -> i8",
            "max_pool2d(conv2d: as conv2d) -> as conv2d",
            "conv2d_1(x: i8, conv_weight: w8 by 0) -> i8",
            "mean(conv2d_1: i8) -> i8",
            "mul(max_pool2d: i8, mean: i8) -> i8",
            "cat(max_pool2d: i8, mul: as max_pool2d) -> as max_pool2d",
            "flatten(cat: as cat) -> as cat",
        ],
    ),
    "parts_and_paddings": (
        Call(
            lambda m, x: (
                [F.pad(part, (1, 1)) for part in m.conv(x).chunk(2, 1)] + [F.pad(m.conv(x), (1, 1), value=2.0)]
            ),
            **CONV,
        ),
        (IMAGE,),
        [
            "conv2d(x: i8, conv_weight: w8 by 0) -> i8",
            "chunk(conv2d: as conv2d) -> -",
            "getitem() -> as conv2d",
            "getitem_1() -> as conv2d",
            "pad(getitem: as getitem) -> as getitem",
            "pad_1(getitem_1: as getitem_1) -> as getitem_1",
            "conv2d_1(x: i8, conv_weight: w8 by 0) -> i8",
        ],
    ),
    "elements_of_several_tensors_and_zeros": (
        Call(
            lambda m, x, mask: (
                (y := torch.maximum(m.conv(x), m.conv(x))),
                torch.where(mask, y, 0).masked_fill(mask, 0.0),
                torch.cat([torch.zeros(2, 1, 8, 8), y], 1),
            ),
            **CONV,
        ),
        (IMAGE, torch.tensor([True] * 8)),
        [
            "conv2d(x: i8, conv_weight: w8 by 0) -> i8",
            "conv2d_1(x: i8, conv_weight: w8 by 0) -> i8",
            "maximum(conv2d: i8, conv2d_1: as conv2d) -> as conv2d",
            "where(maximum: i8) -> as maximum",
            "masked_fill(where: i8) -> as where",
            "cat(maximum: i8) -> as maximum",
        ],
    ),
    "largest_elements_and_their_places": (
        Call(lambda m, x: F.adaptive_max_pool2d(m.conv(x), 2, return_indices=True), **CONV),
        (IMAGE,),
        [
            "conv2d(x: i8, conv_weight: w8 by 0) -> i8",
            "adaptive_max_pool2d(conv2d: as conv2d) -> -",
            "getitem() -> as conv2d",
        ],
    ),
    "a_gate_behind_a_layer": (
        Call(lambda m, x: (F.glu(m.conv(x), 1), F.glu(x, 1)), **CONV),
        (IMAGE,),
        [
            "conv2d(x: i8, conv_weight: w8 by 0) -> i8",
            "slice_1(conv2d: as conv2d) -> as conv2d",
            "slice_2(conv2d: as conv2d) -> as conv2d",
            "mul(slice_1: i8, sigmoid: i8) -> i8",
        ],
    ),
    "zeros_beside_a_tensors_elements": (
        Call(lambda m, x: (m.conv(x).triu(1), F.unfold(m.conv(x), 3, padding=1), x.tril()), **CONV),
        (IMAGE,),
        [
            "conv2d(x: i8, conv_weight: w8 by 0) -> i8",
            "where(conv2d: i8) -> as conv2d",
            "conv2d_1(x: i8, conv_weight: w8 by 0) -> i8",
            "constant_pad_nd(conv2d_1: as conv2d_1) -> as conv2d_1",
            "im2col_1(constant_pad_nd: as constant_pad_nd) -> as constant_pad_nd",
        ],
    ),
    "numbers_that_hide_elements_are_no_integers": (
        Call(
            lambda m, x, mask: m.fc(m.fc(x).masked_fill(mask, -1e9).amax(0, True) + torch.where(mask, m.fc(x), 1.0)),
            **LINEAR,
        ),
        (ROWS, torch.tensor([True] * 8)),
        [
            "linear(x: i8, fc_weight: w8 by 0) -> i8",
            "linear_1(x: i8, fc_weight: w8 by 0) -> i8",
            "linear_2(add: i8, fc_weight: w8 by 0) -> i8",
        ],
    ),
    "left_alone": (
        Call(
            lambda m, x, mask: (
                m.fc(x) + mask.float(),  # a mask is no activation
                torch.softmax(x, -1) + torch.sigmoid(x),  # neither side is quantized
                m.fc(x) + 1,
                torch.add(m.fc(x), x, alpha=2),
                F.linear(x, x @ x.T @ x),  # a computed weight
            ),
            **LINEAR,
        ),
        (ROWS, torch.tensor([True] * 8)),
        [
            "linear(x: i8, fc_weight: w8 by 0) -> i8",
            "linear_1(x: i8, fc_weight: w8 by 0) -> i8",
            "linear_2(x: i8, fc_weight: w8 by 0) -> i8",
        ],
    ),
    "activation_between_layers": (
        Call(lambda m, x: m.conv(F.silu(m.conv(x)).flip(-1)), **CONV),
        (IMAGE,),
        [
            "conv2d(x: i8, conv_weight: w8 by 0) -> i8",
            "silu() -> i8",
            "flip(silu: as silu) -> as silu",
            "conv2d_1(flip: i8, conv_weight: w8 by 0) -> i8",
        ],
    ),
    "activation_in_front_of_floats": (
        Call(lambda m, x: (F.gelu(m.fc(x)).softmax(-1), F.silu(x)), **LINEAR),
        (ROWS,),
        ["linear(x: i8, fc_weight: w8 by 0) -> i8"],
    ),
    "functions_of_one_tensor": (
        Call(
            lambda m, x: (
                m.fc(0.5 * (y := m.fc(x)) * (1 + torch.tanh(0.8 * (y + 0.04 * y**3)))),
                m.fc(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)) * torch.sigmoid(x - x.abs()),
            ),
            **LINEAR,
        ),
        (ROWS,),
        [
            "linear(x: i8, fc_weight: w8 by 0) -> i8",
            "linear_1(mul_3: i8, fc_weight: w8 by 0) -> i8",
            "linear_2(mul_4: i8, fc_weight: w8 by 0) -> i8",
            "mul_5(linear_2: i8, sigmoid: i8) -> i8",  # two tensors meet: a gate
        ],
    ),
    "functions_of_any_pointwise_operators": (
        Call(
            lambda m, x: (m.fc((y := m.fc(x)) + torch.sin(y).square()), m.fc(y * torch.log2(y.abs() + 1.5))), **LINEAR
        ),
        (ROWS,),
        [
            "linear(x: i8, fc_weight: w8 by 0) -> i8",
            "linear_1(add: i8, fc_weight: w8 by 0) -> i8",
            "linear_2(mul: i8, fc_weight: w8 by 0) -> i8",
        ],
    ),
    "parts_in_floats_joined_for_floats_and_for_integers": (
        Call(
            lambda m, x: (
                torch.cat([m.fc(x), x.softmax(-1)], -1),
                m.wide(torch.cat([y := m.fc(x), y.softmax(-1)], -1)),
            ),
            wide=nn.Linear(16, 4),
            **LINEAR,
        ),
        (ROWS,),
        [
            "linear(x: i8, fc_weight: w8 by 0) -> i8",
            "linear_1(x: i8, fc_weight: w8 by 0) -> i8",
            "cat_1(linear_1: i8, softmax_1: as linear_1) -> as linear_1",
            "linear_2(cat_1: i8, wide_weight: w8 by 0) -> i8",
        ],
    ),
    "embedding": (
        Call(lambda m, i: m.fc(m.table(i)), table=nn.Embedding(10, 8), **LINEAR),
        (torch.tensor([1, 2]),),
        ["embedding(table_weight: w8 by 0) -> -", "linear(embedding: i8, fc_weight: w8 by 0) -> i8"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_static(name):
    module, inputs, expected = CASES[name]
    assert annotated(module, inputs, preset("static_int8")) == expected


@pytest.mark.parametrize("behind", ["dynamic_int8", "fp16", "int8_weight_only"])
def test_activation_in_front_of_a_layer_that_takes_floats(behind):
    choice = preset("static_int8").set_module_name("last", behind)
    lines = annotated(Call(lambda m, x: m.last(F.silu(m.fc(x))), last=nn.Linear(8, 8), **LINEAR), (ROWS,), choice)
    assert [line.split("(")[0] for line in lines] == ["linear", "linear_1"]


def test_dynamic_and_weight_only():
    module = Call(
        lambda m, x, y: (F.relu(m.fc(x)) + x, m.conv(y), m.deep(y)), deep=nn.Conv2d(4, 4, 3, groups=4), **LINEAR, **CONV
    )
    assert annotated(module, (ROWS, IMAGE), preset("dynamic_int8")) == [
        "linear(x: i8 dynamic, fc_weight: w8 by 0) -> -",
        "relu() -> -",
        "conv2d(y: i8 dynamic, conv_weight: w8 by 0) -> -",
    ]
    assert annotated(module, (ROWS, IMAGE), preset("int4_weight_only")) == [
        "linear(fc_weight: w4 by 0 with zero points) -> -",
        "relu() -> -",
        "conv2d(conv_weight: w4 by 0 with zero points) -> -",
        "conv2d_1(deep_weight: w4 by 0 with zero points) -> -",
    ]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_are_loops(kind):
    """The inputs of all steps are one product, and the state's product stands once, in the body."""
    module = Call(lambda m, x: m.cell(x)[0], cell=kind(4, 6, batch_first=True))
    x = (torch.randn(1, 3, 4),)
    lines = annotated(module, x, preset("dynamic_int8"))
    assert len(lines) == 1 and "cell_weight_ih_l0: w8 by 0" in lines[0], lines
    ((_, body),) = bodies_of(quantize(module.eval(), x, "dynamic_int8").graph_module)
    targets = [node.target for node in body.graph.nodes]
    assert targets.count(torch.ops.aten.linear.default) == 1
    assert targets.count(torch.ops.quantized_decomposed.dequantize_per_channel.default) == 1


@pytest.mark.parametrize(
    ("module", "x", "products"),
    [
        (nn.LSTM(4, 6, 2, bidirectional=True), torch.randn(5, 1, 4), 4),
        (nn.GRU(4, 6), torch.randn(5, 1, 4), 1),
        (nn.RNN(4, 6), torch.randn(5, 1, 4), 1),
        (nn.LSTM(4, 6, proj_size=3), torch.randn(5, 1, 4), 2),
    ],
)
def test_steps_of_a_recurrent_layer_have_one_scale(module, x, products):
    """Their body is measured on all of them."""
    data = [(torch.randn(5, 1, 4) * 2,) for _ in range(2)]
    loops = quantize(module.eval(), (x,), "static_int8", data).graph_module
    found = [node for _, body in bodies_of(loops) for node in body.graph.nodes]
    linear = [node for node in found if node.target is torch.ops.aten.linear.default]
    assert len(linear) == products
    for node in linear:
        result = next(iter(node.users))
        assert all("quantize_per_tensor" in str(one.target) for one in (node.args[0], result)), node
        assert all(isinstance(one.args[1], float) for one in (node.args[0], result))


def test_bodies_of_two_quantizers_keep_what_each_says():
    torch.manual_seed(0)

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LSTM(4, 6), nn.GRU(6, 6)

        def forward(self, x):
            return self.second(self.first(x)[0])[0]

    some = XNNPACKQuantizer().set_module_name("second", PRESETS["dynamic_int8"]())
    both = ComposableQuantizer([some, XNNPACKQuantizer().set_global("static_int8")])
    x = torch.randn(6, 1, 4)
    loops = quantize(Two().eval(), (x,), both, [(x,)]).graph_module
    kinds = []
    for _, body in bodies_of(loops):
        product = next(node for node in body.graph.nodes if node.target is torch.ops.aten.linear.default)
        kinds.append(isinstance(product.args[0].args[1], float))
    assert kinds == [True, False]


def test_attention_only_when_named():
    module = Call(lambda m, q, k: F.scaled_dot_product_attention(m.fc(q), m.fc(k), k), **LINEAR)
    inputs = (torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8))
    everywhere = annotated(module, inputs, preset("static_int8"))
    assert [line.split("(")[0] for line in everywhere] == ["linear", "linear_1"]
    named = preset("static_int8").set_operator_type(torch.ops.aten.scaled_dot_product_attention.default, "static_int8")
    named.set_operator_type(torch.ops.aten.matmul.default, "static_int8")
    lines = annotated(module, inputs, named)
    assert sum(line.startswith("matmul") for line in lines) == 2, lines


def test_products_of_matrices_only_when_named():
    module = Call(lambda m, x: torch.mm(m.fc(x), m.fc(x).t()), **LINEAR)
    named = preset("static_int8").set_operator_type(torch.ops.aten.mm.default, "static_int8")
    for chosen, expected in ((preset("static_int8"), 0), (named, 1)):
        lines = annotated(module, (torch.randn(5, 8),), chosen)
        assert sum(line.startswith("mm") for line in lines) == expected, lines


class Nested(nn.Module):
    """Two towers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.towers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.towers[0](x) + self.towers[1](x))


def test_the_most_particular_choice_counts():
    quantizer = (
        XNNPACKQuantizer()
        .set_global("static_int8")
        .set_module_name("towers.0", None)
        .set_module_name("head", quantization_config("int16"))
        .set_operator_type(torch.ops.aten.add.Tensor, None)
    )
    assert annotated(Nested(), (ROWS,), quantizer) == [
        "linear_1(x: i8, towers_1_0_weight: w8 by 0) -> i8".replace("-> i8", "-> -"),
        "relu_1() -> i8",
        "linear_2(add: i16, head_weight: w8 by 0) -> i16",
    ]
    by_type = XNNPACKQuantizer().set_module_type(nn.Sequential, "dynamic_int8")
    assert [line.split("(")[0] for line in annotated(Nested(), (ROWS,), by_type)] == [
        "linear",
        "relu",
        "linear_1",
        "relu_1",
    ]
    filtered = preset("static_int8").set_filter_function(lambda node: "head" in str(node.meta.get("nn_module_stack")))
    assert [line.split("(")[0] for line in annotated(Nested(), (ROWS,), filtered)] == ["linear_2"]


def test_half_precision_takes_chains():
    assert annotated(Nested(), (ROWS,), preset("fp16")) == [
        "linear(x: float16, towers_0_0_weight: float16, towers_0_0_bias: float16) -> -",
        "relu() -> float16",
        "linear_1(x: float16, towers_1_0_weight: float16, towers_1_0_bias: float16) -> -",
        "relu_1() -> float16",
        "add(relu: float16, relu_1: float16) -> float16",
        "linear_2(add: float16, head_weight: float16, head_bias: float16) -> float16",
    ]


def test_quantizers_compose():
    module, inputs, _ = CASES["embedding"]
    both = ComposableQuantizer([EmbeddingQuantizer("int4", group_size=4), preset("dynamic_int8")])
    assert annotated(module, inputs, both) == [
        "embedding(table_weight: w4 by 0) -> -",
        "linear(embedding: i8 dynamic, fc_weight: w8 by 0) -> -",
    ]


def test_example():
    module = Call(
        lambda m, x, y: (F.softmax(F.relu(m.conv(F.interpolate(x, scale_factor=2.0))), 1), F.relu(m.fc(y)), m.fc(y)),
        **CONV,
        **LINEAR,
    )
    assert annotated(module, (IMAGE, ROWS), ExampleQuantizer()) == [
        "conv2d(upsample_nearest2d: i8, conv_weight: w8 by 0) -> i8",
        "linear(y: i8, fc_weight: w8 by 0) -> -",
        "relu_1() -> i8",
        "linear_1(y: i8, fc_weight: w8 by 0) -> i8",
    ]


def test_a_module_that_nothing_computes_so_is_named():
    model = nn.Sequential(nn.Conv2d(4, 8, 3, groups=2), nn.Conv2d(8, 8, 1)).eval()
    chosen = XNNPACKQuantizer().set_module_name("0", "dynamic_int8").set_module_name("1", "dynamic_int8")
    with pytest.warns(QuantizationWarning, match=r"'0' stays as it is.*conv2d.*groups") as said:
        quantize(model, (torch.randn(1, 4, 8, 8),), chosen)
    assert len([one for one in said if "stays as it is" in str(one.message)]) == 1


class _Says(quantizer.Quantizer):
    """Annotates as the test wants it."""

    def __init__(self, says) -> None:
        super().__init__()
        self._says = says

    def annotate(self, model):
        self._says({"x" if node.op == "placeholder" else node.name: node for node in model.graph.nodes})
        return model

    def validate(self, model) -> None:
        pass


def _annotated(node, inputs=None, output=None) -> None:
    node.meta["quantization_annotation"] = quantizer.QuantizationAnnotation(inputs or {}, output, _annotated=True)


def _nowhere(nodes) -> None:
    _annotated(nodes["relu"], output=quantizer.SharedQuantizationSpec(nodes["linear"]))


def _missing_edge(nodes) -> None:
    linear = nodes["linear"]
    _annotated(nodes["relu"], {linear: quantizer.SharedQuantizationSpec((nodes["x"], linear))})


def _circle(nodes) -> None:
    _annotated(nodes["linear"], output=quantizer.SharedQuantizationSpec(nodes["relu"]))
    _annotated(nodes["relu"], output=quantizer.SharedQuantizationSpec(nodes["linear"]))


def _derived_from_nothing(nodes) -> None:
    spec = quantizer.DerivedQuantizationSpec(
        [(nodes["x"], nodes["linear"])], lambda observers: (torch.ones(1), torch.zeros(1)), torch.int32
    )
    _annotated(nodes["relu"], output=spec)


@pytest.mark.parametrize("says", [_nowhere, _missing_edge, _circle, _derived_from_nothing])
def test_scales_shared_with_nobody_are_told(says):
    """torchao has an assertion, a KeyError or a recursion without end for these."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    example = (torch.randn(2, 4),)
    with pytest.raises(InvalidArgumentError, match=r"(aten\.relu|aten\.linear).*node '.*QuantizationSpec"):
        exported = torch.export.export(model, example).module()
        quantizer.prepare_pt2e(exported, _Says(says))
    with pytest.raises(InvalidArgumentError, match="has its scale from"):
        quantizer.prepare(model, example, _Says(says))


class _Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("small", torch.randn(2, 8) * 0.1)

    def forward(self, x):
        return torch.cat([self.small, x], 1)


@pytest.mark.parametrize("owner", [0, 1])
def test_a_constant_shares_the_scale_of_an_activation(owner):
    """Its observer sees all samples, whichever of the two it was made for."""

    def says(nodes) -> None:
        cat = nodes["cat"]
        first, second = (cat.args[0][owner], cat.args[0][1 - owner])
        spec = quantizer.QuantizationSpec(
            dtype=torch.int8,
            observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=2**-12),
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_tensor_affine,
        )
        shared = quantizer.SharedQuantizationSpec((first, cat))
        _annotated(cat, {first: spec, second: shared}, shared)

    model = _Joined().eval()
    samples = [(torch.randn(2, 8) * 0.1,), (torch.randn(2, 8) * 30,)]
    program = quantize(model, samples[0], _Says(says), samples)
    difference = (program.module()(*samples[1]) - model(*samples[1])).abs().max()
    assert difference < samples[1][0].abs().max() / 100
