/// Model: a payload's graph as the rest of the runtime half uses it. Ids are positions, types and ranks are checked.
///
/// For: shapes.h (what sizes do values have), subgraph.h (the library's form of it), delegate.h.
///
/// After read_model nothing of the graph is checked again except what depends on the sizes of a call:
///  - each value has one definition (an input, a constant, a node) that stands before its uses;
///  - constants have as many bytes as their dims and type need, scales are there for each channel or group;
///  - the types of a node's values are a combination that the library has (it does not check all of them itself);
///  - filters, biases and all other numbers of a node fit together.
#pragma once

#include <xnnpack.h>

#include <limits>

#include "runtime/host/out_of_memory.h"

#include "backends/xnnpack/runtime/payload.h"
#include "numerics/sparse_bytes.h"
#include "runtime/backend.h"

namespace et::backends::xnnpack {

using runtime::List;

/// Sizes of a value, outermost first.
struct Shape {
  size_t rank = 0;
  size_t dims[XNN_MAX_TENSOR_DIMS] = {};

  size_t last() const { return dims[rank - 1]; }
};
inline bool operator==(const Shape& a, const Shape& b) {
  for (size_t i = 0; a.rank == b.rank && i < a.rank; ++i) {
    if (a.dims[i] != b.dims[i]) {
      return false;
    }
  }
  return a.rank == b.rank;
}

/// Elements of a shape. False when there are more than fit into memory.
bool num_elements(const Shape& shape, size_t* count);
/// Bytes of `count` elements; 4-bit elements are two to a byte.
size_t num_bytes(xnn_datatype datatype, size_t count);

/// How a value's integers stand for numbers.
struct Quantization {
  float scale = 0;
  int32_t zero_point = 0;
  Span<const float> channel_scales;   ///< [channels]
  Span<const uint16_t> group_scales;  ///< bfloat16 [channels, groups]
  size_t channel_dim = 0;
  size_t group_size = 0;
  size_t num_nonbatch_dims = 0;  ///< of qdint8
};

/// Value::sparse of values that are not.
constexpr uint32_t kDense = UINT32_MAX;

struct Value {
  xnn_datatype datatype = xnn_datatype_invalid;
  Shape declared;
  Quantization quantization;
  const void* data = nullptr;  ///< of a constant, its sparse form where it is sparse; nullptr otherwise
  size_t nbytes = 0;           ///< of a constant, dense
  uint32_t sparse = kDense;    ///< position in Model::sparse, of a constant that the file holds without its zeros
  bool is_shared = false;      ///< `data` and scales stay at their addresses as long as the program
  bool is_input = false;       ///< of the delegate
  bool is_output = false;
  bool is_tapped = false;      ///< computed inside, and told to a tracer (tapped_values.h)
  bool is_packed_only = true;  ///< as a constant it is used by nodes that make their own copy
};

/// What kind of node: which table it has, how its output's sizes follow.
enum class NodeForm : uint8_t {
  kUnary,
  kConvert,
  kSoftmax,
  kCopy,
  kBinary,
  kFullyConnected,
  kMatMul,
  kConvolution,
  kDepthwise,
  kDeconvolution,
  kMaxPool,
  kAvgPool,
  kArgMaxPool,
  kGlobalPool,
  kConcatenate,
  kTranspose,
  kReshape,
  kSlice,
  kPad,
  kResize,
  kAttention
};

/// One row of the table of node types.
struct NodeType {
  payload::NodeUnion type;
  NodeForm form;
  int library;  ///< xnn_unary_operator or xnn_binary_operator; 0 for other forms
  uint32_t allowed_flags;
  const char* name;
};

struct Node {
  const NodeType* type = nullptr;
  const void* table = nullptr;  ///< payload::Convolution, … by the form
  uint8_t num_inputs = 0;
  uint8_t num_outputs = 0;
  uint32_t inputs[5] = {};  ///< positions in Model::values; an absent bias is not counted
  uint32_t outputs[2] = {};
  uint32_t flags = 0;
  float output_min = 0, output_max = 0;
  uint32_t debug_handle = 0;
  uint32_t result_handle = 0;  ///< of the node whose results these are: a clamp or copy that was fused into this one

  template <typename Table>
  const Table& as() const {
    return *static_cast<const Table*>(table);
  }
};

/// A constant that the file holds without its zeros.
struct SparseConstant {
  runtime::FreeableBuffer buffer;
  SparseBytes bytes;  ///< points into `buffer`
};

/// Vectors here are no longer than the payload, which is in memory.
struct Model {
  List<Value> values;
  List<Node> nodes;
  List<uint32_t> inputs;  ///< positions in values, in the order of the delegate's arguments
  List<uint32_t> outputs;
  List<runtime::FreeableBuffer> buffers;  ///< named data that constants point into
  List<SparseConstant> sparse;            ///< each entry once, however many constants name it
};

/// Reads and verifies a graph. `named_data` may be nullptr when no constant is in it.
/// Errors: InvalidProgram, saying what is wrong; NotFound for named data that is not there; NotSupported for what the
///         library has not; DelegateInvalidCompatibility for another version.
Error read_model(const Payload& payload, const runtime::NamedDataMap* named_data, Model& model);

}  // namespace et::backends::xnnpack
