#include "kernels/optimized/move/strided_copy.h"

#include "kernels/optimized/vec/targets.h"

// One instruction set is enough: a transpose of 4 x 4 floats uses 16-byte registers everywhere and memory sets the
// pace.
#include "kernels/optimized/vec/transpose4-inl.h"

#include <algorithm>
#include <cstring>

#include "base/rounding.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::move {
namespace {

using HWY_NAMESPACE::transpose4;
namespace hn = hwy::HWY_NAMESPACE;

/// One loop of a copy; strides in bytes.
struct Loop {
  size_t size;
  int64_t from;
  int64_t to;
};

/// The loops of a copy, innermost first, with neighbours merged. The innermost is the one with the smallest step in
/// `to`.
struct Loops {
  Loop loop[runtime::kMaxRank];
  size_t count = 0;
};

Loops plan(const Window& from, const Window& to) {
  const auto bytes = static_cast<int64_t>(from.element_size());
  Loops loops;
  for (size_t d = 0; d < to.sizes.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (to.sizes[dim] == 1) {
      continue;
    }
    const Loop loop{static_cast<size_t>(to.sizes[dim]), from.strides[dim] * bytes, to.strides[dim] * bytes};
    size_t place = loops.count++;
    for (; place > 0 && loops.loop[place - 1].to > loop.to; --place) {
      loops.loop[place] = loops.loop[place - 1];
    }
    loops.loop[place] = loop;
  }
  size_t kept = 0;
  for (size_t i = 0; i < loops.count; ++i) {
    const Loop& next = loops.loop[i];
    if (kept > 0) {
      Loop& last = loops.loop[kept - 1];
      const auto size = static_cast<int64_t>(last.size);
      if (next.to == last.to * size && next.from == last.from * size) {
        last.size *= next.size;
        continue;
      }
    }
    loops.loop[kept++] = next;
  }
  loops.count = kept;
  return loops;
}

template <typename T>
void transpose_scalar(const char* from, char* to, size_t rows, size_t columns, int64_t from_stride, int64_t to_stride) {
  for (size_t c = 0; c < columns; ++c) {
    char* const line = to + static_cast<int64_t>(c) * to_stride;
    for (size_t r = 0; r < rows; ++r) {
      std::memcpy(line + r * sizeof(T), from + static_cast<int64_t>(r) * from_stride + c * sizeof(T), sizeof(T));
    }
  }
}

/// The same for three rows whose columns follow each other in `to`: the channels of a colour image.
template <typename T>
void interleave3(const char* from, char* to, size_t columns, int64_t from_stride) {
  constexpr size_t kLanes = 16 / sizeof(T);
  const hn::FixedTag<T, kLanes> d;
  const auto row = [&](int64_t r) { return reinterpret_cast<const T*>(from + r * from_stride); };
  auto* const out = reinterpret_cast<T*>(to);
  size_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    hn::StoreInterleaved3(hn::LoadU(d, row(0) + c), hn::LoadU(d, row(1) + c), hn::LoadU(d, row(2) + c), d, out + 3 * c);
  }
  transpose_scalar<T>(from + c * sizeof(T), to + 3 * c * sizeof(T), 3, columns - c, from_stride, 3 * sizeof(T));
}

/// And the other way: rows of three columns that follow each other in `from`.
template <typename T>
void separate3(const char* from, char* to, size_t rows, int64_t to_stride) {
  constexpr size_t kLanes = 16 / sizeof(T);
  const hn::FixedTag<T, kLanes> d;
  const auto column = [&](int64_t c) { return reinterpret_cast<T*>(to + c * to_stride); };
  size_t r = 0;
  for (; r + kLanes <= rows; r += kLanes) {
    hn::Vec<decltype(d)> a, b, c;
    hn::LoadInterleaved3(d, reinterpret_cast<const T*>(from) + 3 * r, a, b, c);
    hn::StoreU(a, d, column(0) + r);
    hn::StoreU(b, d, column(1) + r);
    hn::StoreU(c, d, column(2) + r);
  }
  transpose_scalar<T>(from + 3 * r * sizeof(T), to + r * sizeof(T), rows - r, 3, 3 * sizeof(T), to_stride);
}

