// C functions that run one kernel on arguments given as flat structs, so that Python tests compare every kernel with
// eager PyTorch without a program, a method or the extension module. Layout of Value: tests/ops/kernel_runner.py.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "kernels/optimized/register.h"
#include "kernels/portable/register.h"
#include "kernels/quantized/register.h"
#include "runtime/host/heap_shared_cache.h"
#include "runtime/kernel.h"
#include "runtime/memory_allocator.h"
#include "threads/thread_pool.h"

#define ET_BACKEND_KERNELS(name)                             \
  namespace et::backends::name {                             \
  Error register_kernels(runtime::KernelRegistry& registry); \
  }
#include "backends/kernels_table.inc"
#undef ET_BACKEND_KERNELS

namespace {

using namespace et;
using namespace et::runtime;

struct Value {
  int32_t tag;         // runtime::Tag
  int32_t dtype;       // tensors: ScalarType
  int64_t number;      // Int and Bool
  double real;         // Double
  const char* text;    // String
  void* data;          // tensors: elements; set by the kernel when there were none
  int64_t capacity;    // tensors: bytes at data
  int64_t* sizes;      // tensors: [size]; written back
  uint8_t* dim_order;  // tensors: [size]
  int64_t size;        // rank, or length of a list
  Value* items;        // lists
  int64_t flags;       // of Flag
};

enum Flag : int64_t {
  kConstant = 1,  // the same in every call: a kernel may rely on it when it is prepared
  kDynamic = 2,   // tensors: sizes are bounds of what they are in a call
};

thread_local std::string last_message;

void keep_message(LogLevel, const char*, int, const char* message, size_t length) {
  last_message.assign(message, length);
}

class Heap : public MemoryAllocator {
 public:
  ~Heap() override { reset(); }
  void* allocate(size_t nbytes, size_t alignment) override {
    if (nbytes > kMostBytes) {  // hostile arguments ask for any amount
      return nullptr;
    }
    void* block = nullptr;  // of just this size, so that sanitizers see what lies beside it
    if (posix_memalign(&block, std::max(alignment, sizeof(void*)), std::max<size_t>(nbytes, 1)) == 0) {
      blocks_.push_back(block);
    }
    return block;
  }
  void reset() override {
    for (void* block : blocks_) {
      std::free(block);
    }
    blocks_.clear();
  }

 private:
  static constexpr size_t kMostBytes = size_t{1} << 28;
  std::vector<void*> blocks_;
};

// Owns what EValues point at.
class Arguments {
 public:
  EValue* make(Value& v) {
    EValue* const value = make_value(v);
    if ((v.flags & kConstant) != 0) {
      constants_.insert(value);
      if (value->is_int_list()) {
        static_cast<void>(value->to_int_list());
        int_lists_.back().is_constant = true;
      }
    }
    return value;
  }

  static bool is_constant(const void* arguments, const EValue& value) {
    return static_cast<const Arguments*>(arguments)->constants_.count(&value) != 0;
  }

  // Gives a value that was made from bounds what it is in a call: memory and sizes, numbers, items of lists.
  static void change(EValue* value, const Value& v) {
    if (value == nullptr || (v.flags & kConstant) != 0) {
      return;
    }
    if (value->is_tensor()) {
      TensorImpl* const impl = value->to_tensor().unsafe_impl();
      void* const data = impl->data();
      const size_t capacity = impl->capacity();
      impl->set_data(v.data, v.capacity < 0 ? 0 : static_cast<size_t>(v.capacity));
      if (impl->resize({v.sizes, static_cast<size_t>(v.size)}) != Error::Ok) {
        impl->set_data(data, capacity);
      }
    } else if (value->is_int()) {
      *value = EValue(v.number);
    } else if (value->is_double()) {
      *value = EValue(v.real);
    } else if (value->is_int_list()) {
      change(value->int_list_items(), v);
    } else if (value->is_tensor_list()) {
      change(value->tensor_list_items(), v);
    } else if (value->is_optional_tensor_list()) {
      change(value->optional_tensor_list_items(), v);
    }
  }

  // Gives sizes and data that the kernel set back to the caller.
  void write_back() {
    for (auto& [value, impl] : written_) {
      for (size_t d = 0; d < impl->dim(); ++d) {
        value->sizes[d] = impl->sizes()[d];
      }
      value->data = impl->data();
    }
  }

