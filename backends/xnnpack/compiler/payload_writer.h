/// Writes the delegate's payload: values, constants and nodes one after the other, then the bytes.
///
/// For: lowering.h. It knows the format and nothing of the IR. Constants go into named data under a hash of their
/// bytes, so that delegates and methods share them; equal constants of one payload are one entry.
///
///     const uint32_t x = writer.add_value({payload::Datatype_fp32, {1, 8}}, 0, kExternalInput);
///     const uint32_t y = writer.add_value({payload::Datatype_fp32, {1, 8}}, 1, kExternalOutput);
///     writer.add_unary(payload::NodeUnion_Tanh, x, y, debug_handle);
///     writer.finish({x}, {y}, payload);
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/xnnpack/schema/payload_generated.h"
#include "passes/backend_compiler.h"

namespace et::backends::xnnpack {

inline constexpr uint32_t kInvalidId = UINT32_MAX;
inline constexpr uint32_t kExternalInput = 1;
inline constexpr uint32_t kExternalOutput = 2;
/// Flag of a BatchMatrixMultiply: the second factor is stored as [..., columns, rows].
inline constexpr uint32_t kTransposedFactor = 1;

/// How the integers of a value stand for numbers. What is set depends on the datatype.
struct QuantSpec {
  float scale = 0;
  int32_t zero_point = 0;
  std::vector<float> channel_scales;   ///< qcint8, qcint4, qcint32: [channels]
  std::vector<uint16_t> group_scales;  ///< qbint4: bfloat16 [channels, groups]
  int32_t channel_dim = 0;
  int32_t group_size = 0;
  int32_t num_nonbatch_dims = 1;  ///< qdint8
};

/// Type of a value.
struct ValueSpec {
  payload::Datatype datatype = payload::Datatype_fp32;
  std::vector<uint32_t> dims;
  QuantSpec quant;
  std::string external_file = {};  ///< of a constant: the .ptd (ir::NamedData) that its bytes and scales go to
};

/// A clamp that a node does with its output.
struct Clamp {
  float min;
  float max;
};

class PayloadWriter {
 public:
  /// A value that a node defines, or (with flags) an external one with its position among inputs and outputs.
  uint32_t add_value(const ValueSpec& spec, uint32_t external_id = kInvalidId, uint32_t flags = 0);
  uint32_t add_constant(const ValueSpec& spec, std::string bytes);
  /// A constant that products pack: the file may hold it without its zeros.
  uint32_t add_filter(const ValueSpec& spec, std::string bytes);

  /// Adds a node whose table is written already. `clamp` may be nullptr.
  template <typename Table>
  void add_node(payload::NodeUnion type, flatbuffers::Offset<Table> table, uint32_t debug_handle,
                const Clamp* clamp = nullptr) {
    add_union(type, table.Union(), debug_handle, clamp);
  }
  void add_unary(payload::NodeUnion type, uint32_t input, uint32_t output, uint32_t debug_handle,
                 const Clamp* clamp = nullptr, uint32_t flags = 0) {
    add_node(type, payload::CreateUnary(builder, input, output, flags), debug_handle, clamp);
  }
  void add_binary(payload::NodeUnion type, uint32_t a, uint32_t b, uint32_t output, uint32_t debug_handle,
                  const Clamp* clamp = nullptr, uint32_t flags = 0) {
    add_node(type, payload::CreateBinary(builder, a, b, output, flags), debug_handle, clamp);
  }

  /// True when a node was written under this debug handle.
  bool has_handle(uint32_t debug_handle) const { return debug_handle != 0 && handles_.count(debug_handle) != 0; }

  /// Writes header and graph to `out.bytes` and adds the constants to `out.named_data`.
  void finish(const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& outputs, passes::BackendPayload& out);

  flatbuffers::FlatBufferBuilder builder;  ///< for the tables of add_node

 private:
  void add_union(payload::NodeUnion type, flatbuffers::Offset<void> table, uint32_t debug_handle, const Clamp* clamp);
  /// Index of a constant's bytes in Graph.constant_data.
  uint32_t add_bytes(std::string bytes, const std::string& external_file,
                     std::optional<ScalarType> sparse_dtype = std::nullopt);
  template <typename T>
  uint32_t add_numbers(const std::vector<T>& numbers, const std::string& external_file) {
    return add_bytes(std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)),
                     external_file);
  }
  uint32_t add_typed(const ValueSpec& spec, uint32_t constant, uint32_t external_id, uint32_t flags);
  /// Offset of the part with this description, made by `make` where it is new: values have few different sizes and
  /// scales, and tables may point at one vector or table as often as they like.
  template <typename Make>
  flatbuffers::uoffset_t shared(std::vector<uint32_t> description, const Make& make) {
    const auto [entry, is_new] = shared_.emplace(std::move(description), 0);
    if (is_new) {
      entry->second = make().o;
    }
    return entry->second;
  }

  std::vector<flatbuffers::Offset<payload::Value>> values_;
  std::vector<flatbuffers::Offset<payload::Node>> nodes_;
  std::set<uint32_t> handles_;
  std::vector<ir::NamedData> constants_;  // constant_data[1 …]
  std::map<std::string, uint32_t, std::less<>> index_of_key_;
  std::map<std::vector<uint32_t>, flatbuffers::uoffset_t> shared_;
  uint32_t num_external_ = 0;
  uint32_t next_id_ = 0;
};

}  // namespace et::backends::xnnpack