/// A square of elements of one or two bytes, 16 bytes wide: rows are interleaved with those half of them behind, until
/// each has met all.
template <typename T>
void transpose_square(const char* from, char* to, int64_t from_stride, int64_t to_stride) {
  constexpr size_t kSide = 16 / sizeof(T);
  const hn::FixedTag<T, kSide> d;
  using V = hn::Vec<decltype(d)>;
  V rows[kSide], mixed[kSide];
  for (size_t r = 0; r < kSide; ++r) {
    rows[r] = hn::LoadU(d, reinterpret_cast<const T*>(from + static_cast<int64_t>(r) * from_stride));
  }
  const auto interleave = [&](const V* in, V* out) {
#pragma GCC unroll 8
    for (size_t i = 0; i < kSide / 2; ++i) {
      out[2 * i] = hn::InterleaveLower(d, in[i], in[i + kSide / 2]);
      out[2 * i + 1] = hn::InterleaveUpper(d, in[i], in[i + kSide / 2]);
    }
  };
  interleave(rows, mixed);
  interleave(mixed, rows);
  interleave(rows, mixed);
  if (kSide == 16) {
    interleave(mixed, rows);
  }
  const V* const done = kSide == 16 ? rows : mixed;
  for (size_t c = 0; c < kSide; ++c) {
    hn::StoreU(done[c], d, reinterpret_cast<T*>(to + static_cast<int64_t>(c) * to_stride));
  }
}

/// Squares of a tile, and what is left beside and below them. T: of an element's size.
template <typename T, void (*kTransposeSquare)(const char*, char*, int64_t, int64_t)>
void transpose_squares(const char* from, char* to, size_t rows, size_t columns, int64_t from_stride,
                       int64_t to_stride) {
  constexpr size_t kSide = 16 / sizeof(T);
  const size_t whole_rows = rows / kSide * kSide;
  const size_t whole_columns = columns / kSide * kSide;
  const auto square = [&](size_t r, size_t c) {
    kTransposeSquare(from + static_cast<int64_t>(r) * from_stride + c * sizeof(T),
                     to + static_cast<int64_t>(c) * to_stride + r * sizeof(T), from_stride, to_stride);
  };
  // Lines that a large power of two parts share a few places of the first cache: they are passed a square's at a time.
  const auto power_of_two = [](int64_t stride) { return stride & -stride; };
  if (power_of_two(to_stride) > power_of_two(from_stride)) {
    for (size_t c = 0; c < whole_columns; c += kSide) {
      for (size_t r = 0; r < whole_rows; r += kSide) {
        square(r, c);
      }
    }
  } else {
    for (size_t r = 0; r < whole_rows; r += kSide) {
      for (size_t c = 0; c < whole_columns; c += kSide) {
        square(r, c);
      }
    }
  }
  transpose_scalar<T>(from + whole_columns * sizeof(T), to + static_cast<int64_t>(whole_columns) * to_stride, rows,
                      columns - whole_columns, from_stride, to_stride);
  transpose_scalar<T>(from + static_cast<int64_t>(whole_rows) * from_stride, to + whole_rows * sizeof(T),
                      rows - whole_rows, whole_columns, from_stride, to_stride);
}

/// to[c][r] = from[r][c] for a tile; elements are contiguous along c in `from` and along r in `to`.
template <typename T, void (*kTransposeSquare)(const char*, char*, int64_t, int64_t)>
void transpose_tile_of(const char* from, char* to, size_t rows, size_t columns, int64_t from_stride,
                       int64_t to_stride) {
  if (rows == 3 && to_stride == 3 * static_cast<int64_t>(sizeof(T))) {
    interleave3<T>(from, to, columns, from_stride);
  } else if (columns == 3 && from_stride == 3 * static_cast<int64_t>(sizeof(T))) {
    separate3<T>(from, to, rows, to_stride);
  } else {
    transpose_squares<T, kTransposeSquare>(from, to, rows, columns, from_stride, to_stride);
  }
}

void transpose_tile(const char* from, char* to, size_t rows, size_t columns, int64_t from_stride, int64_t to_stride,
                    size_t element) {
  switch (element) {
    case 1:
      return transpose_tile_of<uint8_t, &transpose_square<uint8_t>>(from, to, rows, columns, from_stride, to_stride);
    case 2:
      return transpose_tile_of<uint16_t, &transpose_square<uint16_t>>(from, to, rows, columns, from_stride, to_stride);
    case 4: return transpose_tile_of<uint32_t, &transpose4>(from, to, rows, columns, from_stride, to_stride);
    default: return transpose_scalar<uint64_t>(from, to, rows, columns, from_stride, to_stride);
  }
}

/// `from` is the last element of a dense line, whose first one comes last: a loop that the compiler makes vectors of.
template <typename T>
void reverse_line(const char* from, char* to, size_t n) {
  const char* const first = from - (n - 1) * sizeof(T);
  for (size_t i = 0; i < n; ++i) {
    std::memcpy(to + i * sizeof(T), first + (n - 1 - i) * sizeof(T), sizeof(T));
  }
}

