"""What a newcomer adds by following docs/how-to: an operator, a vector kernel, a fused and a quantizer pattern.

Each stands in at most three files besides its test. test_additions.py applies all of them to a copy of the tree.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Addition:
    """Changes of files.

    Attributes:
        page: The page of docs/how-to that says how.
        edits: (file, text that it has once, what that becomes); nothing becomes the whole of a new file.
        test: The same for the test that the page asks for; () where tests that are there find the addition.
        script: What a user of the addition runs.
    """

    page: str
    edits: tuple[tuple[str, str, str], ...]
    test: tuple[tuple[str, str, str], ...]
    script: str

    @property
    def files(self) -> set[str]:
        """The files that it needs, but for its test."""
        return {file for file, _, _ in self.edits}

    def apply(self, texts: dict[str, str]) -> None:
        """Changes the texts of a tree's files. Raises ValueError for a text that is not there, or not once."""
        for file, old, new in (*self.edits, *self.test):
            text = texts.get(file, "")
            if (text.count(old) != 1) if old else text:
                raise ValueError(f"{file}: {old!r} is there {text.count(old)} times, must be once; adapt the addition")
            texts[file] = text.replace(old, new) if old else new.lstrip("\n")


OPERATOR = Addition(
    page="add_operator.md",
    edits=(
        (
            "src/cpp/ops/ops.yaml",
            '- schema: "aten::logcumsumexp(',
            """\
- schema: "aten::logaddexp2(Tensor self, Tensor other) -> Tensor"
  out: "aten::logaddexp2.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"
  kernel: op_logaddexp2.cpp
  dtypes: float
  tags: [pointwise]
  keep: "one pass over the data instead of several"
- schema: "aten::logcumsumexp(""",
        ),
        (
            "src/cpp/kernels/portable/op_logaddexp2.cpp",
            "",
            """
// The logarithm to base 2 of a sum of powers of 2.
#include "kernels/portable/op_logaddexp2.h"

#include <cmath>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {

Error logaddexp2_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  const ScalarType common = to_floating(result_type({&self, &other}));
  ET_RETURN_IF_ERROR(check_can_cast("aten::logaddexp2", common, out.scalar_type()));
  return dispatch_float(common, [&](auto zero) {
    using C = decltype(zero);
    const auto sum = [](C a, C b) {
      return std::isinf(a) && a == b
                 ? a
                 : maximum(a, b) + std::log1p(std::exp2(-std::abs(a - b))) * C(1.4426950408889634);
    };
    return elementwise<C>(context, "aten::logaddexp2", common, out, sum, self, other);
  });
}

}  // namespace et::kernels::portable
""",
        ),
    ),
    test=(),  # PyTorch's database has samples
    script="""
import torch
import executorch_py as et

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.logaddexp2(x, x * 2)

x = torch.linspace(-5, 5, 101)
program = et.to_edge_transform_and_lower(torch.export.export(Model(), (x,))).to_executorch()
assert "aten::logaddexp2.out" in program.dump(), program.dump()
method = et.Runtime.get().load_program(program.buffer).load_method("forward")
torch.testing.assert_close(method.execute((x,))[0], Model()(x))
""",
)

