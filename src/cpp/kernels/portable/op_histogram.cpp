// Histograms over one or several dimensions: counts of elements between edges.
#include "kernels/portable/op_histogram.h"

#include <cmath>

#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

using OptionalRange = std::optional<Span<const double>>;

/// The edges of the bins of one dimension.
struct Edges {
  double* values;  // [bins + 1], ascending
  int64_t bins;

  /// The bin of a value; -1 outside. The last bin holds its right edge.
  int64_t find(double value) const {
    if (!(value >= values[0] && value <= values[bins])) {
      return -1;
    }
    int64_t low = 0, high = bins;  // values[low] <= value, and value < values[high] unless high == bins
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (value < values[middle] ? high : low) = middle;
    }
    return low;
  }
};

// Evenly spaced, in the arithmetic of the element type, from both ends as linspace has it.
template <typename T>
void space_evenly(const Edges& edges, T first, T last) {
  const int64_t count = edges.bins + 1;
  const T step = (last - first) / static_cast<T>(edges.bins);
  for (int64_t i = 0; i < count; ++i) {
    edges.values[i] = static_cast<double>(i < count / 2 ? first + step * static_cast<T>(i)
                                                        : last - step * static_cast<T>(count - 1 - i));
  }
}

// Edges of dimension `d` of the points [rows, width]: the range given, or that of the data.
Error make_edges(KernelContext& context, const char* op, const Tensor& points, int64_t width, int64_t d, int64_t bins,
                 const OptionalRange& range, Edges* edges) {
  constexpr int64_t kMostBins = 2147483647;  // no allocation wraps around
  ET_CHECK_OR_RETURN(bins > 0 && bins <= kMostBins, InvalidArgument,
                     "%s: bins is %" PRId64 ", must be positive and below 2^31", op, bins);
  double low = 0.0, high = 0.0;
  if (range.has_value()) {
    ET_CHECK_OR_RETURN(range->size() == 2 * static_cast<size_t>(width), InvalidArgument,
                       "%s: range holds %zu numbers, must hold two a dimension", op, range->size());
    low = (*range)[2 * static_cast<size_t>(d)];
    high = (*range)[2 * static_cast<size_t>(d) + 1];
  } else if (points.numel() > 0) {
    for (int64_t i = d; i < points.numel(); i += width) {
      const double value = load_one<double>(points.scalar_type(), points.const_data_ptr(), i);
      low = i == d || value < low ? value : low;
      high = i == d || value > high ? value : high;
    }
  }
  ET_CHECK_OR_RETURN(std::isfinite(low) && std::isfinite(high) && low <= high, InvalidArgument,
                     "%s: the range from %g to %g is not one", op, low, high);
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(bins + 1) * sizeof(double)));
  *edges = {static_cast<double*>(memory), bins};
  if (points.scalar_type() == ScalarType::Double) {
    space_evenly<double>(*edges, low, high);
  } else {
    space_evenly<float>(*edges, static_cast<float>(low), static_cast<float>(high));
  }
  return Error::Ok;
}

Error check_points(const char* op, const Tensor& self, const OptionalTensor& weight, int64_t width) {
  ET_CHECK_OR_RETURN(self.scalar_type() == ScalarType::Float || self.scalar_type() == ScalarType::Double, InvalidType,
                     "%s: self is %s, must be torch.float32 or torch.float64", op, to_string(self.scalar_type()));
  ET_CHECK_OR_RETURN(!weight.has_value() || weight->numel() * width == self.numel(), InvalidArgument,
                     "%s: weights of shape %s do not go with points of shape %s", op,
                     ShapeText(weight.has_value() ? IntArrayRef(weight->sizes()) : IntArrayRef()).text,
                     ShapeText(self.sizes()).text);
  return check_row_major(op, {&self, weight.has_value() ? &*weight : &self});
}

Error read_edges(KernelContext& context, const char* op, const Tensor& bins, Edges* edges) {
  ET_RETURN_IF_ERROR(check_rank(op, "bins", bins, 1, 1));
  ET_CHECK_OR_RETURN(bins.numel() > 0, InvalidArgument, "%s: there are no edges", op);
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(bins.numel()) * sizeof(double)));
  *edges = {static_cast<double*>(memory), bins.numel() - 1};
  load<double>(bins.scalar_type(), bins.const_data_ptr(), 1, bins.numel(), edges->values);
  return Error::Ok;
}

// Counts points [rows, width] into the cells that the edges span, row-major.
Error count(KernelContext& context, const Tensor& self, const OptionalTensor& weight, bool density, const Edges* edges,
            int64_t width, const Tensor& out) {
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(out.numel()) * sizeof(double)));
  double* cells = static_cast<double*>(memory);
  for (int64_t i = 0; i < out.numel(); ++i) {
    cells[i] = 0.0;
  }
  for (int64_t row = 0; row * width < self.numel(); ++row) {
    int64_t cell = 0;
    for (int64_t d = 0; d < width && cell >= 0; ++d) {
      const double value = load_one<double>(self.scalar_type(), self.const_data_ptr(), row * width + d);
      const int64_t bin = edges[d].find(value);
      cell = bin < 0 ? -1 : cell * edges[d].bins + bin;
    }
    if (cell >= 0) {
      cells[cell] += weight.has_value() ? load_one<double>(weight->scalar_type(), weight->const_data_ptr(), row) : 1.0;
    }
  }
  if (density) {
    double total = 0.0;
    for (int64_t i = 0; i < out.numel(); ++i) {
      total += cells[i];
    }
    for (int64_t i = 0; i < out.numel(); ++i) {
      double volume = 1.0;
      int64_t rest = i;
      for (int64_t d = width - 1; d >= 0; --d) {
        const int64_t bin = rest % edges[d].bins;
        volume *= edges[d].values[bin + 1] - edges[d].values[bin];
        rest /= edges[d].bins;
      }
      cells[i] /= total * volume;
    }
  }
  store<double>(out.scalar_type(), cells, out.numel(), out.mutable_data_ptr(), 1);
  return Error::Ok;
}