template <typename T>
void copy_strided_line(const char* from, char* to, const Loop& loop) {
  if (loop.to == sizeof(T) && loop.from == -static_cast<int64_t>(sizeof(T))) {
    reverse_line<T>(from, to, loop.size);
    return;
  }
  for (size_t i = 0; i < loop.size; ++i) {
    std::memcpy(to + static_cast<int64_t>(i) * loop.to, from + static_cast<int64_t>(i) * loop.from, sizeof(T));
  }
}

void copy_line(const char* from, char* to, const Loop& loop, size_t element) {
  const auto bytes = static_cast<int64_t>(element);
  if (loop.from == bytes && loop.to == bytes) {
    std::memcpy(to, from, loop.size * element);
  } else if (loop.from == 0 && loop.to == bytes) {
    portable::fill_run(to, from, element, static_cast<int64_t>(loop.size));
  } else if (element == 1) {
    copy_strided_line<uint8_t>(from, to, loop);
  } else if (element == 2) {
    copy_strided_line<uint16_t>(from, to, loop);
  } else if (element == 4) {
    copy_strided_line<uint32_t>(from, to, loop);
  } else if (element == 8) {
    copy_strided_line<uint64_t>(from, to, loop);
  } else {
    for (size_t i = 0; i < loop.size; ++i) {
      std::memcpy(to + static_cast<int64_t>(i) * loop.to, from + static_cast<int64_t>(i) * loop.from, element);
    }
  }
}

/// Calls body(offset in from, offset in to, index in the first loop of `around`) for [begin, end) of all iterations.
template <typename Body>
void for_iterations(const Loop* around, size_t count, size_t begin, size_t end, const Body& body) {
  size_t index[runtime::kMaxRank] = {};
  int64_t from = 0;
  int64_t to = 0;
  size_t rest = begin;
  for (size_t i = 0; i < count; ++i) {
    index[i] = rest % around[i].size;
    rest /= around[i].size;
    from += static_cast<int64_t>(index[i]) * around[i].from;
    to += static_cast<int64_t>(index[i]) * around[i].to;
  }
  for (size_t n = begin; n < end; ++n) {
    body(from, to);
    for (size_t i = 0; i < count; ++i) {
      from += around[i].from;
      to += around[i].to;
      if (++index[i] < around[i].size) {
        break;
      }
      from -= static_cast<int64_t>(around[i].size) * around[i].from;
      to -= static_cast<int64_t>(around[i].size) * around[i].to;
      index[i] = 0;
    }
  }
}

/// Runs of kHalf to 2 * kHalf bytes, each as two copies of a fixed size, which may overlap.
template <size_t kHalf>
void copy_halves(const char* from, char* to, size_t nbytes, const Loop& runs) {
  for (size_t i = 0; i < runs.size; ++i, from += runs.from, to += runs.to) {
    std::memcpy(to, from, kHalf);
    std::memcpy(to + nbytes - kHalf, from + nbytes - kHalf, kHalf);
  }
}

/// Runs of no more bytes are copied without a call for each: the channels of a pixel, when images are joined.
constexpr size_t kShortRun = 64;

void copy_short_runs(const char* from, char* to, size_t nbytes, const Loop& runs) {
  const auto copy = nbytes > 32   ? &copy_halves<32>
                    : nbytes > 16 ? &copy_halves<16>
                    : nbytes > 8  ? &copy_halves<8>
                    : nbytes > 4  ? &copy_halves<4>
                    : nbytes > 2  ? &copy_halves<2>
                                  : &copy_halves<1>;
  copy(from, to, nbytes, runs);
}

/// The iterations of `loops` but the innermost, whose lines have `nbytes` side by side in both.
void copy_lines_of_short_runs(KernelContext& context, const char* from, char* to, size_t nbytes, const Loops& loops,
                              size_t lines) {
  const Loop& runs = loops.loop[1];
  constexpr size_t kGrain = threads::kGrainElements * sizeof(float);
  threads::parallel_for(context, lines, kGrain / nbytes, [&](size_t begin, size_t end) {
    while (begin < end) {
      const size_t first = begin % runs.size, count = std::min(end - begin, runs.size - first);
      const size_t around = begin / runs.size;
      const auto skipped = static_cast<int64_t>(first);
      for_iterations(loops.loop + 2, loops.count - 2, around, around + 1, [&](int64_t from_offset, int64_t to_offset) {
        copy_short_runs(from + from_offset + skipped * runs.from, to + to_offset + skipped * runs.to, nbytes,
                        {count, runs.from, runs.to});
      });
      begin += count;
    }
  });
}

}  // namespace