VECTOR_KERNEL = Addition(
    page="add_operator.md",
    edits=(
        (
            "src/cpp/kernels/optimized/pointwise/pairs.cpp",
            '#include "ops/signatures/portable/op_binary.h"\n',
            '#include "ops/signatures/portable/op_binary.h"\n#include "ops/signatures/portable/op_logaddexp2.h"\n',
        ),
        (
            "src/cpp/kernels/optimized/pointwise/pairs.cpp",
            "PairLoops Atan2Loops()",
            """\
struct LogAddExp2 {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    using T = hn::TFromD<D>;
    const V log_2 = hn::Set(d, static_cast<T>(0.69314718055994531));
    const V sum = LogAddExp()(d, hn::Mul(a, log_2), hn::Mul(b, log_2));
    return hn::Mul(sum, hn::Set(d, static_cast<T>(1.4426950408889634)));
  }
};

PairLoops LogAddExp2Loops() { return number_loops<LogAddExp2>(); }
PairLoops Atan2Loops()""",
        ),
        (
            "src/cpp/kernels/optimized/pointwise/pairs.cpp",
            'ET_PAIR_OPERATOR(Atan2, "aten::atan2", kTranscendental)\n',
            """\
ET_PAIR_OPERATOR(Atan2, "aten::atan2", kTranscendental)
ET_PAIR_OPERATOR(LogAddExp2, "aten::logaddexp2", 2 * kTranscendental)
""",
        ),
        (
            "src/cpp/kernels/optimized/pointwise/pairs.cpp",
            "    make_pointwise_kernel<&choose_pair<PowOperator>>",
            """\
    make_pointwise_kernel<&choose_float_pair<LogAddExp2Operator>>(signature::logaddexp2_out),
    make_pointwise_kernel<&choose_pair<PowOperator>>""",
        ),
    ),
    test=(),  # that of the operator runs every kernel
    script="""
from executorch_py.operators import kernels_of_operator

assert [kernel.library for kernel in kernels_of_operator("aten::logaddexp2.out")] == ["optimized", "portable"]
""",
)

FUSED_PATTERN = Addition(
    page="add_pass.md",
    edits=(
        (
            "src/cpp/ops/ops.yaml",
            '- schema: "aten::squeeze(Tensor(a) self)',
            """\
- schema: "et::squared_relu(Tensor self) -> Tensor"
  out: "et::squared_relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
  kernel: op_squared_relu.cpp
  dtypes: float
  tags: [pointwise, fused]
- schema: "aten::squeeze(Tensor(a) self)""",
        ),
        (
            "src/cpp/kernels/portable/op_squared_relu.cpp",
            "",
            """
// The square of what is positive.
#include "kernels/portable/op_squared_relu.h"

#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {

Error squared_relu_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return float_unary(context, "et::squared_relu", self, out, [](auto x) { return x < 0 ? decltype(x)(0) : x * x; });
}

}  // namespace et::kernels::portable
""",
        ),
        (
            "src/cpp/passes/recognise_norms.cpp",
            "const ir::TensorType& tensor(const ir::Match& m,",
            """\
const ir::Pattern kSquaredRelu = R"(
  y = square(r) | pow(r, 2) | mul(r, r)
  r = relu(x)
)";

const ir::TensorType& tensor(const ir::Match& m,""",
        ),
        (
            "src/cpp/passes/recognise_norms.cpp",
            "/// Patterns, and what their matches become.",
            """\
std::optional<SpelledOut> squared_relu(const ir::Match& m, const ir::Program&, bool) {
  if (!are_tensors(m) || m.value("x") == nullptr || tensor(m, "x") != tensor(m, "y") ||
      !is_floating(tensor(m, "x").dtype)) {
    return std::nullopt;
  }
  SpelledOut found;
  found.root = m.root();
  found.nodes = m.nodes;
  found.op = op::et_squared_relu;
  found.args = {m["x"]};
  return found;
}

/// Patterns, and what their matches become.""",
        ),
        (
            "src/cpp/passes/recognise_norms.cpp",
            "{kSoftmax, softmax}}",
            "{kSoftmax, softmax}, {kSquaredRelu, squared_relu}}",
        ),
    ),
    test=(
        (
            "tests/cpp/passes/golden/recognise_norms.ir",
            "// pass: recognise-norms\n// Softmax",
            """\
// pass: recognise-norms
// The square of what is positive; not where the positive part is read again.
method @m(%x: f32[4], %z: f32[4]) {
  %r = aten::relu(%x) : f32[4] handle(1)
  %y = aten::mul.Tensor(%r, %r) : f32[4] handle(2)
  %s = aten::relu(%z) : f32[4] handle(3)
  %w = aten::pow.Tensor_Scalar(%s, 2) : f32[4] handle(4)
  return %y, %w, %s
}
=>
method @m(%x: f32[4], %z: f32[4]) {
  %y = et::squared_relu(%x) : f32[4] handle(2, 1)
  %s = aten::relu(%z) : f32[4] handle(3)
  %w = aten::pow.Tensor_Scalar(%s, 2) : f32[4] handle(4)
  return %y, %w, %s
}

// pass: recognise-norms
// Softmax""",
        ),
    ),
    script="""
import torch
import executorch_py as et

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x + 1).square()

x = torch.linspace(-5, 5, 101)
program = et.to_edge_transform_and_lower(torch.export.export(Model(), (x,))).to_executorch()
assert "et::squared_relu.out" in program.dump(), program.dump()
method = et.Runtime.get().load_program(program.buffer).load_method("forward")
torch.testing.assert_close(method.execute((x,))[0], Model()(x))
""",
)

