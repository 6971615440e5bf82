/// Tensors of Python callers, in and out, without linking libtorch.
///
/// For: the bindings of Method. `BorrowedTensor` reads a caller's tensor as bytes and strides; `OutputBlock` is memory
///      that becomes a torch tensor or a numpy array.
/// Not for: deciding what a method takes; runtime_method.cpp and Method::set_input do that.
///
///     BorrowedTensor input;
///     if (!input.borrow(object)) …                     // not a tensor of any kind
///     const TensorView& view = input.view();           // valid until release(); torch: 0.04 µs
///
/// What is read: types with DLPack's C exchange API (torch.Tensor and nn.Parameter, also when they require
/// gradients), the buffer protocol (numpy, memoryview, array.array), numpy arrays of ml_dtypes.bfloat16, and
/// `__dlpack__`. All functions need the GIL.
///
/// Place: Python objects → **here** → TensorImpl → Method.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <memory>

#include "base/dtype.h"
#include "base/span.h"
#include "bindings/dlpack.h"
#include "bindings/tensor_view.h"
#include "runtime/evalue.h"

namespace et::bindings {

/// "torch.float32 (2, 3)".
std::string describe(ScalarType dtype, Span<const int64_t> sizes);

/// What kind of tensor a caller uses, so that outputs are of the same kind.
class TensorLibrary {
 public:
  /// numpy.
  TensorLibrary() = default;
  /// One with the C exchange API.
  explicit TensorLibrary(const dlpack::ExchangeApi* api) : api_(api) {}

  /// torch when it has been imported, else numpy: for a call without any tensor among its inputs.
  static TensorLibrary of_process();

  bool is_numpy() const { return api_ == nullptr; }
  const dlpack::ExchangeApi* api() const { return api_; }

 private:
  const dlpack::ExchangeApi* api_ = nullptr;
};

/// A caller's tensor for the time of a call. Reusable; holds a reference to the object.
class BorrowedTensor {
 public:
  BorrowedTensor() = default;
  BorrowedTensor(BorrowedTensor&& other) noexcept;
  BorrowedTensor& operator=(BorrowedTensor&&) = delete;
  ~BorrowedTensor() { release(); }

  /// Reads `object`; false when it is not a tensor.
  /// Errors (CoreError): NotSupported for memory not on the CPU, sparse or without data, and for dtypes that no
  /// program has.
  bool borrow(pybind11::handle object);
  void release();

  const TensorView& view() const { return view_; }
  /// The library of the object, numpy for everything that has no exchange API.
  TensorLibrary library() const { return TensorLibrary(api_); }
  pybind11::handle object() const { return object_; }
  /// Replaces torch's lazily negated views (of `x.conj().imag`) by real ones; for copies only, where strides are odd.
  void resolve_lazy_bits();
  /// True for such a view.
  bool is_negated() const;

 private:
  bool borrow_exchange(pybind11::handle object, const dlpack::ExchangeApi* api);
  bool borrow_buffer(pybind11::handle object);
  bool borrow_capsule(pybind11::handle object);
  void fill(const dlpack::Tensor& tensor);

  TensorView view_;
  pybind11::object object_;
  const dlpack::ExchangeApi* api_ = nullptr;
  Py_buffer buffer_{};        // buffer_.obj == nullptr: not used
  pybind11::object capsule_;  // of __dlpack__
};

/// Where the memory of a large output waits for the next call once the caller has dropped the result. The system gives
/// fresh memory page by page, which takes several times as long as writing it. A method has one for each output, and
/// frees it. Threads: callers drop results on any thread.
class SpareOutput {
 public:
  SpareOutput() = default;
  ~SpareOutput();
  SpareOutput(const SpareOutput&) = delete;
  SpareOutput& operator=(const SpareOutput&) = delete;

  /// Whether memory of this size is worth keeping: malloc itself keeps less, and nobody should hold much more. A call
  /// takes it again, so the peak stays as it is.
  static bool is_worthwhile(size_t nbytes) { return nbytes >= size_t{1} << 20 && nbytes <= size_t{256} << 20; }
  /// The memory of a dropped result, nullptr when there is none.
  void* take() { return memory_.exchange(nullptr, std::memory_order_acq_rel); }
  /// Takes `memory` over unless there is some already; then false.
  bool keep(void* memory) {
    void* none = nullptr;
    return memory_.compare_exchange_strong(none, memory, std::memory_order_acq_rel);
  }

 private:
  std::atomic<void*> memory_{nullptr};
};

/// Memory of one output on its way to the caller, 64-byte aligned.
class OutputBlock {
 public:
  OutputBlock() = default;
  OutputBlock(OutputBlock&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  OutputBlock& operator=(OutputBlock&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~OutputBlock();

  /// Memory for `nbytes`; with `spare`, from there if there is any, and back there in the end. All blocks of one
  /// `spare` have one size. Errors (CoreError): MemoryAllocationFailed.
  static OutputBlock allocate(size_t nbytes, std::shared_ptr<SpareOutput> spare = nullptr);
  void* data() const;
  size_t nbytes() const;

  /// Hands the memory over as a tensor of `library`. The block is empty afterwards.
  /// Errors (CoreError): NotSupported bfloat16 for numpy without ml_dtypes. A Python error of the library as it is.
  pybind11::object to_python(TensorLibrary library, ScalarType dtype, Span<const int64_t> sizes,
                             Span<const uint8_t> dim_order) &&;

 private:
  struct Header;
  static void release(Header* header);
  Header* block_ = nullptr;
};

/// An array over memory that `owner` keeps alive: what a backend written in Python gets.
pybind11::object numpy_view(void* data, ScalarType dtype, Span<const int64_t> sizes, Span<const int64_t> strides,
                            pybind11::handle owner, bool writable);

/// A tensor of `library` over memory that `owner` keeps alive; writing it writes that memory.
/// Errors (CoreError): NotSupported bfloat16 for numpy without ml_dtypes.
pybind11::object live_view(TensorLibrary library, const runtime::Tensor& tensor, pybind11::object owner);

/// A value that is no tensor, as int, float, bool, str or None. Errors (CoreError): NotSupported for tensors and lists.
pybind11::object plain_to_python(const runtime::EValue& value);

/// Says now, before anything runs, that numpy cannot hold `dtype` here. Errors (CoreError): NotSupported.
void check_numpy_dtype(ScalarType dtype);

}  // namespace et::bindings
