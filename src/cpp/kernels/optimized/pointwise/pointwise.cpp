#include "kernels/optimized/pointwise/pointwise.h"

#include <algorithm>
#include <new>

#include "kernels/optimized/vec/targets.h"

#include <hwy/targets.h>

#include "kernels/optimized/vec/element_bits.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/portable/convert.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::pointwise {
namespace {

/// Elements that are converted or gathered at a time; a call's buffers take 14 KiB of stack.
constexpr size_t kPiece = 512;

/// The state of one instruction, in the Method's memory.
struct PointwisePlan {
  enum class Work : uint8_t {
    kUnknown,  // not planned yet, or planning failed
    kNothing,  // the output is empty
    kBlock,    // one block that is not worth sharing
    kBlocks,   // several blocks, or one that threads may share
  };

  PointwiseOperation operation;
  PointwiseBlock block;  // in and out are those of the last run
  Work work = Work::kUnknown;
  bool takes_pieces = false;
  bool has_static_shapes = false;
  uint8_t out_argument = 0;
  uint8_t out_element_size = 0;
  ScalarType out_dtype = ScalarType::Float;
  uint8_t max_outer = 0;          // loops that there is room for
  uint8_t outer = 0;              // loops around the block, outermost first
  size_t blocks = 1;              // product of outer_size
  int64_t* outer_size = nullptr;  // [max_outer], and then strides [kMaxOperands][max_outer]
  int64_t* seen_sizes = nullptr;  // of the tensors among the operands and of the output, one after the other

  int64_t* outer_stride(size_t k) const { return outer_size + (k + 1) * max_outer; }

  /// Calls visit(tensor) for the tensors whose sizes matter, until it returns false; returns what it last did.
  template <typename Visit>
  bool each_tensor(Arguments args, Visit&& visit) const {
    for (size_t k = 0; k < operation.num_operands; ++k) {
      const int8_t argument = operation.operands[k].argument;
      if (argument >= 0 && !visit(args[static_cast<size_t>(argument)]->to_tensor())) {
        return false;
      }
    }
    return visit(args[out_argument]->to_tensor());
  }

  bool fits_sizes(Arguments args) const {
    const int64_t* seen = seen_sizes;
    return each_tensor(args, [&seen](const Tensor& tensor) {
      for (const int64_t size : tensor.sizes()) {
        if (size != *seen++) {
          return false;
        }
      }
      return true;
    });
  }

