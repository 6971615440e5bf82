// Factors of symmetric matrices that need not be positive, by panels of columns: the rest of the matrix is reached by
// one product a panel. Source: J. Bunch, L. Kaufman, "Some stable methods for calculating inertia and solving symmetric
// linear systems", 1977; a column is brought up to date where it is looked at, as in G. Golub, C. Van Loan, "Matrix
// Computations", 4.4.

#include "kernels/optimized/linalg/dense.h"
#include "kernels/portable/symmetric_exchange.h"

namespace et::kernels::optimized::linalg {
namespace {

/// Columns of a panel as rows: `factors` is L, `whole` L D. What they take off the rest of the matrix is not yet done.
template <typename T>
struct LdlPanel {
  Dense<T> a, factors, whole;
  int64_t done = 0;
  struct Exchange {
    int64_t column, row, other;  // rows that were exchanged when `column` of the panel was made
  };
  Exchange exchanges[kPanelWidth];
  int64_t exchanged = 0;

  /// Column `index` as it would be by now, from row k on. k: the first column that is not factored.
  void load(const MatrixLines<T>& lines, int64_t k, int64_t index, T* column) const {
    for (int64_t i = k; i < index; ++i) {
      column[i] = a(index, i);
    }
    for (int64_t i = std::max(k, index); i < a.rows; ++i) {
      column[i] = a(i, index);
    }
    T by[kPanelWidth];
    for (int64_t l = 0; l < done; ++l) {
      by[l] = -whole(l, index);
    }
    lines.add(column + k, factors.data + k, factors.stride, by, done, a.rows - k);
  }

  /// Exchanges p < q of what is left of a, from column k on, and of what has been made.
  void exchange(int64_t k, int64_t p, int64_t q) {
    portable::exchange_symmetric(a, k, p, q);
    for (int64_t l = 0; l < done; ++l) {
      std::swap(factors(l, p), factors(l, q));
      std::swap(whole(l, p), whole(l, q));
    }
    exchanges[exchanged++] = {done, p, q};
  }
};

/// The column's place of the largest number below row k.
template <typename T>
int64_t largest_below(const T* column, int64_t k, int64_t n) {
  int64_t largest = k;
  T size = T(0);
  for (int64_t i = k + 1; i < n; ++i) {
    if (std::fabs(column[i]) > size) {
      size = std::fabs(column[i]);
      largest = i;
    }
  }
  return largest;
}

}  // namespace

template <typename T>
Error factor_ldl(DenseWork<T>& work, const Dense<T>& a, double* pivots, int64_t* info) {
  const T alpha = static_cast<T>((1.0 + std::sqrt(17.0)) / 8.0);
  const int64_t n = a.rows;
  *info = 0;
  LdlPanel<T> panel;
  panel.a = a;
  ET_TRY(panel.factors, work.matrix(kPanelWidth, n));
  ET_TRY(panel.whole, work.matrix(kPanelWidth, n));
  for (int64_t start = 0; start < n;) {
    ET_CHECK_OR_RETURN(!work.cancelled(), Cancelled, "LDL factors: cancelled");
    panel.done = panel.exchanged = 0;
    while (start + panel.done < n && panel.done + 2 <= kPanelWidth) {
      const int64_t done = panel.done, k = start + done;
      T *const w = panel.whole[done], *const other = panel.whole[done + 1];
      panel.load(work.lines, k, k, w);
      const int64_t largest = largest_below(w, k, n);
      const T below = largest == k ? T(0) : std::fabs(w[largest]), diagonal = std::fabs(w[k]);
      if (std::max(diagonal, below) == T(0) || std::isnan(diagonal)) {
        *info = *info == 0 ? k + 1 : *info;
        std::copy(w + k, w + n, panel.factors[done] + k);
        std::fill(w + k, w + n, T(0));
        w[k] = panel.factors(done, k);
        pivots[k] = static_cast<double>(k + 1);
        panel.done += 1;
        continue;
      }
      int64_t pivot = k, width = 1;
      if (diagonal < alpha * below) {
        panel.load(work.lines, k, largest, other);
        T row = T(0);
        for (int64_t i = k; i < n; ++i) {
          row = i == largest ? row : std::max(row, std::fabs(other[i]));
        }
        if (!(diagonal >= alpha * below * (below / row))) {
          pivot = largest;
          if (std::fabs(other[largest]) >= alpha * row) {
            std::copy(other + k, other + n, w + k);
          } else {
            width = 2;
          }
        }
      }
      const int64_t place = k + width - 1;
      if (pivot != place) {
        panel.exchange(k, place, pivot);
        std::swap(w[place], w[pivot]);
        std::swap(other[place], other[pivot]);
      }
      T *const first = panel.factors[done], *const second = panel.factors[done + 1];
      if (width == 1) {
        for (int64_t i = k + 1; i < n; ++i) {
          first[i] = w[i] / w[k];
        }
        first[k] = w[k];
        pivots[k] = static_cast<double>(pivot + 1);
      } else {
        const T off = w[k + 1], upper = other[k + 1] / off, lower = w[k] / off;
        const T scale = T(1) / (upper * lower - T(1)) / off;
        for (int64_t i = k + 2; i < n; ++i) {
          first[i] = scale * (upper * w[i] - other[i]);
          second[i] = scale * (lower * other[i] - w[i]);
        }
        first[k] = w[k];
        first[k + 1] = off;
        second[k + 1] = other[k + 1];
        pivots[k] = pivots[k + 1] = -static_cast<double>(pivot + 1);
      }
      panel.done += width;
    }
    const int64_t count = panel.done, next = start + count;
    constexpr int64_t kColumns = 192;  // of the rest, of which the lower triangle is wanted
    for (int64_t j = next; j < n; j += kColumns) {
      const int64_t width = std::min(kColumns, n - j), height = n - j;
      ET_RETURN_IF_ERROR(work.subtract(transposed(panel.factors.block(0, j, count, height)),
                                       panel.whole.block(0, j, count, width), a.block(j, j, height, width)));
    }
    for (int64_t i = panel.exchanged - 1; i >= 0; --i) {  // columns keep the order of rows that they were made in
      const auto& [column, row, other] = panel.exchanges[i];
      for (int64_t l = 0; l < column; ++l) {
        std::swap(panel.factors(l, row), panel.factors(l, other));
      }
    }
    for (int64_t l = 0; l < count; ++l) {
      for (int64_t i = start + l; i < n; ++i) {
        a(i, start + l) = panel.factors(l, i);
      }
    }
    start = next;
  }
  return Error::Ok;
}

#define ET_INSTANTIATE(T) \
  template Error factor_ldl(DenseWork<T>& work, const Dense<T>& a, double* pivots, int64_t* info);
ET_INSTANTIATE(float)
ET_INSTANTIATE(double)
#undef ET_INSTANTIATE

}  // namespace et::kernels::optimized::linalg
