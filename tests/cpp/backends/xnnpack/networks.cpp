#include "networks.h"

#include <gtest/gtest.h>

#include <memory>
#include <sstream>

#include "driver/compile.h"
#include "ir/parser.h"
#include "kernels/portable/register.h"
#include "kernels/prim/register.h"

#define ET_BACKEND_COMPILER(name)                        \
  namespace et::backends::name {                         \
  Error register_compiler(passes::BackendCompilers& to); \
  }
#include "backends/compiler_table.inc"
#undef ET_BACKEND_COMPILER
#define ET_BACKEND_KERNELS(name)                       \
  namespace et::backends::name {                       \
  Error register_kernels(runtime::KernelRegistry& to); \
  }
#include "backends/kernels_table.inc"
#undef ET_BACKEND_KERNELS
#define ET_BACKEND_RUNTIME(name)                        \
  namespace et::backends::name {                        \
  Error register_runtime(runtime::BackendRegistry& to); \
  }
#include "backends/runtime_table.inc"
#undef ET_BACKEND_RUNTIME

namespace et::test {
namespace {

struct Registries {
  runtime::KernelRegistry portable, with_backends;
  runtime::BackendRegistry backends;
  passes::BackendCompilers compilers;

  Registries() {
    EXPECT_EQ(kernels::prim::register_prim_kernels(portable), Error::Ok);
    EXPECT_EQ(kernels::portable::register_portable_kernels(portable), Error::Ok);
    EXPECT_EQ(kernels::prim::register_prim_kernels(with_backends), Error::Ok);
    EXPECT_EQ(kernels::portable::register_portable_kernels(with_backends), Error::Ok);
#define ET_BACKEND_KERNELS(name) EXPECT_EQ(et::backends::name::register_kernels(with_backends), Error::Ok);
#include "backends/kernels_table.inc"
#undef ET_BACKEND_KERNELS
#define ET_BACKEND_RUNTIME(name) EXPECT_EQ(et::backends::name::register_runtime(backends), Error::Ok);
#include "backends/runtime_table.inc"
#undef ET_BACKEND_RUNTIME
#define ET_BACKEND_COMPILER(name) EXPECT_EQ(et::backends::name::register_compiler(compilers), Error::Ok);
#include "backends/compiler_table.inc"
#undef ET_BACKEND_COMPILER
  }
};

const Registries& registries() {
  static const Registries* const made = new Registries;
  return *made;
}

std::string positive(const std::string& name, int count, const char* value) {
  return "constant @" + name + " : f32[" + std::to_string(count) + "] = splat(" + value + ")\n";
}

/// Every node that is no constant gets the tag.
std::string tagged(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const bool is_node = line.rfind("  %", 0) == 0 && line.find(" = constant @") == std::string::npos;
    out += line + (is_node ? " tag(\"delegate\")\n" : "\n");
  }
  return out;
}

}  // namespace

std::string weight(const std::string& name, const std::string& dtype, const std::vector<int>& sizes) {
  std::ostringstream text;
  text << "constant @" << name << " : " << dtype << "[";
  int count = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    text << (d == 0 ? "" : ", ") << sizes[d];
    count *= sizes[d];
  }
  text << "] = [";
  for (int i = 0; i < count; ++i) {
    const int number = (i * 37 + i / 11 * 5) % 23 - 11;
    text << (i == 0 ? "" : ", ") << number;
    if (dtype == "f32") {
      text << "e-2";
    }
  }
  text << "]\n";
  return text.str();
}

const runtime::KernelRegistry& portable_kernels() { return registries().portable; }
const runtime::KernelRegistry& all_kernels() { return registries().with_backends; }
const runtime::BackendRegistry& all_backends() { return registries().backends; }

