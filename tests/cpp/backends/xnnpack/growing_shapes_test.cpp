// Sizes that grow and shrink from call to call: a method that has seen others computes what a new one does, to the bit,
// and writes nowhere else. Under the address sanitizer (make sanitize) the library's own memory is watched, too.
// Precisions and node types are the Python test's (tests/xnnpack/test_dynamic_sizes.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "backends/xnnpack/compiler/payload_writer.h"
#include "networks.h"
#include "runtime/host/module.h"
#include "threads/thread_pool.h"

namespace et::test {
namespace {

using runtime::EValue;
using runtime::HostMethod;
using runtime::HostProgram;

using Sizes = std::vector<int64_t>;

/// Integers chosen at each call, of what is called `name` and of sizes `sizes`, as "%<name>d".
std::string quantized_at_run_time(const std::string& name, const std::string& sizes) {
  return "  %" + name + "s, %" + name + "z = quantized_decomposed::choose_qparams.tensor(%" + name +
         ", -128, 127, 1e-18, 1) : f64[1], i64[1]\n  %" + name +
         "q = quantized_decomposed::quantize_per_tensor.tensor(%" + name + ", %" + name + "s, %" + name +
         "z, -128, 127, 1) : i8" + sizes + "\n  %" + name + "d = quantized_decomposed::dequantize_per_tensor.tensor(%" +
         name + "q, %" + name + "s, %" + name + "z, -128, 127, 1, none) : f32" + sizes + "\n";
}

/// Convolutions with padding, dilation and none of images that are quantized at run time.
std::string images_quantized_at_run_time() {
  return weight("w1", "i8", {6, 4, 3, 3}) + weight("w2", "i8", {8, 6, 3, 3}) + weight("w3", "i8", {5, 8, 1, 1}) +
         R"(constant @s1 : f32[6] = splat(0.02)
constant @s2 : f32[8] = splat(0.03)
constant @s3 : f32[5] = splat(0.01)
method @forward(%x: f32[s0:{1..40}, 4, s1:{4..24}, s2:{4..20}]) {
  %w1 = constant @w1 : i8[6, 4, 3, 3]
  %w2 = constant @w2 : i8[8, 6, 3, 3]
  %w3 = constant @w3 : i8[5, 8, 1, 1]
  %s1 = constant @s1 : f32[6]
  %s2 = constant @s2 : f32[8]
  %s3 = constant @s3 : f32[5]
  %f1 = quantized_decomposed::dequantize_per_channel(%w1, %s1, none, 0, -127, 127, 1, none) : f32[6, 4, 3, 3]
  %f2 = quantized_decomposed::dequantize_per_channel(%w2, %s2, none, 0, -127, 127, 1, none) : f32[8, 6, 3, 3]
  %f3 = quantized_decomposed::dequantize_per_channel(%w3, %s3, none, 0, -127, 127, 1, none) : f32[5, 8, 1, 1]
)" + quantized_at_run_time("x", "[s0, 4, s1, s2]") +
         R"(  %y = aten::convolution(%xd, %f1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : f32[s0, 6, s1, s2]
)" + quantized_at_run_time("y", "[s0, 6, s1, s2]") +
         R"(  %z = aten::convolution(%yd, %f2, none, [1, 1], [2, 2], [2, 2], false, [0, 0], 1) : f32[s0, 8, s1, s2]
)" + quantized_at_run_time("z", "[s0, 8, s1, s2]") +
         R"(  %o = aten::convolution(%zd, %f3, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : f32[s0, 5, s1, s2]
  return %o
}
)";
}

/// Linear layers of rows that are quantized at run time.
std::string rows_quantized_at_run_time() {
  return weight("w1", "i8", {24, 16}) + weight("w2", "i8", {3, 24}) + R"(constant @s1 : f32[24] = splat(0.02)
constant @s2 : f32[3] = splat(0.03)
method @forward(%x: f32[s0:{1..40}, s1:{1..30}, 16]) {
  %w1 = constant @w1 : i8[24, 16]
  %w2 = constant @w2 : i8[3, 24]
  %s1 = constant @s1 : f32[24]
  %s2 = constant @s2 : f32[3]
  %f1 = quantized_decomposed::dequantize_per_channel(%w1, %s1, none, 0, -127, 127, 1, none) : f32[24, 16]
  %f2 = quantized_decomposed::dequantize_per_channel(%w2, %s2, none, 0, -127, 127, 1, none) : f32[3, 24]
)" + quantized_at_run_time("x", "[s0, s1, 16]") +
         "  %y = aten::linear(%xd, %f1, none) : f32[s0, s1, 24]\n" + quantized_at_run_time("y", "[s0, s1, 24]") +
         "  %o = aten::linear(%yd, %f2, none) : f32[s0, s1, 3]\n  return %o\n}\n";
}