void copy_elements(KernelContext& context, const Window& from, const Window& to) {
  size_t total = 1;
  for (size_t d = 0; d < to.sizes.size(); ++d) {
    total *= static_cast<size_t>(to.sizes[static_cast<int64_t>(d)]);
  }
  if (total == 0) {
    return;
  }
  const size_t element = from.element_size();
  Loops loops = plan(from, to);
  if (loops.count == 0) {
    std::memcpy(to.data, from.data, element);
    return;
  }
  const auto bytes = static_cast<int64_t>(element);
  const size_t grain_elements = threads::kGrainElements * sizeof(float) / element;

  // A dimension along which the source is contiguous, where the innermost one is not: a transpose, in tiles.
  // Long lines of one element are filled instead.
  size_t across = 0;
  const bool is_filled = loops.loop[0].from == 0 && loops.loop[0].size >= 16;
  if (!is_filled && loops.loop[0].from != bytes && loops.loop[0].to == bytes && (element & (element - 1)) == 0 &&
      element <= 8) {
    for (size_t i = 1; i < loops.count && across == 0; ++i) {
      across = loops.loop[i].from == bytes || loops.loop[i].from == -bytes ? i : 0;
    }
  }
  if (across != 0) {
    constexpr size_t kTile = 32;  // 32 x 32 floats: 32 lines of each side stay in the first cache
    const Loop inner = loops.loop[0];
    Loop cross = loops.loop[across];
    const char* from_data = from.data;
    char* to_data = to.data;
    if (cross.from < 0) {  // reversed: both sides are walked from the other end
      const auto last = static_cast<int64_t>(cross.size) - 1;
      from_data += last * cross.from;
      to_data += last * cross.to;
      cross.from = -cross.from;
      cross.to = -cross.to;
    }
    // Tiles of the crossing dimension are the first loop around, so that threads share one large transpose too.
    Loop around[runtime::kMaxRank];
    size_t count = 0;
    const size_t tiles = divide_up(cross.size, kTile);
    around[count++] = {tiles, static_cast<int64_t>(kTile) * cross.from, static_cast<int64_t>(kTile) * cross.to};
    size_t iterations = tiles;
    for (size_t i = 1; i < loops.count; ++i) {
      if (i != across) {
        around[count++] = loops.loop[i];
        iterations *= loops.loop[i].size;
      }
    }
    const size_t per_iteration = inner.size * (cross.size < kTile ? cross.size : kTile);
    threads::parallel_for(context, iterations, grain_elements / per_iteration, [&](size_t begin, size_t end) {
      size_t n = begin;
      for_iterations(around, count, begin, end, [&](int64_t from_offset, int64_t to_offset) {
        if (context.cancelled()) {
          return;
        }
        const size_t first = n++ % tiles * kTile;
        const size_t columns = cross.size - first < kTile ? cross.size - first : kTile;
        for (size_t r = 0; r < inner.size; r += kTile) {
          const size_t rows = inner.size - r < kTile ? inner.size - r : kTile;
          transpose_tile(from_data + from_offset + static_cast<int64_t>(r) * inner.from,
                         to_data + to_offset + r * element, rows, columns, inner.from, cross.to, element);
        }
      });
    });
    return;
  }

  if (loops.count == 1 && loops.loop[0].from == bytes && loops.loop[0].to == bytes) {
    threads::parallel_for(context, total, grain_elements, [&](size_t begin, size_t end) {
      std::memcpy(to.data + begin * element, from.data + begin * element, (end - begin) * element);
    });
    return;
  }
  constexpr size_t kMostAtOnce = 1 << 20;  // elements of a line between two looks at whether the caller asked to stop
  const Loop line = loops.loop[0];
  if (line.from == bytes && line.to == bytes && line.size * element <= kShortRun && loops.count > 1) {
    copy_lines_of_short_runs(context, from.data, to.data, line.size * element, loops, total / line.size);
    return;
  }
  threads::parallel_for(context, total / line.size, grain_elements / line.size, [&](size_t begin, size_t end) {
    for_iterations(loops.loop + 1, loops.count - 1, begin, end, [&](int64_t from_offset, int64_t to_offset) {
      const char* const source = from.data + from_offset;
      char* const target = to.data + to_offset;
      if (line.size <= kMostAtOnce) {
        return copy_line(source, target, line, element);
      }
      threads::in_pieces(context, line.size, kMostAtOnce, [&](size_t first, size_t last) {
        const auto i = static_cast<int64_t>(first);
        copy_line(source + i * line.from, target + i * line.to, {last - first, line.from, line.to}, element);
      });
    });
  });
}

}  // namespace et::kernels::optimized::move