namespace {

std::unique_ptr<ir::Program> parsed(const std::string& text) {
  ir::ParseError parse_error;
  Result<std::unique_ptr<ir::Program>> program = ir::parse(text, &parse_error);
  if (!program.ok()) {
    ADD_FAILURE() << parse_error.to_string();
    return std::make_unique<ir::Program>();
  }
  return std::move(*program);
}

std::vector<uint8_t> compiled_file(std::unique_ptr<ir::Program> program) {
  driver::CompileOptions options;
  options.kernels = &all_kernels();
  options.backends = &registries().compilers;
  options.delegation["delegate"] = {"XnnpackBackend", {}};
  driver::Compiled compiled;
  ir::Diagnostics diagnostics;
  const Error error = driver::compile(std::shared_ptr<ir::Program>(std::move(program)), options, compiled, diagnostics);
  if (error != Error::Ok) {
    ADD_FAILURE() << to_string(error) << ": " << (diagnostics.empty() ? "" : diagnostics[0].message);
    return {};
  }
  std::vector<uint8_t> bytes(compiled.file.program.nbytes);
  emit::MemorySink sink(bytes.data(), bytes.size());
  EXPECT_EQ(compiled.file.program.write(sink), Error::Ok);
  return bytes;
}

}  // namespace

std::vector<uint8_t> lowered(const std::string& text, bool delegated) {
  return compiled_file(parsed(delegated ? tagged(text) : text));
}

std::vector<uint8_t> lowered(const std::string& text, passes::BackendPayload payload) {
  std::unique_ptr<ir::Program> program = parsed(text);
  program->delegates.push_back({"XnnpackBackend", std::move(payload.bytes), {}});
  program->named_data = std::move(payload.named_data);
  return compiled_file(std::move(program));
}

