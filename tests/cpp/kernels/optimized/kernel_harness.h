/// Runs kernels of one operator by priority on the same arguments, and compares what they give with the portable
/// kernel.
///
/// For: the tests of optimized kernels and of backends' kernels. A test describes one call; the harness builds the
/// boxed arguments, binds each kernel as the Method does (prepare, run, destroy) and compares the outputs.
///
///     Call call("aten::add.out");
///     call.tensor({2, 3, 4, 5}, kChannelsLast).tensor({3, 1, 1}).number(1.0).out({2, 3, 4, 5}, kChannelsLast);
///     call.expect_same(kPriorityOptimized, 1e-6);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "exact_memory.h"
#include "kernels/optimized/vec/priorities.h"
#include "runtime/host/heap_shared_cache.h"
#include "runtime/kernel.h"
#include "runtime/kernel_offer.h"
#include "threads/thread_pool.h"

namespace et::kernels::testing {

using runtime::EValue;
using runtime::Kernel;
using runtime::Tensor;
using runtime::TensorImpl;

enum Order { kRowMajor, kChannelsLast, kReversed };

inline std::vector<uint8_t> dim_order(size_t rank, Order order) {
  std::vector<uint8_t> result(rank);
  std::iota(result.begin(), result.end(), 0);
  if (order == kChannelsLast) {
    std::rotate(result.begin() + 1, result.begin() + 2, result.end());
  } else if (order == kReversed) {
    std::reverse(result.begin(), result.end());
  }
  return result;
}

/// Sizes of images, of which a line has no height.
inline std::vector<int64_t> sizes_of(bool is_line, std::vector<int64_t> sizes) {
  if (is_line) {
    sizes.erase(sizes.end() - 2);
  }
  return sizes;
}

/// A tensor that owns its memory, with guard bytes behind it, which no kernel may write and only a library may read.
struct OwnedTensor {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  std::vector<uint8_t> order;
  std::vector<char> bytes;
  TensorImpl impl;
  bool constant = false;

  static constexpr size_t kGuard = 64;
  static constexpr char kGuardByte = 0x5a;

  OwnedTensor(ScalarType dtype, std::vector<int64_t> sizes_, std::vector<uint8_t> order_)
      : sizes(std::move(sizes_)), strides(sizes.size()), order(std::move(order_)) {
    size_t count = 1;
    for (const int64_t size : sizes) {
      count *= static_cast<size_t>(size);
    }
    const size_t nbytes = count * element_size(dtype);
    bytes.assign(nbytes + kGuard, kGuardByte);
    impl = TensorImpl(dtype, sizes.size(), sizes.data(), strides.data(), order.data(), bytes.data(), nbytes);
    ASAN_POISON_MEMORY_REGION(bytes.data() + nbytes, kGuard);
  }
  bool guard_is_whole() const {
    const char* const guard = bytes.data() + bytes.size() - kGuard;
    ASAN_UNPOISON_MEMORY_REGION(guard, kGuard);
    const bool is_whole = std::all_of(guard, guard + kGuard, [](char byte) { return byte == kGuardByte; });
    ASAN_POISON_MEMORY_REGION(guard, kGuard);
    return is_whole;
  }
};

/// The registry with every kernel library of the test program; defined by it.
const runtime::KernelRegistry& test_registry();

class Call {
 public:
  explicit Call(const char* name, const runtime::KernelRegistry& registry = test_registry())
      : name_(name), registry_(registry) {}

