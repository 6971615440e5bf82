/// Does with bytes everything that a process does with a program, and expects to come back.
///
/// For: the mutation test and the fuzz target. What the bytes claim to need is bounded first, so that time and memory
/// of a run say nothing about the input: 4 MiB of planned memory, 100 jumps back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/portable/register.h"
#include "kernels/prim/register.h"
#include "runtime/host/module.h"

namespace et::test {

/// How far a program came.
enum class Outcome { kRefused, kLoaded, kMethodLoaded, kRan };

/// The registry that hostile programs run on: all portable kernels. Nobody reads the messages of a million files.
inline const runtime::KernelRegistry& hostile_kernels() {
  static const runtime::KernelRegistry* const registry = [] {
    set_log_hook(nullptr);
    auto* made = new runtime::KernelRegistry;
    static_cast<void>(kernels::prim::register_prim_kernels(*made));
    static_cast<void>(kernels::portable::register_portable_kernels(*made));
    return made;
  }();
  return *registry;
}

namespace detail {

constexpr uint64_t kMaxBytes = 4 << 20;

/// Inputs that a method accepts, as far as its description goes.
struct Inputs {
  std::vector<std::unique_ptr<runtime::TensorImpl>> impls;
  std::vector<std::vector<int64_t>> arrays;
  std::vector<std::vector<uint8_t>> data;
};

/// `smaller` = where sizes may change, half of the largest.
inline Error set_inputs(runtime::Method& method, bool smaller, Inputs& storage) {
  using runtime::EValue;
  const runtime::MethodMeta meta = method.meta();
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    if (meta.input_tag(i) != runtime::Tag::kTensor) {
      ET_RETURN_IF_ERROR(method.set_input(method.get_input(i), i));
      continue;
    }
    ET_TRY(const runtime::TensorInfo info, meta.input_tensor_info(i));
    if (info.nbytes > kMaxBytes) {
      return Error::OutOfResources;
    }
    std::vector<int64_t> sizes(info.sizes.begin(), info.sizes.end());
    for (size_t d = 0; smaller && d < sizes.size(); ++d) {
      const runtime::SizeBounds bounds = meta.input_bounds(i, d);
      sizes[d] = std::min(bounds.upper, std::max(bounds.lower, bounds.upper / 2));
    }
    storage.data.emplace_back(info.nbytes, uint8_t{1});
    storage.arrays.push_back(std::move(sizes));
    storage.arrays.emplace_back(storage.arrays.back().size());
    int64_t* const strides = storage.arrays.back().data();
    std::vector<int64_t>& extents = storage.arrays[storage.arrays.size() - 2];
    storage.impls.push_back(std::make_unique<runtime::TensorImpl>(info.dtype, extents.size(), extents.data(), strides,
                                                                  info.dim_order.data(), storage.data.back().data(),
                                                                  info.nbytes));
    ET_RETURN_IF_ERROR(method.set_input(EValue(runtime::Tensor(storage.impls.back().get())), i));
  }
  return Error::Ok;
}

/// Reads every byte of the outputs, so that a sanitizer sees what they point at.
inline uint64_t read_outputs(const runtime::Method& method) {
  uint64_t sum = 0;
  for (size_t i = 0; i < method.num_outputs(); ++i) {
    const runtime::EValue& value = method.get_output(i);
    if (value.is_tensor() && value.to_tensor().const_data_ptr() != nullptr) {
      const runtime::Tensor tensor = value.to_tensor();
      const auto* bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
      for (size_t b = 0; b < tensor.nbytes(); ++b) {
        sum += bytes[b];
      }
    } else if (value.is_number()) {
      sum += static_cast<uint64_t>(value.number_as_int());
    }
  }
  return sum;
}

}  // namespace detail

/// What a program may call; no backends = nullptr.
struct Registries {
  const runtime::KernelRegistry* kernels;
  const runtime::BackendRegistry* backends;
};

/// Loads, runs and describes every method of a program.
inline Outcome run_hostile_program(const uint8_t* data, size_t size,
                                   Registries registries = {&hostile_kernels(), nullptr}) {
  using namespace runtime;  // NOLINT: this function is about that namespace
  // A heap block of the exact size, so that a sanitizer sees one byte too many.
  std::shared_ptr<uint8_t> copy(static_cast<uint8_t*>(::operator new(size == 0 ? 1 : size, std::align_val_t(16))),
                                [](uint8_t* p) { ::operator delete(p, std::align_val_t(16)); });
  std::memcpy(copy.get(), data, size);
  HostOptions options;
  options.kernels = registries.kernels;
  options.backends = registries.backends;
  auto host = HostProgram::from_buffer(copy, copy.get(), size, options);
  if (!host.ok()) {
    return Outcome::kRefused;
  }
  Outcome outcome = Outcome::kLoaded;
  const Program& program = (*host)->program();
  uint64_t state = 0;
  for (uint32_t id = 1; id < 64; ++id) {
    state += program.is_state_memory(id) && state < detail::kMaxBytes ? program.state_memory_size(id) : 0;
  }
  volatile uint64_t sink = 0;
  for (size_t m = 0; m < program.num_methods() && m < 8; ++m) {
    const auto meta = program.method_meta(program.method_name(m));
    uint64_t planned = state;
    for (size_t i = 0; i < meta->num_memory_planned_buffers() && planned <= detail::kMaxBytes; ++i) {
      planned += meta->memory_planned_buffer_size(i);
    }
    for (size_t i = 0; i < meta->num_outputs() && planned <= detail::kMaxBytes; ++i) {
      planned += meta->output_tag(i) == Tag::kTensor ? meta->output_tensor_info(i)->nbytes : 0;
    }
    sink = sink + meta->input_structure().size() + meta->input_bounds(0, 0).symbol.size();
    if (planned > detail::kMaxBytes) {
      continue;
    }
    HostMethodOptions method_options;
    method_options.max_backward_jumps = 100;
    auto method = (*host)->load_method(meta->name(), nullptr, method_options);
    if (!method.ok()) {
      continue;
    }
    outcome = outcome == Outcome::kRan ? outcome : Outcome::kMethodLoaded;
    for (int run = 0; run < 3; ++run) {
      detail::Inputs inputs;
      if (detail::set_inputs((*method)->method(), run == 1, inputs) == Error::Ok &&
          (*method)->method().execute() == Error::Ok) {
        outcome = Outcome::kRan;
        sink = sink + detail::read_outputs((*method)->method());
      }
    }
    static_cast<void>((*method)->method().reset_state());
  }
  return outcome;
}

}  // namespace et::test
