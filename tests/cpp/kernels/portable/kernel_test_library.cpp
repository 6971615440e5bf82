// One C function that runs one kernel on arguments given as flat structs, so that Python tests compare every kernel with
// eager PyTorch without a program, a method or the extension module. Layout of Value: tests/ops/kernel_runner.py.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kernels/portable/register.h"
#include "kernels/quantized/register.h"
#include "runtime/kernel.h"
#include "runtime/memory_allocator.h"

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
    blocks_.push_back(std::aligned_alloc(alignment, (nbytes / alignment + 1) * alignment));
    return blocks_.back();
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
  Tensor tensor(Value& v) {
    const auto rank = static_cast<size_t>(v.size);
    std::vector<int64_t>& sizes = numbers_.emplace_back(v.sizes, v.sizes + rank);
    std::vector<int64_t>& strides = numbers_.emplace_back(rank + 1);
    const bool unbound = v.data == nullptr && v.capacity < 0;
    TensorImpl& impl =
        impls_.emplace_back(static_cast<ScalarType>(v.dtype), rank, sizes.data(), strides.data(), v.dim_order, v.data,
                            unbound ? 0 : static_cast<size_t>(v.capacity),
                            unbound ? TensorShapeDynamism::kDynamicUnbound : TensorShapeDynamism::kStatic);
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

Heap data_heap;  // data-dependent outputs live until the next call

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const char* et_kernel_test_message() { return last_message.c_str(); }

/// Runs the kernel `name`; returns its Error. 255: no such kernel; 254: an argument has a type the kernel does not take.
__attribute__((visibility("default"))) int et_kernel_test_run(const char* name, Value* values, int64_t count,
                                                              uint64_t seed) {
  set_log_hook(&keep_message);
  last_message.clear();
  KernelRegistry registry;
  if (kernels::portable::register_portable_kernels(registry) != Error::Ok ||
      kernels::quantized::register_quantized_kernels(registry) != Error::Ok) {
    return 255;
  }
  const Kernel* found[1];
  if (registry.find(name, Span<const Kernel*>(found)) == 0) {
    return 255;
  }
  Arguments arguments;
  std::vector<EValue*> boxed;
  for (int64_t i = 0; i < count; ++i) {
    boxed.push_back(arguments.make(values[i]));
    if (found[0]->signature[i] == '\0' || !signature_accepts(found[0]->signature[i], *boxed.back())) {
      last_message = std::string("argument ") + std::to_string(i) + " of " + name + " (" + found[0]->signature + ")";
      return 254;
    }
  }
  data_heap.reset();
  Heap temp;
  RandomState random{seed, 0};
  KernelContext context(&temp, &data_heap, nullptr, &random, nullptr);
  const Error error = found[0]->run(context, Span<EValue* const>(boxed.data(), boxed.size()), nullptr);
  arguments.write_back();
  return static_cast<int>(error);
}
}
