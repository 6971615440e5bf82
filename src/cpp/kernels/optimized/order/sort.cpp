// Order along one dimension: sort, topk, kthvalue, median. NaN counts as the largest value, as in ATen.
//
// Elements become unsigned keys whose order is the wanted one (for descending order: their complements). Each has its
// position below it, so that keys compare without a branch on the type, no two are equal and every method is stable. A
// sort is a radix sort from the lowest digit; the others select.
//
// Source: D. Knuth, The Art of Computer Programming 3, 5.2.5 (radix sort); M. Herf, "Radix tricks", 2001 (keys of
// floats).

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::order {
namespace {

using portable::dispatch;
using portable::Sizes;
using portable::TypeTag;

/// An unsigned number that orders as `value` does: NaN last, the two zeros equal.
template <typename T>
auto order_key(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return order_key(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    constexpr Bits kSign = Bits(1) << (8 * sizeof(T) - 1);
    Bits bits;
    std::memcpy(&bits, &value, sizeof(bits));
    bits = value == T(0) ? 0 : bits;
    const Bits key = (bits & kSign) != 0 ? ~bits : bits | kSign;
    return std::isnan(value) ? ~Bits(0) : key;
  } else if constexpr (sizeof(T) == 8) {
    return static_cast<uint64_t>(value) ^ (uint64_t{1} << 63);
  } else {
    return static_cast<uint32_t>(static_cast<int32_t>(value)) ^ 0x80000000u;
  }
}

/// A key of up to 32 bits above a position.
struct NarrowItem {
  uint64_t both;

  static constexpr size_t kDigits = 4;
  NarrowItem() = default;
  NarrowItem(uint32_t key, size_t position) : both(uint64_t{key} << 32 | position) {}
  size_t position() const { return both & 0xffffffffu; }
  void move_by(size_t positions) { both += positions; }
  size_t digit(size_t i) const { return both >> (32 + 8 * i) & 0xff; }
  friend bool operator<(NarrowItem a, NarrowItem b) { return a.both < b.both; }
};

/// A key of 64 bits and a position.
struct WideItem {
  uint64_t key;
  uint64_t place;

  static constexpr size_t kDigits = 8;
  WideItem() = default;
  WideItem(uint64_t key_bits, size_t position) : key(key_bits), place(position) {}
  size_t position() const { return place; }
  void move_by(size_t positions) { place += positions; }
  size_t digit(size_t i) const { return key >> (8 * i) & 0xff; }
  friend bool operator<(const WideItem& a, const WideItem& b) {
    return a.key != b.key ? a.key < b.key : a.place < b.place;
  }
};

template <typename T>
using Item = std::conditional_t<sizeof(T) == 8, WideItem, NarrowItem>;

/// Items between two looks at whether the caller asked to stop.
constexpr size_t kLook = 1 << 16;
/// Items that std::nth_element and its kin, which cannot look, take some milliseconds for.
constexpr size_t kMostAtOnce = 1 << 18;

template <typename T>
bool is_nan(T value) {
  return !std::is_integral_v<T> && std::isnan(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(value));
}

/// The items of `n` elements, `stride` apart. Returns the first position of a NaN, or n. The compiler makes vectors of
/// the first loop as long as nothing else stands in it.
template <typename T>
[[gnu::noinline]] size_t make_some_items(const T* from, size_t stride, size_t n, bool descending, Item<T>* items) {
  unsigned nans = 0;
  for (size_t i = 0; i < n; ++i) {
    const T value = from[i * stride];
    const auto key = order_key(value);
    items[i] = Item<T>(descending ? static_cast<decltype(key)>(~key) : key, i);
    nans |= is_nan(value);
  }
  size_t first_nan = nans != 0 ? 0 : n;
  while (first_nan != n && !is_nan(from[first_nan * stride])) {
    ++first_nan;
  }
  return first_nan;
}

/// The items of a whole lane, two million at a time, whose fresh memory takes some milliseconds.
template <typename T>
size_t make_items(const KernelContext& context, const T* from, size_t stride, size_t n, bool descending,
                  Item<T>* items) {
  size_t first_nan = n;
  threads::in_pieces(context, n, 1 << 21, [&](size_t begin, size_t end) {
    Item<T>* const some = items + begin;
    const size_t nan = make_some_items(from + begin * stride, stride, end - begin, descending, some);
    first_nan = nan < end - begin && first_nan == n ? begin + nan : first_nan;
    for (size_t i = 0; begin != 0 && i < end - begin; ++i) {
      some[i].move_by(begin);
    }
  });
  return first_nan;
}

/// Sorts n items; `scratch` has room for as many. False when the caller asked to stop; the items are in no order then.
template <typename I>
bool sort_items(const KernelContext& context, I* items, I* scratch, size_t n) {
  constexpr size_t kWorthCounting = 256;  // below, 256 counters for each digit are more work than comparing
  if (n < kWorthCounting) {
    std::sort(items, items + n);
    return true;
  }
  uint32_t counts[I::kDigits][256] = {};
  bool goes_on = threads::in_pieces(context, n, kLook, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      for (size_t d = 0; d < I::kDigits; ++d) {
        ++counts[d][items[i].digit(d)];
      }
    }
  });
  I* from = items;
  I* to = scratch;
  for (size_t d = 0; d < I::kDigits && goes_on; ++d) {
    if (counts[d][from[0].digit(d)] == n) {
      continue;  // one digit for all
    }
    uint32_t start = 0;
    for (uint32_t& count : counts[d]) {
      const uint32_t size = count;
      count = start;
      start += size;
    }
    goes_on = threads::in_pieces(context, n, kLook, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        to[counts[d][from[i].digit(d)]++] = from[i];
      }
    });
    std::swap(from, to);
  }
  if (from != items) {
    goes_on =
        threads::in_pieces(context, n, kLook,
                           [&](size_t begin, size_t end) {
                             std::memcpy(static_cast<void*>(items + begin), from + begin, (end - begin) * sizeof(I));
                           }) &&
        goes_on;
  }
  return goes_on;
}