_SIGNATURE = (
    "Tensor self, float self_scale, int self_zero_point, Tensor other, float other_scale, int other_zero_point, "
    "float output_scale, int output_zero_point, int output_min, int output_max"
)
QUANTIZER_PATTERN = Addition(
    page="add_quantizer.md",
    edits=(
        (
            "src/cpp/ops/ops.yaml",
            '\n- schema: "aten::div.Tensor_mode(',
            '\n  integers: "et::quantized_div"\n- schema: "aten::div.Tensor_mode(',
        ),
        (
            "src/cpp/ops/ops.yaml",
            '- schema: "et::quantized_embedding(',
            f"""\
- schema: "et::quantized_div({_SIGNATURE}) -> Tensor"
  out: "et::quantized_div.out({_SIGNATURE}, *, Tensor(a!) out) -> Tensor(a!)"
  kernel: quantized/op_elementwise.cpp
  dtypes: [u8, i8, i16]
  tags: [pointwise, fused]
- schema: "et::quantized_embedding(""",
        ),
        (
            "src/cpp/kernels/quantized/op_elementwise.cpp",
            "Error quantized_table_out(",
            """\
Error quantized_div_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                        const Tensor& other, double other_scale, int64_t other_zero_point, double output_scale,
                        int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  constexpr const char* kOp = "et::quantized_div";
  ET_TRY(const Parameters o,
         check_operands(kOp, {self, self_scale, self_zero_point}, {other, other_scale, other_zero_point}, out));
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  const float scale = o.a.scale / o.b.scale / requantize.scale();
  ET_CHECK_OR_RETURN(std::isfinite(scale), InvalidArgument, "%s: the scales have no finite ratio", kOp);
  return dispatch<Activations>(self.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return pairwise<T>(context, kOp, self, other, out, [&](int32_t a, int32_t b) {
      const auto ratio = static_cast<float>(a - o.a.zero_point) / static_cast<float>(b - o.b.zero_point);
      return requantize(ratio * scale);
    });
  });
}

Error quantized_table_out(""",
        ),
        (
            "quantizer/xnnpack_quantizer.py",
            '    Pattern("activation", ',
            """\
    Pattern("div", "y = RELU?(div.Tensor(...), ...)", binary, frozenset({"static"})),
    Pattern("activation", """,
        ),
    ),
    test=(),
    script="""
import torch
import executorch_py as et
from executorch_py import quantizer

class Ratio(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.over, self.under, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.last(self.over(x) / torch.nn.functional.hardtanh(self.under(x), 1.0, 2.0))

torch.manual_seed(0)
model, samples = Ratio().eval(), [torch.randn(4, 8) for _ in range(32)]
quantized = quantizer.quantize(model, (samples[0],), "static_int8", samples)
program = et.to_edge_transform_and_lower(quantized).to_executorch()
assert "et::quantized_div.out" in program.dump(), program.dump()
method = et.Runtime.get().load_program(program.buffer).load_method("forward")
for x in samples:
    expected = model(x)
    assert (method.execute((x,))[0] - expected).abs().max() < 0.05 * expected.abs().max()
""",
)

ADDITIONS = {
    "operator": OPERATOR,
    "vector kernel": VECTOR_KERNEL,
    "fused pattern": FUSED_PATTERN,
    "quantizer pattern": QUANTIZER_PATTERN,
}