  Error plan(KernelContext& context, Arguments args);
  void run_blocks(const KernelContext& context) const;
  void run_block(const PointwiseBlock& part) const {
    if (takes_pieces) {
      run_pieces(part);
    } else {
      operation.function(part);
    }
  }
  /// A few hundred elements at a time, of whole rows where these are short. Operands of other types are converted,
  /// those that do not lie side by side are gathered.
  void run_pieces(const PointwiseBlock& part) const;
  /// Computes `rows` rows and `columns` columns from element (row, column) of a block.
  void run_part(size_t at_block, size_t row, size_t column, size_t rows, size_t columns) const;
};

Error PointwisePlan::plan(KernelContext& context, Arguments args) {
  work = Work::kUnknown;
  const Tensor out = args[out_argument]->to_tensor();
  Tensor tensors[kMaxOperands];
  const Tensor* operands[kMaxOperands] = {};
  for (size_t k = 0; k < operation.num_operands; ++k) {
    const int8_t argument = operation.operands[k].argument;
    if (argument >= 0) {
      tensors[k] = args[static_cast<size_t>(argument)]->to_tensor();
      operands[k] = &tensors[k];
    }
  }
  BroadcastLoops loops;
  ET_RETURN_IF_ERROR(broadcast_loops(context, operation.name, {operands, operation.num_operands}, out, &loops));

  block.columns = loops.count > 0 ? loops.size[0] : 1;
  block.rows = loops.count > 1 ? loops.size[1] : 1;
  outer = static_cast<uint8_t>(loops.count > 2 ? loops.count - 2 : 0);
  ET_DCHECK(outer <= max_outer);
  blocks = 1;
  for (size_t d = 0; d < outer; ++d) {
    const size_t loop = loops.count - 1 - d;
    outer_size[d] = static_cast<int64_t>(loops.size[loop]);
    blocks *= loops.size[loop];
    for (size_t k = 0; k < operation.num_operands; ++k) {
      outer_stride(k)[d] = loops.stride[k][loop];
    }
  }
  takes_pieces = operation.converts;
  for (size_t k = 0; k < operation.num_operands; ++k) {
    block.column_stride[k] = loops.count > 0 ? loops.stride[k][0] : 0;
    takes_pieces = takes_pieces || block.column_stride[k] < 0 || block.column_stride[k] > 1;
    block.row_stride[k] = loops.count > 1 ? loops.stride[k][1] : 0;
  }
  int64_t* seen = seen_sizes;
  if (!has_static_shapes) {
    each_tensor(args, [&seen](const Tensor& tensor) {
      for (const int64_t size : tensor.sizes()) {
        *seen++ = size;
      }
      return true;
    });
  }
  const size_t elements = blocks * block.rows * block.columns;
  work = elements == 0                                                      ? Work::kNothing
         : blocks == 1 && elements < 2 * threads::grain_for(operation.cost) ? Work::kBlock
                                                                            : Work::kBlocks;
  return Error::Ok;
}

void PointwisePlan::run_part(size_t at_block, size_t row, size_t column, size_t rows, size_t columns) const {
  PointwiseBlock part = block;
  part.rows = rows;
  part.columns = columns;
  int64_t offset[kMaxOperands];  // in elements
  for (size_t k = 0; k < operation.num_operands; ++k) {
    offset[k] = static_cast<int64_t>(row) * block.row_stride[k] + static_cast<int64_t>(column) * block.column_stride[k];
  }
  const size_t first = (at_block * block.rows + row) * block.columns + column;
  for (size_t d = outer; d-- > 0;) {
    const auto size = static_cast<size_t>(outer_size[d]);
    const auto index = static_cast<int64_t>(at_block % size);
    at_block /= size;
    for (size_t k = 0; k < operation.num_operands; ++k) {
      offset[k] += index * outer_stride(k)[d];
    }
  }
  for (size_t k = 0; k < operation.num_operands; ++k) {
    part.in[k] = static_cast<const char*>(block.in[k]) + offset[k] * operation.operands[k].element_size;
  }
  part.out = static_cast<char*>(block.out) + first * out_element_size;
  run_block(part);
}

/// to[c] = from[c * step], elements of `size` bytes, 8 at most.
template <typename Bits>
void gather_bits(const void* from, int64_t step, size_t n, void* to) {
  for (size_t c = 0; c < n; ++c) {
    static_cast<Bits*>(to)[c] = static_cast<const Bits*>(from)[static_cast<int64_t>(c) * step];
  }
}
void gather(size_t size, const void* from, int64_t step, size_t n, void* to) {
  with_bits_type(size, [&](auto bits) { gather_bits<decltype(bits)>(from, step, n, to); });
}

void PointwisePlan::run_pieces(const PointwiseBlock& part) const {
  alignas(64) uint64_t buffers[kMaxOperands][kPiece];
  alignas(64) float result[kPiece];
  const bool is_direct = !operation.converts || out_dtype == ScalarType::Float || out_dtype == ScalarType::Bool;
  const size_t most_rows = std::max<size_t>(kPiece / part.columns, 1);
  PointwiseBlock piece = part;
  piece.rows = 1;
  for (size_t r = 0; r < part.rows; r += most_rows) {
    const size_t rows = std::min(most_rows, part.rows - r);
    for (size_t c = 0; c < part.columns; c += kPiece) {
      const size_t n = std::min(kPiece, part.columns - c);
      piece.columns = rows * n;
      for (size_t k = 0; k < operation.num_operands; ++k) {
        const PointwiseOperand& operand = operation.operands[k];
        const int64_t row_step = part.row_stride[k], step = part.column_stride[k];
        const auto* const from =
            static_cast<const char*>(part.in[k]) +
            (static_cast<int64_t>(r) * row_step + static_cast<int64_t>(c) * step) * int64_t{operand.element_size};
        const bool converts = operation.converts && operand.dtype != ScalarType::Float;
        const bool is_one = step == 0 && (rows == 1 || row_step == 0);
        const bool is_run = step == 1 && (rows == 1 || row_step == static_cast<int64_t>(n));
        piece.column_stride[k] = is_one ? 0 : 1;
        if (!converts && (is_one || is_run)) {
          piece.in[k] = from;
          continue;
        }
        piece.in[k] = buffers[k];
        if (is_one && c > 0) {
          continue;  // the row has it already
        }
        const size_t size = converts ? sizeof(float) : operand.element_size;
        const size_t runs = is_one || is_run ? 1 : rows, length = is_one ? 1 : is_run ? piece.columns : n;
        for (size_t i = 0; i < runs; ++i) {
          const void* const run = from + static_cast<int64_t>(i) * row_step * int64_t{operand.element_size};
          auto* const to = reinterpret_cast<char*>(buffers[k]) + i * n * size;
          converts ? floats_from(operand.dtype, run, step, length, reinterpret_cast<float*>(to))
                   : gather(size, run, step, length, to);
        }
      }
      char* const out = static_cast<char*>(part.out) + (r * part.columns + c) * out_element_size;
      piece.out = is_direct ? static_cast<void*>(out) : result;
      operation.function(piece);
      if (!is_direct) {
        floats_to(out_dtype, result, piece.columns, out);
      }
    }
  }
}

void PointwisePlan::run_blocks(const KernelContext& context) const {
  const size_t all_rows = blocks * block.rows;
  if (all_rows == 1) {  // one long loop: equal shapes, or a number on one side
    threads::parallel_for(context, block.columns, threads::grain_for(operation.cost),
                          [this](size_t begin, size_t end) { run_part(0, 0, begin, 1, end - begin); });
    return;
  }
  // Work is shared by rows: row r of all belongs to block r / rows. Those that take long by themselves go in pieces.
  const size_t longest = threads::kMostGrains * threads::grain_for(operation.cost);
  threads::parallel_for(context, all_rows, threads::grain_for(block.columns * operation.cost),
                        [this, &context, longest](size_t begin, size_t end) {
                          while (begin < end) {
                            const size_t row = begin % block.rows;
                            if (block.columns > longest) {
                              threads::in_pieces(context, block.columns, longest, [&](size_t column, size_t last) {
                                run_part(begin / block.rows, row, column, 1, last - column);
                              });
                              ++begin;
                              continue;
                            }
                            const size_t count = end - begin < block.rows - row ? end - begin : block.rows - row;
                            run_part(begin / block.rows, row, 0, count, block.columns);
                            begin += count;
                          }
                        });
}

}  // namespace