/// As std::nth_element: item `rank` gets its place, smaller ones come before it. By one digit after the other from the
/// highest on while there are many with the same ones; they are in the order of their positions. `scratch` has room for
/// as many. False when the caller asked to stop.
template <typename I>
bool select_rank(const KernelContext& context, I* items, I* scratch, size_t n, size_t rank) {
  size_t first = 0, end = n;  // of the items that may be the one
  for (size_t d = I::kDigits; d-- > 0 && end - first > kMostAtOnce;) {
    size_t counts[256] = {};
    I* const some = items + first;
    const size_t count = end - first;
    if (!threads::in_pieces(context, count, kLook, [&](size_t i, size_t last) {
          for (; i < last; ++i) {
            ++counts[some[i].digit(d)];
          }
        })) {
      return false;
    }
    size_t digit = 0, before = 0;
    while (first + before + counts[digit] <= rank) {
      before += counts[digit++];
    }
    if (counts[digit] == count) {
      continue;
    }
    size_t at[3] = {0, before, before + counts[digit]};  // of smaller, equal and larger digits
    const size_t next[] = {first + at[1], first + at[2]};
    const bool goes_on = threads::in_pieces(context, count, kLook,
                                            [&](size_t i, size_t last) {
                                              for (; i < last; ++i) {
                                                const size_t own = some[i].digit(d);
                                                scratch[at[own < digit ? 0 : own == digit ? 1 : 2]++] = some[i];
                                              }
                                            }) &&
                         threads::in_pieces(context, count, kLook, [&](size_t i, size_t last) {
                           std::memcpy(static_cast<void*>(some + i), scratch + i, (last - i) * sizeof(I));
                         });
    if (!goes_on) {
      return false;
    }
    first = next[0];
    end = next[1];
  }
  if (end - first <= kMostAtOnce) {
    std::nth_element(items + first, items + rank, items + end);
  }
  return true;
}

/// Brings the `count` smallest items to the front, in order. False when the caller asked to stop.
template <typename I>
bool select_items(const KernelContext& context, I* items, I* scratch, size_t n, size_t count) {
  constexpr size_t kHeapFactor = 64;  // a heap of the best pays while they are few
  if (count * kHeapFactor <= n && count <= kMostAtOnce) {
    // As std::partial_sort, which does not look.
    std::make_heap(items, items + count);
    const bool goes_on = threads::in_pieces(context, n - count, kLook, [&](size_t begin, size_t end) {
      I worst = items[0];
      for (I* item = items + count + begin; item != items + count + end; ++item) {
        if (*item < worst) {
          std::pop_heap(items, items + count);
          std::swap(items[count - 1], *item);
          std::push_heap(items, items + count);
          worst = items[0];
        }
      }
    });
    if (!goes_on) {
      return false;
    }
    std::sort_heap(items, items + count);
    return true;
  }
  if (count < n && !select_rank(context, items, scratch, n, count)) {
    return false;
  }
  if (count > kMostAtOnce) {
    return sort_items(context, items, scratch, count);
  }
  std::sort(items, items + count);
  return true;
}

