/// Makes a Graph from hostile bytes.
///
/// For: graph.cpp. The order is: FlatBuffers' verifier, the version, values and constants, names and definitions,
/// operators one by one by their check functions, places in the arena, one for all names of a value.
#pragma once

#include "backends/tosa/runtime/graph.h"

namespace et::backends::tosa {

class GraphLoader {
 public:
  GraphLoader(Graph& graph, runtime::MemoryAllocator& allocator) : graph_(graph), allocator_(allocator) {}

  Error load(Span<const uint8_t> bytes);

 private:
  using Names = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

  Error find_block(Span<const uint8_t> bytes);
  Error make_values();
  Error make_tensor(const payload::TosaTensor& tensor, Value& value);
  Error sort_names();
  Error make_inputs();
  Error make_operations();
  Error make_operation(const payload::TosaOperator& source, const Value**& operands);
  Error make_outputs();
  /// Values that are another's under another shape have its place, and nothing is computed for them.
  void share_places();
  Error plan();
  void drop_renames();

  /// The name of a value, by its number.
  const flatbuffers::String* name(uint32_t id) const;
  /// The value with a name. Errors: InvalidProgram when there is none.
  Result<Value*> find(const flatbuffers::String& name) const;
  Value& own(const Value& value);
  /// Gives a constant its elements, aligned and as they are held in memory. Errors: InvalidProgram.
  Error define_constant(uint32_t id);

  Graph& graph_;
  runtime::MemoryAllocator& allocator_;
  const payload::TosaBasicBlock* block_ = nullptr;
  uint32_t num_tensors_ = 0;
  uint32_t* by_name_ = nullptr;  // [num_values], ids in the order of names
};

}  // namespace et::backends::tosa
