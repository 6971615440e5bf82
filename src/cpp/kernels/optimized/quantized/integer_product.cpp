#include "kernels/optimized/quantized/integer_product.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/rounding.h"
#include "kernels/optimized/quantized/integer_loops.h"
#include "kernels/optimized/quantized/quad_chains.h"
#include "numerics/nibbles.h"
#include "runtime/host/packed_memory.h"
#include "runtime/shared_cache.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::quantized {
namespace {

constexpr char kMaker = 0;  // its address names our entries in the shared cache

/// What a packed matrix begins with.
struct alignas(kChainAlignment) PackedHeader {
  IntegerForm form;
};

constexpr size_t kMostLanes = 16;

/// A filter of 3x3, `taps` numbers apart, times twice the transposed transform of patch_loop.cpp from both sides;
/// `points`: `step` numbers apart.
void transform_filter(const int8_t* filter, size_t taps, int16_t* points, size_t step) {
  int rows[4][3];
  for (size_t x = 0; x < 3; ++x) {
    const int first = filter[x * taps], second = filter[(3 + x) * taps], third = filter[(6 + x) * taps];
    rows[0][x] = 2 * first, rows[3][x] = 2 * third;
    rows[1][x] = first + second + third, rows[2][x] = first - second + third;
  }
  for (size_t y = 0; y < 4; ++y) {
    const auto [first, second, third] = rows[y];
    int16_t* const row = points + 4 * y * step;
    row[0] = static_cast<int16_t>(2 * first), row[3 * step] = static_cast<int16_t>(2 * third);
    row[step] = static_cast<int16_t>(first + second + third);
    row[2 * step] = static_cast<int16_t>(first - second + third);
  }
}

struct Packing {
  const IntegerProduct* product;
  const IntegerMatrix* matrix;
  size_t lanes;
  const runtime::PrepareContext* context;