/// The lanes of tensors along `dim`. Outputs may have another extent there, or (dim < 0) not have the dimension at all.
struct Lanes {
  size_t count = 1;
  size_t length = 1;
  size_t stride = 1;

  /// One lane of all elements, in memory order.
  explicit Lanes(const Tensor& self) : length(static_cast<size_t>(self.numel())), dim_(0) {}
  Lanes(const Tensor& self, int64_t dim) : dim_(dim), sizes_(self.sizes()) {
    if (self.dim() > 0) {
      length = static_cast<size_t>(self.size(dim));
      stride = static_cast<size_t>(self.stride(dim));
      sizes_[dim] = 1;
      count = static_cast<size_t>(sizes_.numel());
    }
  }

  /// Offset, in elements, of lane number `lane` in a tensor that has the dimension (perhaps with size 1) or lacks it.
  size_t offset_of(const Tensor& tensor, size_t lane) const {
    const bool lacks = tensor.dim() < static_cast<int64_t>(sizes_.size());
    auto rest = static_cast<int64_t>(lane);
    int64_t offset = 0;
    for (int64_t d = static_cast<int64_t>(sizes_.size()) - 1; d >= 0; --d) {
      if (d != dim_) {
        offset += rest % sizes_[d] * tensor.stride(lacks && d > dim_ ? d - 1 : d);
        rest /= sizes_[d];
      }
    }
    return static_cast<size_t>(offset);
  }

 private:
  int64_t dim_;
  Sizes sizes_;
};

/// Makes the items of each lane (the smallest first, or with `descending` the largest) and calls
/// f(tag of the element type, lane, items, scratch, first NaN) for each, on several threads. `cost`: of an item, next
/// to a copy.
template <typename F>
Error for_each_lane(KernelContext& context, const char* op, const Tensor& self, const Lanes& lanes, bool descending,
                    size_t cost, F&& f) {
  ET_CHECK_OR_RETURN(lanes.length <= std::numeric_limits<uint32_t>::max(), NotSupported, "%s: a lane of %zu elements",
                     op, lanes.length);
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t worth = lanes.count / threads::grain_for(lanes.length * cost);
  const size_t groups = std::min(worth < 2 ? 1 : 2 * threads, lanes.count);
  return dispatch<portable::RealAndBoolTypes>(self.scalar_type(), op, [&](auto tag) {
    // A bool is read as the byte it is.
    using Element = typename decltype(tag)::type;
    using T = std::conditional_t<std::is_same_v<Element, bool>, uint8_t, Element>;
    const size_t nbytes = 2 * lanes.length * sizeof(Item<T>);
    ET_TRY(void* const memory, context.allocate_temp(groups * nbytes));
    const auto* const data = static_cast<const T*>(self.const_data_ptr());
    threads::parallel_tasks(context.pool(), groups, [&](size_t group) {
      auto* const items = reinterpret_cast<Item<T>*>(static_cast<char*>(memory) + group * nbytes);
      for (size_t lane = group * lanes.count / groups; lane < (group + 1) * lanes.count / groups; ++lane) {
        const size_t nan =
            make_items(context, data + lanes.offset_of(self, lane), lanes.stride, lanes.length, descending, items);
        if (!context.cancelled()) {
          f(TypeTag<T>{}, lane, items, items + lanes.length, nan);
        }
      }
    });
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", op);
    return Error::Ok;
  });
}