 private:
  EValue* make_value(Value& v) {
    switch (static_cast<Tag>(v.tag)) {
      case Tag::kNone: return keep(EValue());
      case Tag::kInt: return keep(EValue(v.number));
      case Tag::kBool: return keep(EValue(v.number != 0));
      case Tag::kDouble: return keep(EValue(v.real));
      case Tag::kTensor: return keep(EValue(tensor(v)));
      case Tag::kString: return keep(EValue(&strings_.emplace_back(v.text)));
      case Tag::kIntList: return keep(EValue(&list(v, int_lists_, int_caches_)));
      case Tag::kTensorList: return keep(EValue(&list(v, tensor_lists_, tensor_caches_)));
      case Tag::kOptionalTensorList: return keep(EValue(&list(v, optional_lists_, optional_caches_)));
      case Tag::kDoubleList: {
        std::vector<double>& numbers = doubles_.emplace_back();
        for (int64_t i = 0; i < v.size; ++i) {
          numbers.push_back(v.items[i].real);
        }
        return keep(EValue(&double_lists_.emplace_back(numbers.data(), numbers.size())));
      }
      case Tag::kBoolList: {
        bool* flags = bools_.emplace_back(new bool[static_cast<size_t>(v.size) + 1]).get();
        for (int64_t i = 0; i < v.size; ++i) {
          flags[i] = v.items[i].number != 0;
        }
        return keep(EValue(&bool_lists_.emplace_back(flags, static_cast<size_t>(v.size))));
      }
    }
    return keep(EValue());
  }

  template <typename T>
  static void change(const BoxedList<T>& list, const Value& v) {
    for (uint32_t i = 0; i < list.size; ++i) {
      change(list.items[i], v.items[i]);
    }
  }

  Tensor tensor(Value& v) {
    const auto rank = static_cast<size_t>(v.size);
    std::vector<int64_t>& sizes = numbers_.emplace_back(v.sizes, v.sizes + rank);
    std::vector<int64_t>& strides = numbers_.emplace_back(rank + 1);
    const bool unbound = v.data == nullptr && v.capacity < 0;
    TensorImpl& impl = impls_.emplace_back(static_cast<ScalarType>(v.dtype), rank, sizes.data(), strides.data(),
                                           v.dim_order, v.data, unbound ? 0 : static_cast<size_t>(v.capacity),
                                           unbound                     ? TensorShapeDynamism::kDynamicUnbound
                                           : (v.flags & kDynamic) != 0 ? TensorShapeDynamism::kDynamicBound
                                                                       : TensorShapeDynamism::kStatic);
    impl.set_read_only((v.flags & kConstant) != 0);
    written_.emplace_back(&v, &impl);
    return Tensor(&impl);
  }

  EValue* keep(EValue value) { return &values_.emplace_back(value); }

  template <typename T>
  BoxedList<T>& list(Value& v, std::deque<BoxedList<T>>& lists, std::deque<std::vector<T>>& caches) {
    std::vector<EValue*>& items = items_.emplace_back();
    for (int64_t i = 0; i < v.size; ++i) {
      EValue* item = make(v.items[i]);
      items.push_back(item->is_none() ? nullptr : item);
    }
    std::vector<T>& cache = caches.emplace_back(items.size() + 1);
    BoxedList<T>& boxed = lists.emplace_back();
    boxed.items = items.data();
    boxed.cache = cache.data();
    boxed.size = static_cast<uint32_t>(items.size());
    return boxed;
  }

