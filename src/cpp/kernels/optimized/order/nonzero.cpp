// nonzero: where the elements of a row-major tensor are that are not zero.
//
// The tensor is read twice, to count and to write. A hostile program may plan the output over it; so rows are written
// up to the number that was counted, whatever the second reading finds.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "kernels/optimized/vec/element_bits.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"

#ifndef ET_KERNELS_OPTIMIZED_NONZERO_ONCE
#define ET_KERNELS_OPTIMIZED_NONZERO_ONCE
namespace et::kernels::optimized::order {
/// The loops for elements of one width, given as their bits.
struct NonzeroLoops {
  /// How many of n elements are not zero.
  size_t (*count)(const void* data, size_t n, bool is_float) = nullptr;
  /// Their places, ascending, at most 256 of them; n is at most 256. Returns how many.
  size_t (*places)(const void* data, size_t n, bool is_float, uint8_t* out) = nullptr;
};
}  // namespace et::kernels::optimized::order
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::order::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <typename T>
size_t Count(const void* data, size_t n, bool is_float) {
  const auto* x = static_cast<const T*>(data);
  const T mask = bits_of_truth<T>(is_float);
  size_t total = 0;
  while (n > 0) {  // in pieces whose sum fits an element, so that as many are added at a time as are compared
    const size_t piece = std::min<size_t>(n, 128);
    T sum = 0;
    for (size_t i = 0; i < piece; ++i) {
      sum = static_cast<T>(sum + static_cast<T>((x[i] & mask) != 0));
    }
    total += static_cast<size_t>(sum);
    n -= piece;
    x += piece;
  }
  return total;
}

template <typename T>
size_t Places(const void* data, size_t n, bool is_float, uint8_t* out) {
  const auto* const x = static_cast<const T*>(data);
  const T mask = bits_of_truth<T>(is_float);
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {  // without a branch, which a random mask would mispredict
    out[count] = static_cast<uint8_t>(i);
    count += (x[i] & mask) != 0 ? 1 : 0;
  }
  return count;
}

NonzeroLoops Loops(size_t width) {
  return with_bits_type(width, [](auto bits) {
    using T = decltype(bits);
    return NonzeroLoops{&Count<T>, &Places<T>};
  });
}

}  // namespace et::kernels::optimized::order::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::order {

HWY_EXPORT(Loops);

namespace {

constexpr size_t kChunk = 256;  // places in a row that a byte can tell

/// The indices in front of the last, counted up row by row.
class RowIndex {
 public:
  explicit RowIndex(const Tensor& self) : self_(self), rank_(self.dim()) {}

  const int64_t* values() const { return values_; }
  void next() {
    for (int64_t d = rank_ - 2; d >= 0 && ++values_[d] == self_.size(d); --d) {
      values_[d] = 0;
    }
  }

 private:
  const Tensor& self_;
  int64_t rank_;
  int64_t values_[runtime::kMaxRank] = {};
};

Error nonzero_out(KernelContext& context, const Tensor& self, Tensor& out) {
  const bool is_float = is_floating(self.scalar_type());
  const NonzeroLoops loops = HWY_DYNAMIC_DISPATCH(Loops)(self.element_size());
  const auto* const data = static_cast<const char*>(self.const_data_ptr());
  const auto numel = static_cast<size_t>(self.numel());
  const auto rank = static_cast<size_t>(self.dim());
  const size_t count = numel == 0 ? 0 : loops.count(data, numel, is_float);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {static_cast<int64_t>(count), self.dim()}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  auto* to = static_cast<int64_t*>(out.mutable_data_ptr());
  int64_t* const end = to + count * rank;
  const auto columns = static_cast<size_t>(self.size(self.dim() - 1));
  RowIndex row(self);
  uint8_t places[kChunk];
  for (size_t r = 0; r < numel / columns; ++r, row.next()) {
    for (size_t c = 0; c < columns; c += kChunk) {
      const size_t n = std::min(kChunk, columns - c);
      const size_t found = loops.places(data + (r * columns + c) * self.element_size(), n, is_float, places);
      const size_t room = static_cast<size_t>(end - to) / rank;
      for (size_t i = 0; i < std::min(found, room); ++i) {
        for (size_t d = 0; d + 1 < rank; ++d) {
          *to++ = row.values()[d];
        }
        *to++ = static_cast<int64_t>(c + places[i]);
      }
    }
  }
  std::fill(to, end, int64_t{0});  // nothing, unless the writing changed what was read
  return Error::Ok;
}

// nonzero(self, out)
bool fits_nonzero(Arguments args) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  return (is_number(dtype) || dtype == ScalarType::Bool) && args[1]->to_tensor().scalar_type() == ScalarType::Long &&
         is_row_major(*args[0]) && is_row_major(*args[1]);
}

constexpr Kernel kKernels[] = {make_fitting_kernel<&nonzero_out, &fits_nonzero>("aten::nonzero.out")};

}  // namespace

ET_KERNEL_TABLE(nonzero, kKernels)

}  // namespace et::kernels::optimized::order
#endif  // HWY_ONCE