  size_t vectors() const { return divide_up(product->columns, lanes); }  // of a group
  /// One column of the matrix in the order of a window.
  void read(size_t column, int8_t* buffer, int8_t* to) const {
    const size_t depth = product->depth(), taps = product->taps, channels = product->group_channels();
    if (matrix->row != nullptr) {
      return matrix->row->read(static_cast<const int8_t*>(matrix->numbers), column, channels, to);
    }
    const int8_t* from = static_cast<const int8_t*>(matrix->numbers) + column * depth;
    if (matrix->is_packed) {
      unpack_nibbles(static_cast<const uint8_t*>(matrix->numbers) + column * packed_count(depth), depth, buffer);
      from = buffer;
    }
    const size_t width = product->run_taps();
    const size_t gap = product->padded_run == 0 ? 0 : product->padded_run - width * channels;  // stays zero
    for (size_t t = 0; t < taps; ++t) {
      int8_t* const tap = to + t * channels + t / width * gap;
      for (size_t c = 0; c < channels; ++c) {
        tap[c] = from[matrix->has_channels_first ? c * taps + t : t * channels + c];
      }
    }
  }
  /// Quads of vector `v` of all groups' columns, i8 [quads][lanes][4]; `column`: i8 [2][4 * quads].
  void read_vector(size_t v, int8_t* column, int8_t* to) const {
    const size_t quads = product->quads(), first = v % vectors() * lanes;
    std::fill_n(to, 4 * quads * lanes, int8_t{0});
    for (size_t lane = 0; lane < std::min(lanes, product->columns - first); ++lane) {
      read(v / vectors() * product->columns + first + lane, column + 4 * quads, column);
      for (size_t q = 0; q < quads; ++q) {
        std::memcpy(to + 4 * (q * lanes + lane), column + 4 * q, 4);
      }
    }
  }
  /// Where vector `v` is in its panel.
  struct PanelPlace {
    size_t vector, width;  // width: columns of the panel
  };
  PanelPlace place(size_t v) const {
    const size_t of_group = v % vectors(), in_panel = of_group % kPanelVectors;
    return {in_panel, std::min(kPanelVectors, vectors() - (of_group - in_panel)) * lanes};
  }
  /// Vector `v`, all of whose columns are transformed, to its place among patches. `buffer`: i8 [4 * quads],
  /// `columns`: i8 [lanes][4 * quads].
  void put_patches(size_t v, int8_t* buffer, int8_t* columns, int16_t* packed) const {
    const auto [vector, width] = place(v);
    const size_t channels = product->group_channels(), pairs = product->group_pairs(), depth = 4 * product->quads();
    const size_t first = v % vectors() * lanes, count = std::min(lanes, product->columns - first);
    for (size_t lane = 0; lane < count; ++lane) {
      read(v / vectors() * product->columns + first + lane, buffer, columns + lane * depth);
    }
    int16_t* const panel = packed + (v - vector) * lanes * kPatchPoints * 2 * pairs + vector * lanes * 2;
    for (size_t pair = 0; pair < pairs; ++pair) {
      // A pair of all columns at a time: its points lie as far apart as sets of a cache do.
      int16_t points[kPatchPoints][2 * kMostLanes] = {};
      for (size_t lane = 0; lane < count; ++lane) {
        for (size_t c = 2 * pair; c < std::min(2 * pair + 2, channels); ++c) {
          transform_filter(columns + lane * depth + c, channels, &points[0][2 * lane + c % 2], 2 * kMostLanes);
        }
      }
      for (size_t point = 0; point < kPatchPoints; ++point) {
        std::memcpy(panel + (point * pairs + pair) * width * 2, points[point], lanes * 2 * sizeof(int16_t));
      }
    }
  }
  /// Vector `v` to its place among quads, [panels][quads][columns of the panel][4], and its columns' sums.
  void put_quads(size_t v, const int8_t* quads, char* packed) const {
    const auto [vector, width] = place(v);
    const size_t count = product->quads();
    auto* const sums = reinterpret_cast<int32_t*>(packed) + v * lanes;
    char* const to = packed + sums_nbytes() + (v - vector) * lanes * 4 * count + vector * lanes * 4;
    std::fill_n(sums, lanes, 0);
    for (size_t q = 0; q < count; ++q, quads += 4 * lanes) {
      std::memcpy(to + q * width * 4, quads, 4 * lanes);
      for (size_t i = 0; i < 4 * lanes; ++i) {
        sums[i / 4] += quads[i];
      }
    }
  }
  size_t sums_nbytes() const { return product->groups * vectors() * lanes * sizeof(int32_t); }
  /// Vector `v` to its place among pairs, [panels][pairs of depth][columns of the panel][2].
  void put_pairs(size_t v, const int8_t* quads, int8_t* packed) const {
    const auto [vector, width] = place(v);
    const size_t pairs = product->pairs();
    int8_t* const to = packed + (v - vector) * lanes * 2 * pairs + vector * lanes * 2;
    for (size_t pair = 0; pair < pairs; ++pair) {
      for (size_t lane = 0; lane < lanes; ++lane) {
        std::memcpy(to + 2 * (pair * width + lane), quads + 4 * (pair / 2 * lanes + lane) + 2 * (pair % 2), 2);
      }
    }
  }
};

/// Instructions for a quad of a row and a vector of columns (integer_loops.h). What rows take to arrange, in measured
/// time of instructions, is shared by the vectors.
bool are_chains_faster(const ChainHeader& header, size_t quads, size_t vectors) {
  constexpr double kOfPairs = 5, kOfAlone = 7, kToArrange = 10;
  double count = kOfAlone * header.chains[0] + kToArrange * static_cast<double>(quads) / static_cast<double>(vectors);
  for (size_t length = 1; length <= kLongestChain; ++length) {
    count += static_cast<double>((3 * length + 1) * header.chains[length]);
  }
  return count < kOfPairs * static_cast<double>(quads);
}

/// Rows of bytes pay for what they take to make where they meet so many columns, and are no few numbers, which are
/// large mostly. So are half of the numbers of images and rows without negative ones; rows that were quantized at the
/// call have large ones each.
bool are_bytes_faster(const IntegerProduct& p) {
  constexpr size_t kLeastColumns = 96, kLeastDepth = 96;
  return multiplies_bytes() && p.columns >= kLeastColumns && p.depth() >= kLeastDepth && !p.gives_floats &&
         p.input_zero_point > -128 && p.input_zero_point < 127;
}

/// What a thread packs in.
struct PackingScratch {
  char* arranging;  // of arrange_chains()
  int8_t *column, *weights;