/// The first `count` elements of each lane in order.
Error write_sorted(KernelContext& context, const char* op, const Tensor& self, int64_t dim, int64_t count,
                   bool descending, const Tensor& values, const Tensor& indices) {
  Sizes sizes(self.sizes());
  if (self.dim() > 0) {
    sizes[dim] = count;
  }
  ET_RETURN_IF_ERROR(portable::resize_selection(context, op, self, sizes, values, indices));
  if (sizes.numel() == 0) {
    return Error::Ok;
  }
  const Lanes lanes(self, dim);
  const auto wanted = static_cast<size_t>(self.dim() == 0 ? 1 : count);
  const auto value_stride = static_cast<size_t>(self.dim() == 0 ? 1 : values.stride(dim));
  const auto index_stride = static_cast<size_t>(self.dim() == 0 ? 1 : indices.stride(dim));
  constexpr size_t kCost = 16;
  return for_each_lane(
      context, op, self, lanes, descending, kCost, [&](auto tag, size_t lane, auto* items, auto* scratch, size_t) {
        using T = typename decltype(tag)::type;
        if (!(wanted == lanes.length ? sort_items(context, items, scratch, lanes.length)
                                     : select_items(context, items, scratch, lanes.length, wanted))) {
          return;
        }
        const T* const from = static_cast<const T*>(self.const_data_ptr()) + lanes.offset_of(self, lane);
        T* const value = static_cast<T*>(values.mutable_data_ptr()) + lanes.offset_of(values, lane);
        int64_t* const index = static_cast<int64_t*>(indices.mutable_data_ptr()) + lanes.offset_of(indices, lane);
        threads::in_pieces(context, wanted, kLook, [&](size_t i, size_t end) {
          for (; i < end; ++i) {
            const size_t position = items[i].position();
            value[i * value_stride] = from[position * lanes.stride];
            index[i * index_stride] = static_cast<int64_t>(position);
          }
        });
      });
}

/// What counts of a lane with NaN among its numbers.
enum class Nan : uint8_t { Largest, Wins, Ignored };

/// The median's rank among the numbers of a lane of which some are NaN.
template <typename T>
size_t rank_of_numbers(const T* lane, size_t stride, size_t n) {
  size_t numbers = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(lane[i * stride]);
    numbers += value == value ? 1 : 0;
  }
  return numbers == 0 ? 0 : (numbers - 1) / 2;
}

/// Element number `rank` of each lane in ascending order, NaN being the largest; where NaN wins, the first NaN of a
/// lane that has one; where it is ignored, the median of the others.
Error write_one(KernelContext& context, const char* op, const Tensor& self, int64_t dim, bool keepdim, int64_t rank,
                Nan rule, const Tensor& values, const Tensor& indices) {
  Sizes sizes(self.sizes());
  if (self.dim() > 0 && keepdim) {
    sizes[dim] = 1;
  } else if (self.dim() > 0) {
    sizes.erase(static_cast<size_t>(dim));
  }
  ET_RETURN_IF_ERROR(portable::resize_selection(context, op, self, sizes, values, indices));
  if (sizes.numel() == 0) {
    return Error::Ok;
  }
  const Lanes lanes(self, dim);
  constexpr size_t kCost = 8;
  return for_each_lane(
      context, op, self, lanes, false, kCost, [&](auto tag, size_t lane, auto* items, auto* scratch, size_t nan) {
        using T = typename decltype(tag)::type;
        const T* const from = static_cast<const T*>(self.const_data_ptr()) + lanes.offset_of(self, lane);
        size_t position = nan;
        if (rule != Nan::Wins || nan == lanes.length) {
          const bool skips = rule == Nan::Ignored && nan != lanes.length;
          const size_t place = skips ? rank_of_numbers(from, lanes.stride, lanes.length) : static_cast<size_t>(rank);
          if (!select_rank(context, items, scratch, lanes.length, place)) {
            return;
          }
          position = items[place].position();
        }
        static_cast<T*>(values.mutable_data_ptr())[lanes.offset_of(values, lane)] = from[position * lanes.stride];
        static_cast<int64_t*>(indices.mutable_data_ptr())[lanes.offset_of(indices, lane)] =
            static_cast<int64_t>(position);
      });
}

int64_t length_along(const Tensor& self, int64_t dim) { return self.dim() == 0 ? 1 : self.size(dim); }

Error sort_values(KernelContext& context, const Tensor& self, int64_t dim, bool descending, Tensor& values,
                  Tensor& indices) {
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::sort", dim, self.dim(), &dim));
  return write_sorted(context, "aten::sort", self, dim, length_along(self, dim), descending, values, indices);
}

Error sort_values_stable(KernelContext& context, const Tensor& self, std::optional<bool>, int64_t dim, bool descending,
                         Tensor& values, Tensor& indices) {
  return sort_values(context, self, dim, descending, values, indices);
}

Error topk_values(KernelContext& context, const Tensor& self, int64_t k, int64_t dim, bool largest, bool,
                  Tensor& values, Tensor& indices) {
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::topk", dim, self.dim(), &dim));
  const int64_t length = length_along(self, dim);
  ET_CHECK_OR_RETURN(k >= 0 && k <= length, InvalidArgument,
                     "aten::topk: k is %" PRId64 ", dim %" PRId64 " has %" PRId64 " elements", k, dim, length);
  return write_sorted(context, "aten::topk", self, dim, k, largest, values, indices);
}