  /// A float tensor of random values in [low, high).
  Call& tensor(std::vector<int64_t> sizes, Order order = kRowMajor, float low = -2.0f, float high = 2.0f) {
    OwnedTensor& t = add(ScalarType::Float, std::move(sizes), order);
    std::uniform_real_distribution<float> values(low, high);
    auto* const data = reinterpret_cast<float*>(t.bytes.data());
    for (int64_t i = 0; i < t.impl.numel(); ++i) {
      data[i] = values(random_);
    }
    return *this;
  }
  /// Random numbers in [-2, 2) of a float, double or complex dtype.
  Call& numbers(ScalarType dtype, std::vector<int64_t> sizes) {
    OwnedTensor& t = add(dtype, std::move(sizes), kRowMajor);
    const bool is_narrow = dtype == ScalarType::Float || dtype == ScalarType::ComplexFloat;
    std::uniform_real_distribution<double> values(-2.0, 2.0);
    for (size_t i = 0; i < t.impl.nbytes() / (is_narrow ? sizeof(float) : sizeof(double)); ++i) {
      if (is_narrow) {
        reinterpret_cast<float*>(t.bytes.data())[i] = static_cast<float>(values(random_));
      } else {
        reinterpret_cast<double*>(t.bytes.data())[i] = values(random_);
      }
    }
    return *this;
  }
  /// The same of BFloat16.
  Call& narrow(std::vector<int64_t> sizes, Order order = kRowMajor) {
    OwnedTensor& t = add(ScalarType::BFloat16, std::move(sizes), order);
    std::uniform_real_distribution<float> values(-2.0f, 2.0f);
    for (int64_t i = 0; i < t.impl.numel(); ++i) {
      reinterpret_cast<BFloat16*>(t.bytes.data())[i] = BFloat16(values(random_));
    }
    return *this;
  }
  /// Random floats, known to be a constant of the program.
  Call& constant(std::vector<int64_t> sizes, Order order = kRowMajor, float low = -2.0f, float high = 2.0f) {
    tensor(std::move(sizes), order, low, high);
    tensors_.back().constant = true;
    return *this;
  }
  /// A constant of given elements.
  template <typename T>
  Call& constant_values(const std::vector<T>& values, std::vector<int64_t> sizes) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>);
    constexpr ScalarType kDtype = std::is_same_v<T, float>     ? ScalarType::Float
                                  : std::is_same_v<T, int32_t> ? ScalarType::Int
                                                               : ScalarType::Long;
    OwnedTensor& t = add(kDtype, std::move(sizes), kRowMajor);
    std::copy_n(values.data(), std::min(values.size(), static_cast<size_t>(t.impl.numel())),
                reinterpret_cast<T*>(t.bytes.data()));
    t.constant = true;
    return *this;
  }
  /// Integers in [0, below).
  Call& indices(std::vector<int64_t> sizes, int64_t below, Order order = kRowMajor) {
    OwnedTensor& t = add(ScalarType::Long, std::move(sizes), order);
    auto* const data = reinterpret_cast<int64_t*>(t.bytes.data());
    for (int64_t i = 0; i < t.impl.numel(); ++i) {
      data[i] = static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
    }
    return *this;
  }
  /// An i64 tensor of one dimension with these elements.
  Call& numbers_of(const std::vector<int64_t>& values) {
    OwnedTensor& t = add(ScalarType::Long, {static_cast<int64_t>(values.size())}, kRowMajor);
    std::memcpy(t.bytes.data(), values.data(), t.impl.nbytes());
    return *this;
  }
  Call& mask(std::vector<int64_t> sizes, Order order = kRowMajor) {
    OwnedTensor& t = add(ScalarType::Bool, std::move(sizes), order);
    for (int64_t i = 0; i < t.impl.numel(); ++i) {
      t.bytes[static_cast<size_t>(i)] = random_() % 4 != 0;
    }
    return *this;
  }
  /// Bytes of any dtype, for operators that only move them.
  Call& bytes_of(ScalarType dtype, std::vector<int64_t> sizes, Order order = kRowMajor) {
    OwnedTensor& t = add(dtype, std::move(sizes), order);
    for (size_t i = 0; i < t.impl.nbytes(); ++i) {
      t.bytes[i] = static_cast<char>(random_());
    }
    return *this;
  }
  /// The same without a zero byte: integers to divide by.
  Call& divisors(ScalarType dtype, std::vector<int64_t> sizes) {
    bytes_of(dtype, std::move(sizes));
    OwnedTensor& t = tensors_.back();
    for (size_t i = 0; i < t.impl.nbytes(); ++i) {
      t.bytes[i] = t.bytes[i] != 0 ? t.bytes[i] : 1;
    }
    return *this;
  }
  /// The last tensor's bytes become what `change` makes of them.
  template <typename Change>
  Call& change_bytes(Change change) {
    OwnedTensor& t = tensors_.back();
    for (size_t i = 0; i < t.impl.nbytes(); ++i) {
      t.bytes[i] = static_cast<char>(change(static_cast<signed char>(t.bytes[i])));
    }
    return *this;
  }
  /// The last tensor's bytes become the least and the largest int8.
  Call& ends() {
    return change_bytes([](int byte) { return byte < 0 ? -128 : 127; });
  }
  /// The last element of the last tensor becomes zero.
  Call& zero_last() {
    OwnedTensor& t = tensors_.back();
    const size_t element = t.impl.nbytes() / static_cast<size_t>(t.impl.numel());
    std::memset(t.bytes.data() + t.impl.nbytes() - element, 0, element);
    return *this;
  }
  /// The last tensor is a constant of the program.
  Call& as_constant() {
    tensors_.back().constant = true;
    return *this;
  }
  Call& out(std::vector<int64_t> sizes, Order order = kRowMajor, ScalarType dtype = ScalarType::Float) {
    outs_.push_back(tensors_.size());
    add(dtype, std::move(sizes), order);
    return *this;
  }
  Call& number(double value) { return value_of(EValue(value)); }
  Call& integer(int64_t value) { return value_of(EValue(value)); }
  Call& flag(bool value) { return value_of(EValue(value)); }
  Call& none() { return value_of(EValue()); }
  Call& text(const char* value) {
    texts_.emplace_back(value);
    return value_of(EValue(&texts_.back()));
  }
  Call& list(std::vector<int64_t> values) {
    std::vector<EValue*> items;
    for (const int64_t value : values) {
      values_.emplace_back(value);
      items.push_back(&values_.back());
    }
    pointers_.push_back(std::move(items));
    ints_.push_back(std::move(values));
    int_lists_.push_back(
        {pointers_.back().data(), ints_.back().data(), static_cast<uint32_t>(ints_.back().size()), false});
    return value_of(EValue(&int_lists_.back()));
  }
  Call& doubles(std::vector<double> values) {
    doubles_.push_back(std::move(values));
    double_lists_.emplace_back(doubles_.back().data(), doubles_.back().size());
    return value_of(EValue(&double_lists_.back()));
  }
  /// The last `count` tensors become one list argument.
  Call& as_list(size_t count) {
    std::vector<EValue*> items(arguments_.end() - static_cast<long>(count), arguments_.end());
    arguments_.resize(arguments_.size() - count);
    pointers_.push_back(std::move(items));
    handles_.emplace_back(count);
    tensor_lists_.push_back({pointers_.back().data(), handles_.back().data(), static_cast<uint32_t>(count), false});
    return value_of(EValue(&tensor_lists_.back()));
  }
  /// Element `i` of the last tensor that was added.
  Call& set(size_t i, float value) {
    reinterpret_cast<float*>(tensors_.back().bytes.data())[i] = value;
    return *this;
  }

  Call& set_double(size_t i, double value) {
    reinterpret_cast<double*>(tensors_.back().bytes.data())[i] = value;
    return *this;
  }

  /// Elements of tensor `i`, counted over constants and outputs as well.
  std::vector<float> floats(size_t i) const {
    const OwnedTensor& t = tensors_.at(i);
    std::vector<float> values(static_cast<size_t>(t.impl.numel()));
    std::memcpy(values.data(), t.bytes.data(), t.impl.nbytes());
    return values;
  }

  /// The numbers among the arguments are computed by the program, so that a kernel may not rely on them at load.
  Call& computed() {
    has_computed_numbers_ = true;
    return *this;
  }

  // A priority names one kernel; kPriorityOptimized and kPriorityLibrary stand for all of their rows
  // (docs/design/kernels.md). Where none of its row takes a call, kPriorityOptimized is ours that offers a cost.

  /// True when a backend of this build has a kernel of the operator.
  static bool has_library(const char* name) {
    const Kernel* found[kMaxKernels];
    const size_t count = std::min(test_registry().find(name, found), kMaxKernels);
    return std::any_of(found, found + count, [](const Kernel* kernel) {
      return kernel->priority >= runtime::kPriorityLibrary && kernel->priority < optimized::kPriorityOffering;
    });
  }
  /// True when a kernel of this priority takes the arguments.
  bool fits(uint8_t priority) { return run(priority, 1, nullptr) != Error::NotSupported; }
  /// Priority of the kernel that a load chooses.
  int chosen() {
    add_returned();
    const Kernel* found[kMaxKernels];
    const size_t count = std::min(registry_.find(name_, found), kMaxKernels);
    int cheapest = -1;
    double least = 0;
    for (size_t i = 0; i < count; ++i) {
      const bool is_compared =
          found[i]->priority >= runtime::kPriorityLibrary && found[i]->priority < runtime::kPriorityUser;
      if (cheapest >= 0 && !is_compared) {
        break;
      }
      runtime::KernelOffer offer;
      if (run_kernel(*found[i], nullptr, nullptr, is_compared ? &offer : nullptr) != Error::NotSupported) {
        return found[i]->priority;
      }
      if (offer.nanoseconds >= 0 && (cheapest < 0 || offer.nanoseconds < least)) {
        cheapest = found[i]->priority;
        least = offer.nanoseconds;
      }
    }
    return cheapest;
  }

  /// The nanoseconds that the kernel of this priority offers; negative: none.
  double offered(uint8_t priority) {
    add_returned();
    const Kernel* found[kMaxKernels];
    runtime::KernelOffer offer;
    for (size_t i = 0; i < std::min(registry_.find(name_, found), kMaxKernels); ++i) {
      if (found[i]->priority == priority) {
        EXPECT_EQ(run_kernel(*found[i], nullptr, nullptr, &offer), Error::NotSupported);
      }
    }
    return offer.nanoseconds;
  }

  /// What a load and a call come to with the kernel of this priority; NotSupported when there is none.
  Error error(uint8_t priority) {
    std::vector<std::vector<char>> outputs;
    return run(priority, 2, &outputs);
  }

  /// What the kernel of this priority gives as first output, on two threads.
  std::vector<float> output(uint8_t priority) {
    std::vector<std::vector<char>> outputs;
    EXPECT_EQ(run(priority, 2, &outputs), Error::Ok) << name_;
    std::vector<float> values(outputs.at(0).size() / sizeof(float));
    std::memcpy(values.data(), outputs[0].data(), outputs[0].size());
    return values;
  }

  /// Runs the portable kernel and the one of `priority` with one and two threads, twice each, and compares. `tolerance`
  /// is relative to the largest expected magnitude of the output. Integers, and doubles without one, must be equal;
  /// from 1 on it is the steps that integers of 8 bits may be apart.
  void expect_same(uint8_t priority, double tolerance = 0) {
    std::vector<std::vector<char>> expected;
    ASSERT_EQ(run(runtime::kPriorityPortable, 0, &expected), Error::Ok) << name_;
    for (const size_t threads : {1, 2}) {
      SCOPED_TRACE(std::string(name_) + ", threads: " + std::to_string(threads));
      std::vector<std::vector<char>> got;
      ASSERT_EQ(run(priority, threads, &got), Error::Ok);
      for (size_t k = 0; k < outs_.size(); ++k) {
        compare(tensors_[outs_[k]], expected[k], got[k], tolerance);
      }
    }
  }

 private:
  OwnedTensor& add(ScalarType dtype, std::vector<int64_t> sizes, Order order) {
    const size_t rank = sizes.size();
    tensors_.emplace_back(dtype, std::move(sizes), dim_order(rank, order));
    value_of(EValue(Tensor(&tensors_.back().impl)));
    return tensors_.back();
  }
  Call& value_of(EValue value) {
    values_.push_back(value);
    arguments_.push_back(&values_.back());
    return *this;
  }

  /// Tensors that were said to be constants, and everything that is no tensor unless computed() says otherwise.
  static bool is_constant(const void* opaque, const EValue& value) {
    const Call& call = *static_cast<const Call*>(opaque);
    for (const OwnedTensor& t : call.tensors_) {
      if (value.is_tensor() && value.to_tensor().unsafe_impl() == &t.impl) {
        return t.constant;
      }
    }
    return !value.is_tensor() && !value.is_tensor_list() && !call.has_computed_numbers_;
  }

  /// As the compiler writes a call: the outputs follow once more, as the value that the operator returns.
  void add_returned() {
    if (has_returned_ || outs_.empty()) {
      return;
    }
    has_returned_ = true;
    if (arguments_.back()->is_tensor_list()) {
      return;  // outputs in a list: nothing is returned
    }
    for (const size_t i : outs_) {
      value_of(EValue(Tensor(&tensors_[i].impl)));
    }
    if (outs_.size() > 1) {
      as_list(outs_.size());
    }
  }

  static constexpr size_t kMaxKernels = 32;

  /// Where the kernels end that a test means by `priority`.
  static int end_of_row(uint8_t priority) {
    return priority == runtime::kPriorityOptimized ? runtime::kPriorityLibrary
           : priority == runtime::kPriorityLibrary ? optimized::kPriorityOffering
                                                   : priority + 1;
  }

  /// threads 0: no pool at all.
  Error run(uint8_t priority, size_t threads, std::vector<std::vector<char>>* outputs) {
    add_returned();
    const Kernel* found[kMaxKernels];
    const size_t count = std::min(registry_.find(name_, found), kMaxKernels);
    threads::ThreadPool* const pool = threads == 0 ? nullptr : threads::make_pool(threads);
    Error result = Error::NotSupported;
    for (size_t i = 0; i < count && result == Error::NotSupported; ++i) {
      if (found[i]->priority >= priority && found[i]->priority < end_of_row(priority)) {
        result = run_kernel(*found[i], pool, outputs);
      }
    }
    for (size_t i = 0; i < count && priority == runtime::kPriorityOptimized && result == Error::NotSupported; ++i) {
      if (found[i]->priority == optimized::kPriorityOffering) {
        result = run_kernel(*found[i], pool, outputs);
      }
    }
    if (pool != nullptr) {
      threads::destroy_pool(pool);
    }
    return result;
  }

  /// `offer`: the kernel is asked what it costs first, as several are.
  Error run_kernel(const Kernel& kernel, threads::ThreadPool* pool, std::vector<std::vector<char>>* outputs,
                   runtime::KernelOffer* offer = nullptr) {
    ExactAllocator method_allocator, temp_allocator, data_allocator;
    runtime::HeapSharedCache cache;
    runtime::PrepareContext prepare(&method_allocator, &cache, pool);
    prepare.set_constant_query(&is_constant, this);
    void* state = offer;
    const Span<EValue* const> args(arguments_.data(), arguments_.size());
    if (kernel.prepare != nullptr) {
      const Error error = kernel.prepare(prepare, args, &state);
      if (error != Error::Ok) {
        return error;
      }
    }
    Error error = Error::Ok;
    for (int round = 0; round < 2 && outputs != nullptr; ++round) {  // twice: a state must survive its first run
      for (const size_t i : outs_) {
        std::memset(tensors_[i].bytes.data(), 0xee, tensors_[i].impl.nbytes());
      }
      runtime::RandomState random;
      runtime::KernelContext context(&temp_allocator, &data_allocator, pool, &random, nullptr);
      error = kernel.run(context, args, state);
      context.reset_temp();
    }
    if (kernel.destroy != nullptr) {
      kernel.destroy(state);
    }
    for (const size_t i : outs_) {
      EXPECT_TRUE(tensors_[i].guard_is_whole()) << "written past the end";
      if (outputs != nullptr) {
        outputs->emplace_back(tensors_[i].bytes.begin(), tensors_[i].bytes.end() - OwnedTensor::kGuard);
      }
    }
    return error;
  }

  static void compare(const OwnedTensor& tensor, const std::vector<char>& expected, const std::vector<char>& got,
                      double tolerance) {
    ASSERT_EQ(expected.size(), got.size());
    switch (tensor.impl.dtype()) {
      case ScalarType::Float:
      case ScalarType::ComplexFloat: return compare_numbers<float>(expected, got, tolerance);
      case ScalarType::BFloat16: return compare_numbers<BFloat16>(expected, got, tolerance);
      case ScalarType::ComplexDouble: return compare_numbers<double>(expected, got, tolerance);
      case ScalarType::Double:
        if (tolerance > 0) {
          return compare_numbers<double>(expected, got, tolerance);
        }
        [[fallthrough]];
      case ScalarType::Char:
      case ScalarType::Byte:
        if (tolerance >= 1) {
          return compare_bytes(tensor.impl.dtype(), expected, got, static_cast<int>(tolerance));
        }
        [[fallthrough]];
      default: EXPECT_EQ(expected, got);
    }
  }

  /// Integers of 8 bits, `most` steps apart, and one at most in three hundred that is not equal.
  static void compare_bytes(ScalarType dtype, const std::vector<char>& expected, const std::vector<char>& got,
                            int most) {
    const auto number = [dtype](char byte) {
      return dtype == ScalarType::Char ? int{static_cast<signed char>(byte)} : int{static_cast<unsigned char>(byte)};
    };
    size_t other = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const int a = number(expected[i]), b = number(got[i]);
      ASSERT_LE(std::abs(a - b), most) << "element " << i << ": " << a << ", got " << b;
      other += a == b ? 0 : 1;
    }
    EXPECT_LE(other, 1 + expected.size() / 300);
  }

  template <typename T>
  static void compare_numbers(const std::vector<char>& expected, const std::vector<char>& got, double tolerance) {
    const auto* const want = reinterpret_cast<const T*>(expected.data());
    const auto* const have = reinterpret_cast<const T*>(got.data());
    const size_t count = expected.size() / sizeof(T);
    double scale = 0;
    const auto number = [](T value) { return static_cast<double>(value); };
    for (size_t i = 0; i < count; ++i) {
      scale = std::isfinite(number(want[i])) ? std::max(scale, std::abs(number(want[i]))) : scale;
    }
    for (size_t i = 0; i < count; ++i) {
      const double a = number(want[i]), b = number(have[i]);
      if (!std::isfinite(a)) {
        ASSERT_EQ(std::isnan(a), std::isnan(b)) << "element " << i << ": " << a << ", got " << b;
        ASSERT_TRUE(std::isnan(a) || a == b) << "element " << i << ": " << a << ", got " << b;
        continue;
      }
      ASSERT_LE(std::abs(a - b), tolerance * scale) << "element " << i << ": " << a << ", got " << b;
    }
  }

  const char* name_;
  const runtime::KernelRegistry& registry_;
  std::mt19937_64 random_{42};
  std::deque<OwnedTensor> tensors_;
  std::deque<EValue> values_;
  std::vector<EValue*> arguments_;
  std::vector<size_t> outs_;  // into tensors_
  bool has_returned_ = false;
  bool has_computed_numbers_ = false;
  std::deque<std::string_view> texts_;
  std::deque<std::vector<EValue*>> pointers_;
  std::deque<std::vector<int64_t>> ints_;
  std::deque<std::vector<Tensor>> handles_;
  std::deque<runtime::BoxedList<int64_t>> int_lists_;
  std::deque<runtime::BoxedList<Tensor>> tensor_lists_;
  std::deque<std::vector<double>> doubles_;
  std::deque<Span<const double>> double_lists_;
};

}  // namespace et::kernels::testing