float number_as_element(ScalarType dtype, double value) {
  alignas(8) char element[8] = {};
  portable::store_scalar(dtype, Scalar(value), element);
  return portable::load_one<float>(dtype, element);
}

Error choose_function(Arguments args, const NumberLoops& loops, bool promotes, size_t cost,
                      PointwiseOperation* operation) {
  const EValue& out = *args[args.size() - 1];
  if (!args[0]->is_tensor() || !out.is_tensor() || !same_dim_order(*args[0], out)) {
    return Error::NotSupported;
  }
  const ScalarType from = args[0]->to_tensor().scalar_type();
  const ScalarType to = out.to_tensor().scalar_type();
  const bool is_double = from == ScalarType::Double;
  const bool is_bits = is_small_float(from) && loops.smalls != nullptr;
  const bool fits =
      from == to ? is_double || is_up_to_float(from) : promotes && to == ScalarType::Float && is_integral(from, true);
  operation->function = is_double ? loops.doubles : is_bits ? loops.smalls : loops.floats;
  operation->converts = !is_double && !is_bits && from != ScalarType::Float;
  operation->cost = is_double ? 2 * cost : cost;  // half as many are a vector
  operation->add_tensor(args, 0);
  return fits && operation->function != nullptr ? Error::Ok : Error::NotSupported;
}