  static size_t nbytes(size_t quads, size_t lanes) {
    return aligned_to_chain(chain_scratch_nbytes(quads)) + aligned_to_chain(8 * quads + 4 * quads * lanes);
  }
  PackingScratch(char* memory, size_t quads) : arranging(memory) {
    column = reinterpret_cast<int8_t*>(memory + aligned_to_chain(chain_scratch_nbytes(quads)));
    weights = column + 8 * quads;
    std::fill_n(column, 8 * quads, int8_t{0});
  }
};

Result<void*> pack(void* argument) {
  const auto& packing = *static_cast<const Packing*>(argument);
  const IntegerProduct& p = *packing.product;
  const size_t lanes = packing.lanes, quads = p.quads(), vectors = p.groups * packing.vectors();
  const size_t record = chain_nbytes(quads, lanes), of_a_thread = PackingScratch::nbytes(quads, lanes);
  threads::ThreadPool* const pool = packing.context->pool();
  const size_t chunks = threads::chunks_for(pool, vectors, threads::grain_for(4 * quads * lanes));
  const std::unique_ptr<char, decltype(&std::free)> scratch(
      static_cast<char*>(std::aligned_alloc(kChainAlignment, record + chunks * of_a_thread)), &std::free);
  ET_CHECK_OR_RETURN(scratch != nullptr, MemoryAllocationFailed, "no memory for %zu bytes to pack a matrix in",
                     record + chunks * of_a_thread);
  char* const first = scratch.get() + chunks * of_a_thread;
  IntegerForm form = p.form;
  if (form != IntegerForm::kPatches && multiplies_quads()) {
    form = IntegerForm::kQuads;
  } else if (form != IntegerForm::kPatches && are_bytes_faster(p)) {
    form = IntegerForm::kBytes;
  } else if (form != IntegerForm::kPatches && quads <= kMostQuads) {  // the first vector speaks for all
    const PackingScratch s(scratch.get(), quads);
    packing.read_vector(0, s.column, s.weights);
    arrange_chains(s.weights, quads, s.arranging, first);
    const auto& header = *reinterpret_cast<const ChainHeader*>(first);
    form = are_chains_faster(header, quads, packing.vectors()) ? IntegerForm::kChains : IntegerForm::kPairs;
  }
  const size_t of_a_column = form == IntegerForm::kPatches ? kPatchPoints * 2 * p.group_pairs() * sizeof(int16_t)
                             : form == IntegerForm::kQuads ? 4 * quads + sizeof(int32_t)
                                                           : 2 * p.pairs();
  const size_t nbytes = vectors * (form == IntegerForm::kChains  ? record
                                   : form == IntegerForm::kBytes ? byte_record_nbytes(p)
                                                                 : lanes * of_a_column);
  ET_TRY(void* const memory, packing.context->shared()->memory().allocate(sizeof(PackedHeader) + nbytes));
  new (memory) PackedHeader{form};
  char* const packed = static_cast<char*>(memory) + sizeof(PackedHeader);
  threads::parallel_chunks(pool, vectors, chunks, [&](size_t chunk, size_t begin, size_t end) {
    const PackingScratch s(scratch.get() + chunk * of_a_thread, quads);
    for (size_t v = begin; v < end; ++v) {
      if (form == IntegerForm::kPatches) {
        packing.put_patches(v, s.column, s.weights, reinterpret_cast<int16_t*>(packed));
        continue;
      }
      packing.read_vector(v, s.column, s.weights);
      if (form == IntegerForm::kQuads) {
        packing.put_quads(v, s.weights, packed);
      } else if (form == IntegerForm::kBytes) {
        pack_bytes(p, s.weights, packed + v * byte_record_nbytes(p));
      } else if (form == IntegerForm::kChains) {
        std::memset(packed + v * record, 0, record);
        arrange_chains(s.weights, quads, s.arranging, packed + v * record);
      } else {
        packing.put_pairs(v, s.weights, reinterpret_cast<int8_t*>(packed));
      }
    }
  });
  return memory;
}

}  // namespace

void StrideRow::read(const int8_t* filter, size_t column, size_t channels, int8_t* to) const {
  const size_t first_w = column / out_channels, last_h = taps_h() - 1, last_w = taps_w() - 1;
  for (size_t h = 0; h <= last_h; ++h) {
    for (size_t w = 0; w <= last_w; ++w, to += channels) {
      // The nearest input pixel, which is the last of a window, meets the first taps.
      const size_t y = row + (last_h - h) * stride_h, x = first_w + (last_w - w) * stride_w;
      const bool is_inside = y < kernel_h && x < kernel_w;
      const int8_t* const tap = filter + (column % out_channels) * out_step + (is_inside ? y * h_step + x * w_step : 0);
      for (size_t c = 0; c < channels; ++c) {
        to[c] = is_inside ? tap[c * in_step] : int8_t{0};
      }
    }
  }
}

uint64_t StrideRow::key() const {
  uint64_t key = uint64_t{1} << 19 | (w_step == 1 ? 1 : 0);  // the first bit is that of a number of groups
  for (const size_t number : {kernel_h, kernel_w, stride_h, stride_w, row}) {
    key = key << 8 | number;
  }
  return key << 4;
}

