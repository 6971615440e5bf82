/// What all plans of a file share while they are being emitted: the flatbuffer and the pools behind it.
///
/// For: plan_emitter.cpp and emit.cpp only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "emit/data_pool.h"
#include "emit/emit.h"
#include "emit/flat_tensor.h"
#include "emit/sparse_constants.h"
#include "emit/vector_pool.h"
#include "flatbuffers/flatbuffers.h"
#include "schema/program_generated.h"

namespace et::emit {

struct FileTables {
  FileTables(const ir::Program& the_program, const EmitOptions& the_options)
      : program(the_program),
        options(the_options),
        constants(the_options.constant_alignment),
        mutables(1),
        payloads(the_options.segment_alignment) {}

  const ir::Program& program;
  const EmitOptions& options;
  flatbuffers::FlatBufferBuilder builder;
  VectorPool vectors{builder};
  DataPool constants;    ///< becomes the constant segment
  DataPool mutables;     ///< initial states of mutable buffers; copied at load, so not padded
  SegmentPool payloads;  ///< of delegates
  ContentIndex inline_index;
  std::vector<flatbuffers::Offset<schema::BackendDelegateInlineData>> inline_payloads;  ///< of delegates, in the tables
  uint32_t first_payload = 1;  ///< number in the file of the first segment of `payloads`: they follow those two
  std::map<std::string_view, SparseConstant> sparse;  ///< constants that are stored without their zeros
  std::map<std::string, ExternalEntries> externals;   ///< what goes to each `.ptd`, by the name of the file
};

}  // namespace et::emit