  std::deque<EValue> values_;
  std::unordered_set<const EValue*> constants_;
  std::deque<TensorImpl> impls_;
  std::deque<std::vector<int64_t>> numbers_;
  std::deque<std::string_view> strings_;
  std::deque<std::vector<EValue*>> items_;
  std::deque<BoxedList<int64_t>> int_lists_;
  std::deque<std::vector<int64_t>> int_caches_;
  std::deque<BoxedList<Tensor>> tensor_lists_;
  std::deque<std::vector<Tensor>> tensor_caches_;
  std::deque<BoxedList<std::optional<Tensor>>> optional_lists_;
  std::deque<std::vector<std::optional<Tensor>>> optional_caches_;
  std::deque<std::vector<double>> doubles_;
  std::deque<Span<const double>> double_lists_;
  std::deque<std::unique_ptr<bool[]>> bools_;
  std::deque<Span<const bool>> bool_lists_;
  std::vector<std::pair<Value*, TensorImpl*>> written_;
};

constexpr int64_t kMostKernels = 16;  // of one operator

Heap data_heap;  // data-dependent outputs live until the next call

// The portable and quantized kernels; with `all` also the vector kernels and those of the backends.
Error add_kernels(bool all, KernelRegistry* registry) {
  ET_RETURN_IF_ERROR(kernels::portable::register_portable_kernels(*registry));
  ET_RETURN_IF_ERROR(kernels::quantized::register_quantized_kernels(*registry));
  if (all) {
    ET_RETURN_IF_ERROR(kernels::optimized::register_optimized_kernels(*registry));
#define ET_BACKEND_KERNELS(name) ET_RETURN_IF_ERROR(backends::name::register_kernels(*registry));
#include "backends/kernels_table.inc"
#undef ET_BACKEND_KERNELS
  }
  return Error::Ok;
}

bool box(const Kernel& kernel, Value* values, int64_t count, Arguments* arguments, std::vector<EValue*>* boxed) {
  for (int64_t i = 0; i < count; ++i) {
    boxed->push_back(arguments->make(values[i]));
    if (kernel.signature[i] == '\0' || !signature_accepts(kernel.signature[i], *boxed->back())) {
      last_message =
          std::string("argument ") + std::to_string(i) + " of " + kernel.name + " (" + kernel.signature + ")";
      return false;
    }
  }
  return kernel.signature[count] == '\0';
}

/// What a Method looks at before it runs a kernel.
Error check_memory(const Kernel& kernel, const std::vector<EValue*>& boxed) {
  return check_written_apart(kernel.signature, {boxed.data(), boxed.size()}, Error::InvalidProgram);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const char* et_kernel_test_message() { return last_message.c_str(); }

/// Runs the portable or quantized kernel `name`; returns its Error. 255: no such kernel; 254: an argument has a type
/// the kernel does not take.
__attribute__((visibility("default"))) int et_kernel_test_run(const char* name, Value* values, int64_t count,
                                                              uint64_t seed) {
  set_log_hook(&keep_message);
  last_message.clear();
  KernelRegistry registry;
  const Kernel* found[1];
  if (add_kernels(false, &registry) != Error::Ok || registry.find(name, Span<const Kernel*>(found)) == 0) {
    return 255;
  }
  Arguments arguments;
  std::vector<EValue*> boxed;
  if (!box(*found[0], values, count, &arguments, &boxed)) {
    return 254;
  }
  data_heap.reset();
  Heap temp;
  RandomState random{seed, 0};
  KernelContext context(&temp, &data_heap, nullptr, &random, nullptr);
  Error error = check_memory(*found[0], boxed);
  if (error == Error::Ok) {
    error = found[0]->run(context, Span<EValue* const>(boxed.data(), boxed.size()), nullptr);
  }
  arguments.write_back();
  return static_cast<int>(error);
}

/// How many kernels are called `name`.
__attribute__((visibility("default"))) int et_kernel_test_count(const char* name) {
  KernelRegistry registry;
  return add_kernels(true, &registry) == Error::Ok ? static_cast<int>(registry.find(name, {})) : 0;
}

/// Prepares kernel number `place` of those called `name`, best first, as a load does, with `values`; runs it with
/// `called`, then with `values`, on two threads. Returns the first error; 255 and 254 as above. `values` and `called`
/// are alike but for what changes between calls: sizes of dynamic tensors, numbers.
__attribute__((visibility("default"))) int et_kernel_test_prepare_and_run(const char* name, int64_t place,
                                                                          Value* values, Value* called, int64_t count) {
  set_log_hook(&keep_message);
  last_message.clear();
  threads::default_pool()->set_num_threads(2);
  KernelRegistry registry;
  const Kernel* found[kMostKernels];
  if (add_kernels(true, &registry) != Error::Ok || place >= kMostKernels ||
      static_cast<size_t>(place) >= registry.find(name, Span<const Kernel*>(found))) {
    return 255;
  }
  const Kernel& kernel = *found[place];
  Arguments arguments;
  std::vector<EValue*> boxed;
  if (!box(kernel, values, count, &arguments, &boxed)) {
    return 254;
  }
  Heap method, temp;
  HeapSharedCache shared;
  PrepareContext prepare(&method, &shared, threads::default_pool());
  prepare.set_constant_query(&Arguments::is_constant, &arguments);
  const Span<EValue* const> args(boxed.data(), boxed.size());
  void* state = nullptr;
  Error error = kernel.prepare == nullptr ? Error::Ok : kernel.prepare(prepare, args, &state);
  if (error != Error::Ok) {
    return static_cast<int>(error);
  }
  RandomState random{0, 0};
  for (Value* const call : {called, values}) {
    for (int64_t i = 0; i < count; ++i) {
      Arguments::change(boxed[static_cast<size_t>(i)], call[i]);
    }
    data_heap.reset();
    KernelContext context(&temp, &data_heap, threads::default_pool(), &random, nullptr);
    Error result = check_memory(kernel, boxed);
    result = result == Error::Ok ? kernel.run(context, args, state) : result;
    error = error == Error::Ok ? result : error;
    temp.reset();
  }
  if (kernel.destroy != nullptr) {
    kernel.destroy(state);
  }
  return static_cast<int>(error);
}
}