void choose_form(const Tensor& out, IntegerProduct* product, ops::Work* work) {
  constexpr size_t kLeastChannels = 16, kLeastColumns = 8;  // fewer are transforms above all
  // Fewer do not pay for filters of 32 bytes for nine taps, which are read once a call.
  constexpr int64_t kLeastWindows = 64;
  IntegerProduct& p = *product;
  if (multiplies_quads()) {
    return;
  }
  if (p.kernel_h == 3 && p.kernel_w == 3 && p.stride_h == 1 && p.stride_w == 1 && p.dilation_h == 1 &&
      p.dilation_w == 1 && p.group_channels() >= kLeastChannels && p.group_channels() <= kMostPatchChannels &&
      p.columns >= kLeastColumns && out.size(2) > 2 && out.size(3) > 2 &&
      out.size(0) * out.size(2) * out.size(3) >= kLeastWindows) {
    p.form = IntegerForm::kPatches;
    work->kind = ops::WorkKind::convolution_3x3;  // in groups, too
  } else if (work->kind == ops::WorkKind::convolution_3x3) {
    work->kind = ops::WorkKind::convolution;  // the row of 3x3 was measured with patches
  }
}

Error pack_integer_product(runtime::PrepareContext& context, const IntegerMatrix& matrix, IntegerProduct* product) {
  IntegerProduct& p = *product;
  p.quad_unit = unit_of_quads();
  Packing packing{&p, &matrix, integer_lanes(), &context};
  const size_t padded = p.groups * packing.vectors() * packing.lanes;
  ET_TRY(void* const biases_memory, context.allocate(padded * sizeof(int32_t), 64));
  ET_TRY(void* const scales_memory, context.allocate(padded * sizeof(float), 64));
  auto* const biases = static_cast<int32_t*>(biases_memory);
  auto* const scales = static_cast<float*>(scales_memory);
  std::fill_n(biases, padded, 0);
  std::fill_n(scales, padded, 0.0f);
  const uint64_t form = (matrix.is_packed ? 1 : 0) | (matrix.has_channels_first ? 2 : 0) |
                        (p.form == IntegerForm::kPatches ? 4 : 0) | (are_bytes_faster(p) ? 8 : 0);
  // With taps, depth and columns it says how runs are padded; padded_run() bounds it.
  const uint64_t width = p.padded_run == 0 ? 0 : p.run_taps();
  const runtime::SharedCache::Key key{&kMaker, matrix.numbers, nullptr, uint64_t{p.columns} << 32 | p.depth(),
                                      matrix.row != nullptr
                                          ? matrix.row->key() | form
                                          : width << 52 | uint64_t{p.groups} << 36 | uint64_t{p.taps} << 4 | form};
  ET_TRY(void* const packed, context.shared()->get_or_create(key, &pack, &packing, nullptr));
  p.form = static_cast<const PackedHeader*>(packed)->form;
  p.packed = static_cast<const char*>(packed) + sizeof(PackedHeader);
  const char* const first = p.packed;
  const auto sum_of = [&](size_t place) -> int32_t {
    const size_t vector = place / packing.lanes, lane = place % packing.lanes;
    switch (p.form) {
      case IntegerForm::kQuads: return reinterpret_cast<const int32_t*>(first)[place];
      case IntegerForm::kBytes: return sums_of_record(first + vector * byte_record_nbytes(p))[lane];
      case IntegerForm::kChains:
        return reinterpret_cast<const ChainHeader*>(first + vector * chain_nbytes(p.quads(), packing.lanes))
            ->sums[lane];
      default: return 0;
    }
  };
  p.packed += p.form == IntegerForm::kQuads ? packing.sums_nbytes() : 0;
  QuantizedConvolution of_rows = p;  // what a row's numbers are more by is part of its zero point
  of_rows.input_zero_point = p.form == IntegerForm::kPairs || p.form == IntegerForm::kPatches ? 0
                             : p.form == IntegerForm::kBytes ? p.input_zero_point - shift_of_bytes(p.input_zero_point)
                                                             : p.input_zero_point + 128;
  for (size_t n = 0; n < p.groups * p.columns; ++n) {
    const size_t place = n / p.columns * packing.vectors() * packing.lanes + n % p.columns;
    const int32_t sum = sum_of(place);
    biases[place] = p.gives_floats ? sum : of_rows.start_of(n, static_cast<uint32_t>(sum));
    if (!p.scale_of(n, &scales[place])) {
      return Error::NotSupported;
    }
  }
  p.biases = biases;
  p.scales = scales;
  if (matrix.row == nullptr) {
    context.shared()->release(matrix.numbers);
  }
  return Error::Ok;
}