const std::vector<Network>& networks() {
  static const auto* const made = new std::vector<Network>{
      {"images", weight("w1", "f32", {6, 3, 3, 3}) + weight("b1", "f32", {6}) + weight("w2", "f32", {6, 1, 3, 3}) +
                     weight("w3", "f32", {6, 2, 2, 2}) + R"(
method @forward(%x: f32[1, 3, 9, 10]) {
  %w1 = constant @w1 : f32[6, 3, 3, 3]
  %b1 = constant @b1 : f32[6]
  %w2 = constant @w2 : f32[6, 1, 3, 3]
  %w3 = constant @w3 : f32[6, 2, 2, 2]
  %c = aten::convolution(%x, %w1, %b1, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : f32[1, 6, 9, 10]
  %r = aten::relu(%c) : f32[1, 6, 9, 10]
  %d = aten::convolution(%r, %w2, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 6) : f32[1, 6, 5, 5]
  %t = aten::convolution(%d, %w3, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1) : f32[1, 2, 10, 10]
  %m = aten::max_pool2d(%d, [2, 2], [2, 2], [0, 0], [1, 1], false) : f32[1, 6, 2, 2]
  %a = aten::avg_pool2d(%r, [3, 3], [3, 3], [0, 0], false, false, none) : f32[1, 6, 3, 3]
  %u = aten::upsample_bilinear2d.vec(%d, [8, 7], false, none) : f32[1, 6, 8, 7]
  %g = aten::mean.dim(%r, [2, 3], true, none) : f32[1, 6, 1, 1]
  return %t, %m, %a, %u, %g
})"},
      {"movement", weight("w", "f32", {8, 12}) + R"(
method @forward(%x: f32[2, 3, 12]) {
  %w = constant @w : f32[8, 12]
  %y = aten::linear(%x, %w, none) : f32[2, 3, 8]
  %p = aten::permute_copy(%y, [0, 2, 1]) : f32[2, 8, 3]
  %v = aten::view_copy(%p, [4, 12]) : f32[4, 12]
  %s = aten::slice_copy.Tensor(%v, 1, 2, 8, 1) : f32[4, 6]
  %k = aten::constant_pad_nd(%s, [1, 2], 0.5) : f32[4, 9]
  %c = aten::cat([%v, %s, %k], 1) : f32[4, 27]
  return %c, %p
})"},
      {"elementwise", weight("w", "f32", {8, 8}) + weight("b", "f32", {8}) + R"(
method @forward(%x: f32[5, 8], %z: f32[5, 1]) {
  %w = constant @w : f32[8, 8]
  %b = constant @b : f32[8]
  %y = aten::linear(%x, %w, %b) : f32[5, 8]
  %h = aten::hardtanh(%y, -0.5, 0.75) : f32[5, 8]
  %a = aten::add.Tensor(%h, %z, 1) : f32[5, 8]
  %m = aten::mul.Tensor(%a, %y) : f32[5, 8]
  %d = aten::sub.Tensor(%m, %b, 1) : f32[5, 8]
  %q = aten::div.Tensor(%d, %z) : f32[5, 8]
  %e = aten::elu(%q, 1.0, 1, 1) : f32[5, 8]
  %l = aten::leaky_relu(%e, 0.125) : f32[5, 8]
  %n = aten::gelu(%l, "none") : f32[5, 8]
  %t = aten::tanh(%n) : f32[5, 8]
  %i = aten::maximum(%t, %h) : f32[5, 8]
  %o = aten::_softmax(%i, 1, false) : f32[5, 8]
  %j = aten::abs(%o) : f32[5, 8]
  %f = aten::exp(%j) : f32[5, 8]
  return %f, %q
})"},
      {"products", weight("w", "f32", {24, 8}) + weight("b", "f32", {24}) + R"(
method @forward(%x: f32[2, 5, 8]) {
  %w = constant @w : f32[24, 8]
  %b = constant @b : f32[24]
  %y = aten::linear(%x, %w, %b) : f32[2, 5, 24]
  %q, %k, %v = aten::split_with_sizes_copy(%y, [8, 8, 8], 2) : f32[2, 5, 8], f32[2, 5, 8], f32[2, 5, 8]
  %t = aten::permute_copy(%k, [0, 2, 1]) : f32[2, 8, 5]
  %s = aten::bmm(%q, %t) : f32[2, 5, 5]
  %p = aten::_softmax(%s, 2, false) : f32[2, 5, 5]
  %o = aten::bmm(%p, %v) : f32[2, 5, 8]
  return %o
})"},
      {"integers", weight("w", "i8", {4, 3, 3, 3}) + weight("b", "f32", {4}) + positive("s", 4, "0.02") +
                       weight("h", "i8", {5, 4}) + positive("hs", 5, "0.03") + R"(
method @forward(%x: i8[1, 3, 8, 8]) {
  %w = constant @w : i8[4, 3, 3, 3]
  %s = constant @s : f32[4]
  %b = constant @b : f32[4]
  %h = constant @h : i8[5, 4]
  %hs = constant @hs : f32[5]
  %d = quantized_decomposed::dequantize_per_tensor(%x, 0.03, 4, -128, 127, 1, none) : f32[1, 3, 8, 8]
  %f = quantized_decomposed::dequantize_per_channel(%w, %s, none, 0, -127, 127, 1, none) : f32[4, 3, 3, 3]
  %c = aten::convolution(%d, %f, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : f32[1, 4, 8, 8]
  %r = aten::relu(%c) : f32[1, 4, 8, 8]
  %cq = quantized_decomposed::quantize_per_tensor(%r, 0.05, -128, -128, 127, 1) : i8[1, 4, 8, 8]
  %cd = quantized_decomposed::dequantize_per_tensor(%cq, 0.05, -128, -128, 127, 1, none) : f32[1, 4, 8, 8]
  %g = aten::mean.dim(%cd, [2, 3], true, none) : f32[1, 4, 1, 1]
  %gq = quantized_decomposed::quantize_per_tensor(%g, 0.04, 1, -128, 127, 1) : i8[1, 4, 1, 1]
  %gd = quantized_decomposed::dequantize_per_tensor(%gq, 0.04, 1, -128, 127, 1, none) : f32[1, 4, 1, 1]
  %v = aten::view_copy(%gd, [1, 4]) : f32[1, 4]
  %vq = quantized_decomposed::quantize_per_tensor(%v, 0.04, 1, -128, 127, 1) : i8[1, 4]
  %vd = quantized_decomposed::dequantize_per_tensor(%vq, 0.04, 1, -128, 127, 1, none) : f32[1, 4]
  %hd = quantized_decomposed::dequantize_per_channel(%h, %hs, none, 0, -127, 127, 1, none) : f32[5, 4]
  %y = aten::linear(%vd, %hd, none) : f32[1, 5]
  %yq = quantized_decomposed::quantize_per_tensor(%y, 0.04, -5, -128, 127, 1) : i8[1, 5]
  return %yq
})"},
      // Each layer, a node of one input and a clamp: with a Clamp or a Copy in its place it is what other writers'
      // files have.
      {"clamps", weight("w1", "f32", {6, 3, 3, 3}) + weight("w2", "f32", {6, 1, 3, 3}) +
                     weight("w3", "f32", {6, 2, 2, 2}) + weight("w4", "f32", {4, 10}) + R"(
method @forward(%x: f32[1, 3, 9, 10]) {
  %w1 = constant @w1 : f32[6, 3, 3, 3]
  %w2 = constant @w2 : f32[6, 1, 3, 3]
  %w3 = constant @w3 : f32[6, 2, 2, 2]
  %w4 = constant @w4 : f32[4, 10]
  %p = aten::constant_pad_nd(%x, [1, 1, 1, 1], 0.0) : f32[1, 3, 11, 12]
  %c0 = aten::convolution(%p, %w1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : f32[1, 6, 9, 10]
  %c1 = aten::abs(%c0) : f32[1, 6, 9, 10]
  %c = aten::clamp(%c1, 0.001, 1.0) : f32[1, 6, 9, 10]
  %d0 = aten::convolution(%c, %w2, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 6) : f32[1, 6, 5, 5]
  %d1 = aten::abs(%d0) : f32[1, 6, 5, 5]
  %d = aten::clamp(%d1, 0.001, 0.5) : f32[1, 6, 5, 5]
  %t0 = aten::convolution(%d, %w3, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1) : f32[1, 2, 10, 10]
  %t1 = aten::abs(%t0) : f32[1, 2, 10, 10]
  %t = aten::hardtanh(%t1, 0.0, 0.5) : f32[1, 2, 10, 10]
  %m0 = aten::max_pool2d(%d, [3, 3], [2, 2], [1, 1], [1, 1], false) : f32[1, 6, 3, 3]
  %m1 = aten::abs(%m0) : f32[1, 6, 3, 3]
  %m = aten::clamp(%m1, 0.002, 0.4) : f32[1, 6, 3, 3]
  %a0 = aten::avg_pool2d(%c, [3, 3], [3, 3], [0, 0], false, false, none) : f32[1, 6, 3, 3]
  %a1 = aten::abs(%a0) : f32[1, 6, 3, 3]
  %a = aten::clamp(%a1, 0.002, none) : f32[1, 6, 3, 3]
  %l0 = aten::linear(%t, %w4, none) : f32[1, 2, 10, 4]
  %l1 = aten::abs(%l0) : f32[1, 2, 10, 4]
  %l = aten::clamp(%l1, 0.01, 0.3) : f32[1, 2, 10, 4]
  %s0 = aten::add.Tensor(%m, %a, 1) : f32[1, 6, 3, 3]
  %s1 = aten::abs(%s0) : f32[1, 6, 3, 3]
  %s = aten::clamp(%s1, 0.01, 0.6) : f32[1, 6, 3, 3]
  return %l, %s
})"},
  };
  return *made;
}

std::string dynamic_network() {
  std::string text = weight("w1", "f32", {16, 3, 3, 3}) + weight("b1", "f32", {16}) +
                     weight("w2", "f32", {32, 16, 3, 3}) + weight("w3", "f32", {32, 1, 3, 3}) +
                     weight("w4", "f32", {7, 32}) + weight("b4", "f32", {7});
  for (const char* name : {"forward", "again"}) {
    text += "method @" + std::string(name) + R"((%x: f32[s0:{1..4}, 3, s1:{8..24}, s2:{8..24}]) {
  %w1 = constant @w1 : f32[16, 3, 3, 3]
  %b1 = constant @b1 : f32[16]
  %w2 = constant @w2 : f32[32, 16, 3, 3]
  %w3 = constant @w3 : f32[32, 1, 3, 3]
  %w4 = constant @w4 : f32[7, 32]
  %b4 = constant @b4 : f32[7]
  %c = aten::convolution(%x, %w1, %b1, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : f32[s0, 16, s1, s2]
  %r = aten::relu(%c) : f32[s0, 16, s1, s2]
  %d = aten::convolution(%r, %w2, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : f32[s0, 32, s1, s2]
  %e = aten::convolution(%d, %w3, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 32) : f32[s0, 32, s1, s2]
  %g = aten::mean.dim(%e, [2, 3], false, none) : f32[s0, 32]
  %y = aten::linear(%g, %w4, %b4) : f32[s0, 7]
  return %y
}
)";
  }
  return text;
}

}  // namespace et::test