Error kthvalue_values(KernelContext& context, const Tensor& self, int64_t k, int64_t dim, bool keepdim, Tensor& values,
                      Tensor& indices) {
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::kthvalue", dim, self.dim(), &dim));
  const int64_t length = length_along(self, dim);
  ET_CHECK_OR_RETURN(k >= 1 && k <= length, InvalidArgument,
                     "aten::kthvalue: k is %" PRId64 ", dim %" PRId64 " has %" PRId64 " elements", k, dim, length);
  return write_one(context, "aten::kthvalue", self, dim, keepdim, k - 1, Nan::Largest, values, indices);
}

Error median_along(KernelContext& context, const char* op, const Tensor& self, int64_t dim, bool keepdim, Nan rule,
                   const Tensor& values, const Tensor& indices) {
  ET_RETURN_IF_ERROR(portable::normalize_dim(op, dim, self.dim(), &dim));
  const int64_t length = length_along(self, dim);
  ET_CHECK_OR_RETURN(length > 0, InvalidArgument, "%s: dim %" PRId64 " is empty", op, dim);
  return write_one(context, op, self, dim, keepdim, (length - 1) / 2, rule, values, indices);
}

Error median_dim_values(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                        Tensor& indices) {
  return median_along(context, "aten::median", self, dim, keepdim, Nan::Wins, values, indices);
}

Error nanmedian_dim_values(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                           Tensor& indices) {
  return median_along(context, "aten::nanmedian", self, dim, keepdim, Nan::Ignored, values, indices);
}

Error median_of_all(KernelContext& context, const char* op, const Tensor& self, Nan rule, const Tensor& out) {
  ET_CHECK_OR_RETURN(self.scalar_type() == out.scalar_type(), InvalidType, "%s: out is %s, must be %s", op,
                     to_string(out.scalar_type()), to_string(self.scalar_type()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {}));
  if (self.numel() == 0) {
    return dispatch<portable::RealAndBoolTypes>(out.scalar_type(), op, [&](auto tag) {
      using T = typename decltype(tag)::type;
      *static_cast<T*>(out.mutable_data_ptr()) =
          std::is_integral_v<T> ? T(0) : static_cast<T>(std::numeric_limits<float>::quiet_NaN());
      return Error::Ok;
    });
  }
  constexpr size_t kCost = 8;
  return for_each_lane(context, op, self, Lanes(self), false, kCost,
                       [&](auto tag, size_t, auto* items, auto* scratch, size_t nan) {
                         using T = typename decltype(tag)::type;
                         const auto n = static_cast<size_t>(self.numel());
                         const T* const from = static_cast<const T*>(self.const_data_ptr());
                         size_t position = nan;
                         if (nan == n || rule == Nan::Ignored) {
                           const size_t rank = nan == n ? (n - 1) / 2 : rank_of_numbers(from, 1, n);
                           if (!select_rank(context, items, scratch, n, rank)) {
                             return;
                           }
                           position = items[rank].position();
                         }
                         *static_cast<T*>(out.mutable_data_ptr()) = from[position];
                       });
}

Error median_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return median_of_all(context, "aten::median", self, Nan::Wins, out);
}

Error nanmedian_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return median_of_all(context, "aten::nanmedian", self, Nan::Ignored, out);
}

/// Every dtype fits but complex ones.
bool fits_order(Arguments args) { return !is_complex(args[0]->to_tensor().scalar_type()); }

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&kthvalue_values, &fits_order>("aten::kthvalue.values"),
    make_fitting_kernel<&median_dim_values, &fits_order>("aten::median.dim_values"),
    make_fitting_kernel<&median_out, &fits_order>("aten::median.out"),
    make_fitting_kernel<&nanmedian_dim_values, &fits_order>("aten::nanmedian.dim_values"),
    make_fitting_kernel<&nanmedian_out, &fits_order>("aten::nanmedian.out"),
    make_fitting_kernel<&sort_values, &fits_order>("aten::sort.values"),
    make_fitting_kernel<&sort_values_stable, &fits_order>("aten::sort.values_stable"),
    make_fitting_kernel<&topk_values, &fits_order>("aten::topk.values"),
};

}  // namespace

ET_KERNEL_TABLE(sort, kKernels)

}  // namespace et::kernels::optimized::order
