// searchsorted and bucketize where values and sequences have one type, which they are compared in.
//
// A search probes what ATen's probes, so that sequences that are not sorted give the same positions, too; which half
// goes on is chosen without a branch, since nobody can guess it.

#include <optional>

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/search_plan.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::order {
namespace {

/// How many elements of sorted[0, n) are < value, or <= value from the right; all of them for a value that is no
/// number.
template <bool kRight, typename T>
size_t position_of(const T* sorted, size_t n, T value) {
  size_t low = 0;
  size_t high = n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const bool is_before = kRight ? !(sorted[middle] > value) : !(sorted[middle] >= value);
    low = is_before ? middle + 1 : low;
    high = is_before ? high : middle;
  }
  return low;
}

struct Sequences {
  const void* sorted;
  const void* values;
  void* out;
  size_t length;        // of a sequence
  size_t per_sequence;  // values that are looked up in one
};

template <typename T, typename Index, bool kRight>
void search_values(const Sequences& s, size_t begin, size_t end) {
  const auto* const values = static_cast<const T*>(s.values);
  auto* const out = static_cast<Index*>(s.out);
  for (size_t i = begin; i < end; ++i) {
    const T* const sorted = static_cast<const T*>(s.sorted) + i / s.per_sequence * s.length;
    out[i] = static_cast<Index>(position_of<kRight, T>(sorted, s.length, values[i]));
  }
}

using SearchValues = void (*)(const Sequences& s, size_t begin, size_t end);

template <typename T>
SearchValues search_of(bool out_int32, bool right) {
  if (out_int32) {
    return right ? &search_values<T, int32_t, true> : &search_values<T, int32_t, false>;
  }
  return right ? &search_values<T, int64_t, true> : &search_values<T, int64_t, false>;
}

Error search(KernelContext& context, const char* op, const Tensor& sorted, const Tensor& values, bool out_int32,
             bool right, Tensor& out) {
  ET_TRY(const portable::SearchPlan plan, portable::plan_search(context, op, sorted, values, out_int32, out));
  const Sequences sequences{sorted.const_data_ptr(), values.const_data_ptr(), out.mutable_data_ptr(),
                            static_cast<size_t>(plan.length), static_cast<size_t>(plan.values)};
  SearchValues search_some = nullptr;
  ET_RETURN_IF_ERROR(portable::dispatch<portable::RealTypes>(values.scalar_type(), op, [&](auto tag) {
    search_some = search_of<typename decltype(tag)::type>(out_int32, right);
    return Error::Ok;
  }));
  size_t cost = 8;  // of a value, next to copying it
  for (size_t n = sequences.length; n > 0; n /= 2) {
    cost += 8;
  }
  threads::parallel_for(context, static_cast<size_t>(values.numel()), threads::grain_for(cost),
                        [&](size_t begin, size_t end) { search_some(sequences, begin, end); });
  return Error::Ok;
}

Error bucketize_tensor_out(KernelContext& context, const Tensor& self, const Tensor& boundaries, bool out_int32,
                           bool right, Tensor& out) {
  ET_RETURN_IF_ERROR(portable::check_rank("aten::bucketize", "boundaries", boundaries, 1, 1));
  return search(context, "aten::bucketize", boundaries, self, out_int32, right, out);
}

Error searchsorted_tensor_out(KernelContext& context, const Tensor& sorted_sequence, const Tensor& self, bool out_int32,
                              bool right, std::optional<std::string_view> side, const OptionalTensor&, Tensor& out) {
  const bool from_right = right || (side.has_value() && *side == "right");
  return search(context, "aten::searchsorted", sorted_sequence, self, out_int32, from_right, out);
}

bool fits_search(const EValue& sorted, const EValue& values, const EValue& out) {
  const ScalarType dtype = values.to_tensor().scalar_type();
  return sorted.to_tensor().scalar_type() == dtype && is_number(dtype) && is_row_major(sorted) &&
         is_row_major(values) && is_row_major(out);
}
/// (self, boundaries, out_int32, right, out)
bool fits_bucketize(Arguments args) { return fits_search(*args[1], *args[0], *args[4]); }
/// (sorted_sequence, self, out_int32, right, side, sorter, out): nothing says in which order the sequences are to be
/// read.
bool fits_searchsorted(Arguments args) { return args[5]->is_none() && fits_search(*args[0], *args[1], *args[6]); }

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&bucketize_tensor_out, &fits_bucketize>("aten::bucketize.Tensor_out"),
    make_fitting_kernel<&searchsorted_tensor_out, &fits_searchsorted>("aten::searchsorted.Tensor_out"),
};

}  // namespace

ET_KERNEL_TABLE(search, kKernels)

}  // namespace et::kernels::optimized::order