Error plan_points(KernelContext& context, const char* op, const Tensor& self, IntArrayRef bins,
                  const OptionalRange& range, const OptionalTensor& weight, Edges* edges) {
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, 1, kMaxRank));
  const auto width = static_cast<int64_t>(bins.size());
  ET_CHECK_OR_RETURN(width > 0 && bins.size() <= kMaxRank && self.size(-1) == width, InvalidArgument,
                     "%s: points of shape %s and %zu numbers of bins do not go together", op,
                     ShapeText(self.sizes()).text, bins.size());
  ET_RETURN_IF_ERROR(check_points(op, self, weight, width));
  for (int64_t d = 0; d < width; ++d) {
    ET_RETURN_IF_ERROR(make_edges(context, op, self, width, d, bins[static_cast<size_t>(d)], range, &edges[d]));
  }
  return Error::Ok;
}

}  // namespace

Error histogram_bin_ct_out(KernelContext& context, const Tensor& self, int64_t bins, OptionalRange range,
                           const OptionalTensor& weight, bool density, Tensor& hist, Tensor& bin_edges) {
  constexpr const char* kOp = "aten::histogram";
  ET_RETURN_IF_ERROR(check_points(kOp, self, weight, 1));
  Edges edges{};
  ET_RETURN_IF_ERROR(make_edges(context, kOp, self, 1, 0, bins, range, &edges));
  ET_RETURN_IF_ERROR(resize_tensor(context, hist, {bins}));
  ET_RETURN_IF_ERROR(resize_tensor(context, bin_edges, {bins + 1}));
  store<double>(bin_edges.scalar_type(), edges.values, bins + 1, bin_edges.mutable_data_ptr(), 1);
  return count(context, self, weight, density, &edges, 1, hist);
}

Error histogram_bins_tensor_out(KernelContext& context, const Tensor& self, const Tensor& bins,
                                const OptionalTensor& weight, bool density, Tensor& hist, Tensor& bin_edges) {
  constexpr const char* kOp = "aten::histogram";
  ET_RETURN_IF_ERROR(check_points(kOp, self, weight, 1));
  Edges edges{};
  ET_RETURN_IF_ERROR(read_edges(context, kOp, bins, &edges));
  const int64_t n = edges.bins;
  ET_RETURN_IF_ERROR(resize_tensor(context, hist, {n}));
  ET_RETURN_IF_ERROR(resize_tensor(context, bin_edges, {n + 1}));
  store<double>(bin_edges.scalar_type(), edges.values, n + 1, bin_edges.mutable_data_ptr(), 1);
  return n == 0 ? Error::Ok : count(context, self, weight, density, &edges, 1, hist);
}

Error histogramdd_bin_edges_out(KernelContext& context, const Tensor& self, IntArrayRef bins, OptionalRange range,
                                const OptionalTensor& weight, bool, TensorList out) {
  constexpr const char* kOp = "aten::_histogramdd_bin_edges";
  Edges edges[kMaxRank];
  ET_RETURN_IF_ERROR(plan_points(context, kOp, self, bins, range, weight, edges));
  ET_CHECK_OR_RETURN(out.size() == bins.size(), InvalidArgument, "%s: %zu outputs for %zu dimensions", kOp, out.size(),
                     bins.size());
  for (size_t d = 0; d < bins.size(); ++d) {
    ET_RETURN_IF_ERROR(resize_tensor(context, out[d], {bins[d] + 1}));
    store<double>(out[d].scalar_type(), edges[d].values, bins[d] + 1, out[d].mutable_data_ptr(), 1);
  }
  return Error::Ok;
}

Error histogramdd_from_bin_cts_out(KernelContext& context, const Tensor& self, IntArrayRef bins, OptionalRange range,
                                   const OptionalTensor& weight, bool density, Tensor& out) {
  constexpr const char* kOp = "aten::_histogramdd_from_bin_cts";
  Edges edges[kMaxRank];
  ET_RETURN_IF_ERROR(plan_points(context, kOp, self, bins, range, weight, edges));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, bins));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&out}));
  return count(context, self, weight, density, edges, static_cast<int64_t>(bins.size()), out);
}

Error histogramdd_from_bin_tensors_out(KernelContext& context, const Tensor& self, TensorList bins,
                                       const OptionalTensor& weight, bool density, Tensor& out) {
  constexpr const char* kOp = "aten::_histogramdd_from_bin_tensors";
  const auto width = static_cast<int64_t>(bins.size());
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, kMaxRank));
  ET_CHECK_OR_RETURN(width > 0 && bins.size() <= kMaxRank && self.size(-1) == width, InvalidArgument,
                     "%s: points of shape %s and %zu lists of edges do not go together", kOp,
                     ShapeText(self.sizes()).text, bins.size());
  ET_RETURN_IF_ERROR(check_points(kOp, self, weight, width));
  Edges edges[kMaxRank];
  Sizes sizes;
  for (size_t d = 0; d < bins.size(); ++d) {
    ET_RETURN_IF_ERROR(read_edges(context, kOp, bins[d], &edges[d]));
    sizes.push_back(edges[d].bins);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&out}));
  return count(context, self, weight, density, edges, width, out);
}

}  // namespace et::kernels::portable