namespace {

/// A loop of integer_loops.h.
struct IntegerLoop {
  size_t row_nbytes, block_nbytes;
  void (*make_rows)(const IntegerProduct& p, const IntegerBlock& block);
  void (*multiply)(const IntegerProduct& p, const IntegerBlock& block);
  size_t line = 0;  ///< of results, of which a block has whole ones of one image; 0: it has any rows
};

/// Of 2x2 windows.
size_t num_patches(const IntegerProduct& p, size_t windows) {
  const auto across = static_cast<size_t>((p.out_w + 1) / 2), down = static_cast<size_t>((p.out_h + 1) / 2);
  return windows / static_cast<size_t>(p.out_w * p.out_h) * across * down;
}

IntegerLoop loop_of_quads(const IntegerProduct& p) {
  if (!QuadLines::fit(p)) {
    return {quad_row_nbytes(p), kQuadSlack, &make_quad_rows, &multiply_quads};
  }
  const auto line = static_cast<size_t>(p.out_w), step = static_cast<size_t>(p.stride_h);
  const QuadLines lines(p);
  return {(step * lines.pitch + line - 1) / line, QuadLines::halo(p) * lines.pitch + kQuadSlack, &make_quad_lines,
          &multiply_quad_lines, line};
}

IntegerLoop loop_of(const IntegerProduct& p) {
  switch (p.form) {
    case IntegerForm::kPatches: return {patch_row_nbytes(p), 0, &make_patch_rows, &multiply_patches};
    case IntegerForm::kQuads: return loop_of_quads(p);
    case IntegerForm::kBytes: return {byte_row_nbytes(p), byte_block_nbytes(p), &make_byte_rows, &multiply_bytes};
    case IntegerForm::kChains: return {chain_row_nbytes(p), chain_block_nbytes(p), &make_chain_rows, &multiply_chains};
    default: return {pair_row_nbytes(p), pair_block_nbytes(p), &make_pair_rows, &multiply_pairs};
  }
}

}  // namespace

Error multiply_windows(KernelContext& context, const IntegerProduct& p, size_t windows) {
  constexpr size_t kLeastRows = 48;
  constexpr size_t kWorthSharing = 2'000'000;  // multiplications
  const IntegerLoop loop = loop_of(p);
  const size_t rows = p.form == IntegerForm::kPatches ? num_patches(p, windows) : windows;
  const size_t wide = kPanelVectors * integer_lanes();
  const size_t panels = divide_up(p.columns, wide);
  const size_t least = p.form == IntegerForm::kPatches ? kLeastRows / 3 : kLeastRows;
  const size_t touched = p.form == IntegerForm::kBytes ? byte_row_touched(p) : loop.row_nbytes;
  const size_t of_part = loop.line == 0 ? rows : static_cast<size_t>(p.out_h * p.out_w);
  const size_t wanted = std::min(of_part, std::max(kBlockBytes / touched, least));
  const size_t block = loop.line == 0 ? wanted : std::max(wanted / loop.line, size_t{1}) * loop.line;
  const size_t of_a_part = divide_up(of_part, block);
  const size_t blocks = rows / of_part * of_a_part, units = p.groups * blocks * panels;
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t worth = windows * p.groups * p.columns * p.depth() / kWorthSharing + 1;
  const size_t chunks = threads == 1 ? 1 : std::min({units, 2 * threads, worth});
  const size_t nbytes = aligned_to_chain(block * loop.row_nbytes + loop.block_nbytes);
  ET_TRY(void* const memory, context.allocate_temp(chunks * nbytes + kChainAlignment));
  auto* const scratch = reinterpret_cast<uint8_t*>(aligned_to_chain(reinterpret_cast<uintptr_t>(memory)));
  threads::parallel_tasks(context.pool(), chunks, [&](size_t chunk) {
    const size_t end = (chunk + 1) * units / chunks;
    IntegerBlock b{};
    b.scratch = scratch + chunk * nbytes;
    for (size_t unit = chunk * units / chunks; unit < end && !context.cancelled(); unit += b.end - b.begin) {
      const size_t of = unit / panels;
      b.group = of / blocks;
      const size_t in_part = of % blocks % of_a_part * block;
      b.first_row = of % blocks / of_a_part * of_part + in_part;
      b.rows = std::min(block, of_part - in_part);
      b.begin = unit % panels;
      b.end = std::min(panels, b.begin + (end - unit));
      loop.make_rows(p, b);
      loop.multiply(p, b);
    }
  });
  return Error::Ok;
}

}  // namespace et::kernels::optimized::quantized