Error prepare_pointwise(runtime::PrepareContext& context, Arguments args, ChooseOperation choose, void** state) {
  if (!hwy::GetChosenTarget().IsInitialized()) {
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());  // so that pointers to loops are the loops themselves
  }
  for (const EValue* value : args) {
    if (value->is_number() && !context.is_constant(*value)) {
      return Error::NotSupported;
    }
  }
  PointwiseOperation operation;
  ET_RETURN_IF_ERROR(choose(args, &operation));
  ET_TRY(void* const memory, context.allocate(sizeof(PointwisePlan), alignof(PointwisePlan)));
  auto* const plan = new (memory) PointwisePlan();
  plan->operation = operation;
  plan->out_argument = static_cast<uint8_t>(args.size() - 1);
  const Tensor out = args[args.size() - 1]->to_tensor();
  plan->out_element_size = static_cast<uint8_t>(out.element_size());
  plan->out_dtype = out.scalar_type();
  plan->block = {};
  plan->block.a = operation.a;
  plan->block.b = operation.b;
  plan->block.parameters = plan->operation.parameters;
  for (size_t k = 0; k < operation.num_operands; ++k) {
    plan->block.in[k] = plan->operation.operands[k].number;
  }
  // What a value is described as stays true when the program puts another tensor in its place: the verifier compares
  // them.
  plan->has_static_shapes = plan->each_tensor(args, [](const Tensor& tensor) {
    return tensor.unsafe_impl()->dynamism() == runtime::TensorShapeDynamism::kStatic;
  });
  if (!plan->has_static_shapes) {
    size_t sizes = 0;
    plan->each_tensor(args,
                      [&sizes](const Tensor& tensor) { return sizes += static_cast<size_t>(tensor.dim()), true; });
    ET_TRY(void* const seen, context.allocate(sizes * sizeof(int64_t)));
    plan->seen_sizes = static_cast<int64_t*>(seen);
  }
  if (out.dim() > 2) {
    plan->max_outer = static_cast<uint8_t>(out.dim() - 2);
    ET_TRY(void* const outer, context.allocate((kMaxOperands + 1) * plan->max_outer * sizeof(int64_t)));
    plan->outer_size = static_cast<int64_t*>(outer);
  }
  *state = plan;
  return Error::Ok;
}

Error run_pointwise(KernelContext& context, Arguments args, void* state) {
  auto& plan = *static_cast<PointwisePlan*>(state);
  if (plan.work == PointwisePlan::Work::kUnknown || (!plan.has_static_shapes && !plan.fits_sizes(args))) {
    ET_RETURN_IF_ERROR(plan.plan(context, args));
  }
  for (size_t k = 0; k < plan.operation.num_operands; ++k) {
    const int8_t argument = plan.operation.operands[k].argument;
    if (argument >= 0) {
      plan.block.in[k] = args[static_cast<size_t>(argument)]->to_tensor().const_data_ptr();
    }
  }
  plan.block.out = args[plan.out_argument]->to_tensor().mutable_data_ptr();
  switch (plan.work) {
    case PointwisePlan::Work::kBlock: plan.run_block(plan.block); break;
    case PointwisePlan::Work::kBlocks: plan.run_blocks(context); break;
    default: break;
  }
  return Error::Ok;
}

}  // namespace et::kernels::optimized::pointwise
