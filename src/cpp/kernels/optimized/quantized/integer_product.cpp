#include "kernels/optimized/quantized/integer_product.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "kernels/optimized/quantized/integer_loops.h"
#include "kernels/optimized/quantized/quad_chains.h"
#include "numerics/nibbles.h"
#include "runtime/shared_cache.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::quantized {
namespace {

constexpr char kMaker = 0;  // its address names our entries in the shared cache

/// What a packed matrix begins with.
struct alignas(kChainAlignment) PackedHeader {
  bool is_in_chains;
};

struct Packing {
  const IntegerProduct* product;
  const IntegerMatrix* matrix;
  size_t lanes;

  size_t vectors() const { return (product->columns + lanes - 1) / lanes; }  // of a group
  /// One column of the matrix in the order of a window.
  void read(size_t column, int8_t* buffer, int8_t* to) const {
    const size_t depth = product->depth(), taps = product->taps, channels = product->group_channels();
    const int8_t* from = static_cast<const int8_t*>(matrix->numbers) + column * depth;
    if (matrix->is_packed) {
      unpack_nibbles(static_cast<const uint8_t*>(matrix->numbers) + column * packed_count(depth), depth, buffer);
      from = buffer;
    }
    for (size_t t = 0; t < taps; ++t) {
      for (size_t c = 0; c < channels; ++c) {
        to[t * channels + c] = from[matrix->has_channels_first ? c * taps + t : t * channels + c];
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
  /// Vector `v` to its place among pairs, [panels][pairs of depth][columns of the panel][2].
  void put_pairs(size_t v, const int8_t* quads, int8_t* packed) const {
    const size_t of_group = v % vectors(), in_panel = of_group % kPanelVectors, pairs = product->pairs();
    const size_t width = std::min(kPanelVectors, vectors() - (of_group - in_panel)) * lanes;
    int8_t* const to = packed + (v - in_panel) * lanes * 2 * pairs + in_panel * lanes * 2;
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

Result<void*> pack(void* argument) {
  const auto& packing = *static_cast<const Packing*>(argument);
  const IntegerProduct& p = *packing.product;
  const size_t lanes = packing.lanes, quads = p.quads(), vectors = p.groups * packing.vectors();
  const size_t record = chain_nbytes(quads, lanes), of_arranging = aligned_to_chain(chain_scratch_nbytes(quads));
  const std::unique_ptr<char, decltype(&std::free)> scratch(
      static_cast<char*>(std::malloc(of_arranging + record + 8 * quads + 4 * quads * lanes)), &std::free);
  bool is_in_chains = false;
  void* memory = nullptr;
  const auto allocate = [&](size_t nbytes) {
    return posix_memalign(&memory, kChainAlignment, sizeof(PackedHeader) + nbytes) == 0;
  };
  int8_t *column = nullptr, *weights = nullptr;
  if (scratch != nullptr) {
    column = reinterpret_cast<int8_t*>(scratch.get() + of_arranging + record);
    weights = column + 8 * quads;
    std::fill_n(column, 8 * quads, int8_t{0});
    if (quads <= kMostQuads) {  // the first vector speaks for all
      char* const first = scratch.get() + of_arranging;
      packing.read_vector(0, column, weights);
      arrange_chains(weights, quads, scratch.get(), first);
      is_in_chains = are_chains_faster(*reinterpret_cast<const ChainHeader*>(first), quads, packing.vectors());
    }
  }
  const size_t nbytes = is_in_chains ? vectors * record : vectors * lanes * 2 * p.pairs();
  if (scratch == nullptr || !allocate(nbytes)) {
    ET_LOG_ERROR("no memory for a matrix of %zu integers", nbytes);
    return Error::MemoryAllocationFailed;
  }
  new (memory) PackedHeader{is_in_chains};
  char* const packed = static_cast<char*>(memory) + sizeof(PackedHeader);
  if (is_in_chains) {
    std::memset(packed, 0, nbytes);
  }
  for (size_t v = 0; v < vectors; ++v) {
    packing.read_vector(v, column, weights);
    is_in_chains ? arrange_chains(weights, quads, scratch.get(), packed + v * record)
                 : packing.put_pairs(v, weights, reinterpret_cast<int8_t*>(packed));
  }
  return memory;
}

}  // namespace

Error pack_integer_product(runtime::PrepareContext& context, const IntegerMatrix& matrix, IntegerProduct* product) {
  IntegerProduct& p = *product;
  Packing packing{&p, &matrix, integer_lanes()};
  const size_t padded = p.groups * packing.vectors() * packing.lanes;
  ET_TRY(void* const biases_memory, context.allocate(padded * sizeof(int32_t), 64));
  ET_TRY(void* const scales_memory, context.allocate(padded * sizeof(float), 64));
  auto* const biases = static_cast<int32_t*>(biases_memory);
  auto* const scales = static_cast<float*>(scales_memory);
  std::fill_n(biases, padded, 0);
  std::fill_n(scales, padded, 0.0f);
  const uint64_t form = (matrix.is_packed ? 1 : 0) | (matrix.has_channels_first ? 2 : 0);
  const runtime::SharedCache::Key key{&kMaker, matrix.numbers, nullptr, uint64_t{p.columns} << 32 | p.depth(),
                                      uint64_t{p.groups} << 34 | uint64_t{p.taps} << 2 | form};
  ET_TRY(void* const packed, context.shared()->get_or_create(key, &pack, &packing, &std::free));
  p.is_in_chains = static_cast<const PackedHeader*>(packed)->is_in_chains;
  p.packed = static_cast<const char*>(packed) + sizeof(PackedHeader);
  QuantizedConvolution of_rows = p;  // what a row's numbers are more by is part of its zero point
  of_rows.input_zero_point = p.is_in_chains ? p.input_zero_point + 128 : 0;
  for (size_t n = 0; n < p.groups * p.columns; ++n) {
    const size_t place = n / p.columns * packing.vectors() * packing.lanes + n % p.columns;
    const char* const record = p.packed + place / packing.lanes * chain_nbytes(p.quads(), packing.lanes);
    const int32_t sum = p.is_in_chains ? reinterpret_cast<const ChainHeader*>(record)->sums[place % packing.lanes] : 0;
    biases[place] = of_rows.start_of(n, static_cast<uint32_t>(sum));
    if (!p.scale_of(n, &scales[place])) {
      return Error::NotSupported;
    }
  }
  p.biases = biases;
  p.scales = scales;
  context.shared()->release(matrix.numbers);
  return Error::Ok;
}

Error multiply_windows(KernelContext& context, const IntegerProduct& p, size_t rows) {
  constexpr size_t kBlockBytes = 192 << 10, kLeastRows = 48;  // half of a second cache
  constexpr size_t kWorthSharing = 2'000'000;                 // multiplications
  const size_t wide = kPanelVectors * integer_lanes();
  const size_t panels = (p.columns + wide - 1) / wide;
  const size_t row_nbytes = p.is_in_chains ? chain_row_nbytes(p) : pair_row_nbytes(p);
  const size_t block = std::min(rows, std::max(kBlockBytes / row_nbytes, kLeastRows));
  const size_t blocks = (rows + block - 1) / block, units = p.groups * blocks * panels;
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t worth = rows * p.groups * p.columns * p.depth() / kWorthSharing + 1;
  const size_t chunks = threads == 1 ? 1 : std::min({units, 2 * threads, worth});
  const size_t nbytes =
      aligned_to_chain(block * row_nbytes + (p.is_in_chains ? chain_block_nbytes(p) : pair_block_nbytes(p)));
  ET_TRY(void* const memory, context.allocate_temp(chunks * nbytes + kChainAlignment));
  auto* const scratch = reinterpret_cast<uint8_t*>(aligned_to_chain(reinterpret_cast<uintptr_t>(memory)));
  threads::parallel_tasks(context.pool(), chunks, [&](size_t chunk) {
    const size_t end = (chunk + 1) * units / chunks;
    IntegerBlock b{};
    b.scratch = scratch + chunk * nbytes;
    for (size_t unit = chunk * units / chunks; unit < end; unit += b.end - b.begin) {
      const size_t of = unit / panels;
      b.group = of / blocks;
      b.first_row = of % blocks * block;
      b.rows = std::min(block, rows - b.first_row);
      b.begin = unit % panels;
      b.end = std::min(panels, b.begin + (end - unit));
      p.is_in_chains ? make_chain_rows(p, b) : make_pair_rows(p, b);
      p.is_in_chains ? multiply_chains(p, b) : multiply_pairs(p, b);
    }
  });
  return Error::Ok;
}

}  // namespace et::kernels::optimized::quantized
