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

#include "extension/evalue.h"
#include "extension/evalue_util/print_evalue.h"
#include "extension/kernel_util/registration.h"
#include "extension/process.h"
#include "extension/program/program.h"
#include "extension/runner_util/inputs.h"
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
using ::et::extension::EValue;
using ::et::extension::HierarchicalAllocator;
using ::et::extension::KernelRuntimeContext;
using ::et::extension::MemoryAllocator;
using ::et::extension::MemoryManager;
using ::et::extension::Method;
using ::et::extension::MethodMeta;
using ::et::extension::Program;
using ::et::extension::register_backend;
using ::et::extension::resize_tensor;
using ::et::extension::TensorInfo;
using ::et::runtime::BackendExecutionContext;
using ::et::runtime::BackendInitContext;
using ::et::runtime::BackendInterface;
using ::et::runtime::CompileSpec;
using ::et::runtime::DataLoader;
using ::et::runtime::DelegateHandle;
using ::et::runtime::EventTracer;
using ::et::runtime::FreeableBuffer;
using ::et::runtime::NamedDataMap;
using ::et::runtime::Tag;
/// Does what the first load does by itself: messages go to stderr unless the process has chosen a hook.
inline void runtime_init() { ::et::runtime::platform_install_default_log(); }
}  // namespace runtime

}  // namespace executorch

/// The namespace of older code.
namespace torch::executor {
using namespace ::executorch::aten;     // NOLINT: all of both
using namespace ::executorch::runtime;  // NOLINT
using RuntimeContext = KernelRuntimeContext;
}  // namespace torch::executor