/// What moves and pools images, and sums of different sizes.
std::string images_that_move() {
  return weight("w1", "f32", {6, 4, 3, 3}) + weight("w2", "f32", {6, 1, 3, 3}) + weight("w3", "f32", {6, 2, 2, 2}) +
         R"(
method @forward(%x: f32[s0:{1..40}, 4, s1:{4..24}, s2:{4..20}]) {
  %w1 = constant @w1 : f32[6, 4, 3, 3]
  %w2 = constant @w2 : f32[6, 1, 3, 3]
  %w3 = constant @w3 : f32[6, 2, 2, 2]
  %c = aten::convolution(%x, %w1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : f32[s0, 6, s1, s2]
  %d = aten::convolution(%c, %w2, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 6) : f32[s0, 6, s1, s2]
  %t = aten::convolution(%d, %w3, none, [2,2], [0,0], [1,1], true, [0,0], 1) : f32[s0, 2, 2*s1:{8..48}, 2*s2:{8..40}]
  %m = aten::max_pool2d(%c, [3, 3], [1, 1], [1, 1], [1, 1], false) : f32[s0, 6, s1, s2]
  %a = aten::avg_pool2d(%d, [3, 3], [1, 1], [1, 1], false, true, none) : f32[s0, 6, s1, s2]
  %k = aten::constant_pad_nd(%m, [1, 1, 1, 1], 0.5) : f32[s0, 6, s1 + 2:{6..26}, s2 + 2:{6..22}]
  %g = aten::mean.dim(%a, [2, 3], true, none) : f32[s0, 6, 1, 1]
  %s = aten::mul.Tensor(%m, %g) : f32[s0, 6, s1, s2]
  %j = aten::cat([%s, %a, %c], 1) : f32[s0, 18, s1, s2]
  %p = aten::permute_copy(%j, [0, 2, 3, 1]) : f32[s0, s1, s2, 18]
  %o = aten::_softmax(%p, 3, false) : f32[s0, s1, s2, 18]
  return %o, %t, %k
}
)";
}

/// A transposed convolution of images that are quantized at run time. The compiler leaves such ones to kernels, files
/// of other writers have them.
std::vector<uint8_t> transposed_quantized_at_run_time() {
  namespace payload = backends::xnnpack::payload;
  backends::xnnpack::PayloadWriter writer;
  backends::xnnpack::ValueSpec image{payload::Datatype_fp32, {40, 24, 20, 4}, {}};
  const uint32_t x = writer.add_value(image, 0, backends::xnnpack::kExternalInput);
  image.datatype = payload::Datatype_qdint8;
  image.quant.num_nonbatch_dims = 3;
  const uint32_t q = writer.add_value(image);
  backends::xnnpack::ValueSpec filter{payload::Datatype_qcint8, {3, 3, 3, 4}, {}};
  filter.quant.channel_scales = {0.01f, 0.02f, 0.03f};
  std::string bytes(3 * 3 * 3 * 4, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(static_cast<int>(i * 37 % 23) - 11);
  }
  const uint32_t w = writer.add_filter(filter, std::move(bytes));
  const uint32_t y =
      writer.add_value({payload::Datatype_fp32, {40, 47, 39, 3}, {}}, 1, backends::xnnpack::kExternalOutput);
  writer.add_unary(payload::NodeUnion_Convert, x, q, 1);
  writer.add_node(payload::NodeUnion_ConvTranspose2d,
                  payload::CreateConvolution(writer.builder, 1, 1, 1, 1, 3, 3, 2, 2, 1, 1, 4, 3, 1, 0, 0, q, w,
                                             backends::xnnpack::kInvalidId, y),
                  1);
  passes::BackendPayload made;
  writer.finish({x}, {y}, made);
  return lowered(R"(method @forward(%x: f32[s0:{1..40}, s1:{4..24}, s2:{4..20}, 4]) {
  %y = delegate @0(%x) : f32[s0, 2*s1 - 1:{7..47}, 2*s2 - 1:{7..39}, 3]
  return %y
})",
                 std::move(made));
}

template <std::string (*text)()>
std::vector<uint8_t> file_of() {
  return lowered(text());
}

