/// The published namespaces, executorch::{runtime, aten, extension}, over ours.
///
/// For: code that was written for the published library. Not for: our own code, which says et::.
///
///     using namespace executorch::extension;          // Module, TensorPtr, make_tensor_ptr, from_blob
///     using executorch::aten::ScalarType;
///     using executorch::runtime::Error;
///
/// Include this, or any header under its published name (cmake/package/published_headers.txt lists them).
#pragma once

#include "extension/backend/interface.h"
#include "extension/evalue.h"
#include "extension/evalue_util/print_evalue.h"
#include "extension/kernel_util/registration.h"
#include "extension/platform/pal.h"
#include "extension/process.h"
#include "extension/program/program.h"
#include "extension/runner_util/inputs.h"
#include "extension/tensor/tensor_accessor.h"
#include "extension/tensor/tensor_impl.h"
#include "extension/tensor/tensor_ptr.h"
#include "runtime/event_tracer.h"
#include "runtime/platform.h"
#include "threads/thread_pool.h"

namespace et::extension {

/// The published names of the process's pool.
namespace threadpool {
struct ThreadPool {
  size_t get_thread_count() const { return threads::num_threads(); }
  bool _unsafe_reset_threadpool(uint32_t count) const { return threads::set_num_threads(count), true; }
};
inline const ThreadPool* get_threadpool() {
  static constexpr ThreadPool kPool;
  return &kPool;
}
}  // namespace threadpool
}  // namespace et::extension

namespace executorch {

namespace extension = ::et::extension;

namespace aten {
using ::et::BFloat16;
using ::et::Half;
using ::et::ScalarType;
using ::et::extension::DimOrderType;
using ::et::extension::SizesType;
using ::et::extension::StridesType;
using ::et::extension::TensorImpl;
using ::et::extension::TensorShapeDynamism;
using ::et::runtime::IntArrayRef;
using ::et::runtime::Scalar;
using ::et::runtime::Tensor;
template <typename T>
using ArrayRef = ::et::Span<const T>;
template <typename T>
using optional = std::optional<T>;
using std::nullopt;
using std::string_view;
using TensorList = ArrayRef<Tensor>;
}  // namespace aten

namespace runtime {
using ::et::Error;
using ::et::Result;
using ::et::Span;
using ::et::to_string;
using ::et::extension::Backend;
using ::et::extension::BackendExecutionContext;
using ::et::extension::BackendInitContext;
using ::et::extension::BackendInterface;
using ::et::extension::CompileSpec;
using ::et::extension::EValue;
using ::et::extension::get_pal_impl;
using ::et::extension::HierarchicalAllocator;
using ::et::extension::KernelRuntimeContext;
using ::et::extension::MemoryAllocator;
using ::et::extension::MemoryManager;
using ::et::extension::Method;
using ::et::extension::MethodMeta;
using ::et::extension::pal_abort;
using ::et::extension::pal_allocate;
using ::et::extension::pal_current_ticks;
using ::et::extension::pal_emit_log_message;
using ::et::extension::pal_free;
using ::et::extension::pal_init;
using ::et::extension::pal_ticks_to_ns_multiplier;
using ::et::extension::PalImpl;
using ::et::extension::Program;
using ::et::extension::register_backend;
using ::et::extension::register_pal;
using ::et::extension::resize_tensor;
using ::et::extension::SizedBuffer;
using ::et::extension::TensorInfo;
using ::et::runtime::DataLoader;
using ::et::runtime::DelegateHandle;
using ::et::runtime::EventTracer;
using ::et::runtime::FreeableBuffer;
using ::et::runtime::NamedDataMap;
using ::et::runtime::Tag;
using ::executorch::aten::ArrayRef;

/// Readies the platform. Messages go to stderr unless the process has chosen a hook; the first load does that as well.
inline void runtime_init() {
  pal_init();
  ::et::runtime::platform_install_default_log();
}
}  // namespace runtime

}  // namespace executorch

/// The namespace of older code.
namespace torch::executor {
using namespace ::executorch::aten;     // NOLINT: all of both
using namespace ::executorch::runtime;  // NOLINT
using RuntimeContext = KernelRuntimeContext;
}  // namespace torch::executor