struct Case {
  const char* name;
  std::vector<uint8_t> (*file)();
  Sizes least, largest;
};

const std::vector<Case>& cases() {
  static const auto* const made = new std::vector<Case>{
      {"ImagesQuantizedAtRunTime", &file_of<images_quantized_at_run_time>, {1, 4, 4, 4}, {40, 4, 24, 20}},
      {"RowsQuantizedAtRunTime", &file_of<rows_quantized_at_run_time>, {1, 1, 16}, {40, 30, 16}},
      {"ImagesThatMove", &file_of<images_that_move>, {1, 4, 4, 4}, {40, 4, 24, 20}},
      {"TransposedQuantizedAtRunTime", &transposed_quantized_at_run_time, {1, 4, 4, 4}, {40, 24, 20, 4}},
      {"Classifier", &file_of<dynamic_network>, {1, 3, 8, 8}, {4, 3, 24, 24}},
  };
  return *made;
}

/// Each dimension grows, shrinks and grows more while the others are small, and while they are large; then all do.
std::vector<Sizes> calls_of(const Case& c) {
  std::vector<Sizes> calls;
  for (size_t d = 0; d < c.least.size(); ++d) {
    if (c.least[d] == c.largest[d]) {
      continue;
    }
    for (const Sizes& others : {c.least, c.largest}) {
      for (const int64_t part : {2, 7, 3, 12, 16, 1, 16}) {
        calls.push_back(others);
        calls.back()[d] = std::max(c.least[d], c.largest[d] * part / 16);
      }
    }
  }
  uint64_t state = 1;
  for (int i = 0; i < 20; ++i) {
    calls.push_back(c.least);
    for (size_t d = 0; d < c.least.size(); ++d) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      calls.back()[d] += static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(c.largest[d] - c.least[d] + 1));
    }
  }
  return calls;
}

/// All outputs of a call, one behind the other; empty when it fails.
std::vector<float> run(HostMethod& host, const Sizes& sizes) {
  const auto rank = static_cast<int>(sizes.size());
  Sizes extents = sizes, strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d-- > 0;) {
    strides[d] = strides[d + 1] * sizes[d + 1];
  }
  static const uint8_t kOrder[] = {0, 1, 2, 3};
  std::vector<float> values(static_cast<size_t>(strides[0] * sizes[0]));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 29 + i % 7) / 29.0f - 0.4f;
  }
  runtime::TensorImpl impl(ScalarType::Float, rank, extents.data(), strides.data(), kOrder, values.data(),
                           values.size() * sizeof(float));
  runtime::Method& method = host.method();
  if (method.set_input(EValue(runtime::Tensor(&impl)), 0) != Error::Ok || method.execute() != Error::Ok) {
    return {};
  }
  std::vector<float> out;
  for (size_t i = 0; i < method.num_outputs(); ++i) {
    const runtime::Tensor tensor = method.get_output(i).to_tensor();
    out.insert(out.end(), tensor.const_data_ptr<float>(), tensor.const_data_ptr<float>() + tensor.numel());
  }
  return out;
}

class GrowingShapes : public ::testing::TestWithParam<size_t> {};

TEST_P(GrowingShapes, AMethodThatHasSeenOthersComputesWhatANewOneDoes) {
  const Case& c = cases()[GetParam()];
  const std::vector<uint8_t> bytes = c.file();
  const std::unique_ptr<threads::ThreadPool, void (*)(threads::ThreadPool*)> pool(threads::make_pool(2),
                                                                                  &threads::destroy_pool);
  for (threads::ThreadPool* const used : {static_cast<threads::ThreadPool*>(nullptr), pool.get()}) {
    runtime::HostOptions options;
    options.kernels = &all_kernels();
    options.backends = &all_backends();
    options.pool = used;
    auto program = HostProgram::from_buffer(nullptr, bytes.data(), bytes.size(), options);
    ASSERT_TRUE(program.ok());
    auto grown = (*program)->load_method("forward");
    ASSERT_TRUE(grown.ok());
    for (const Sizes& sizes : calls_of(c)) {
      auto fresh = (*program)->load_method("forward");
      ASSERT_TRUE(fresh.ok());
      const std::vector<float> expected = run(**fresh, sizes);
      ASSERT_FALSE(expected.empty());
      ASSERT_EQ(run(**grown, sizes), expected) << ::testing::PrintToString(sizes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, GrowingShapes, ::testing::Range(size_t{0}, cases().size()),
                         [](const auto& info) { return cases()[info.param].name; });

}  // namespace
}  // namespace et::test
