#include "emit/emit.h"

#include <algorithm>
#include <optional>
#include <set>

#include "emit/file_head.h"
#include "emit/file_tables.h"
#include "emit/flat_tensor.h"
#include "emit/named_entries.h"
#include "emit/named_tables.h"
#include "emit/plan_emitter.h"

namespace et::emit {
namespace {

using flatbuffers::Offset;

bool is_power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

/// True when the file will hold the initial state of a mutable buffer.
bool has_initial_state(const ir::Program& program) {
  return std::any_of(program.buffers.begin(), program.buffers.end(),
                     [](const auto& entry) { return entry.second.initial.data != nullptr; });
}

/// Methods and constant methods by name.
template <typename T, typename Name>
std::vector<const T*> sorted_by_name(std::vector<const T*> items, const Name& name) {
  std::sort(items.begin(), items.end(), [&](const T* a, const T* b) { return name(*a) < name(*b); });
  return items;
}

class FileEmitter {
 public:
  FileEmitter(const std::shared_ptr<const ir::Program>& program, const EmitOptions& options, Emitted& emitted,
              ir::Diagnostics& diagnostics)
      : owner_(program),
        program_(*program),
        options_(options),
        emitted_(emitted),
        diagnostics_(diagnostics),
        tables_(*program, options) {}

  Error run() {
    ET_CHECK_OR_RETURN(is_power_of_two(options_.segment_alignment) && options_.segment_alignment >= 16 &&
                           is_power_of_two(options_.constant_alignment) && options_.constant_alignment >= 16,
                       InvalidArgument, "alignments of segments and constants must be powers of two, at least 16");
    tables_.sparse = sparse_constants(program_, options_.compatible ? 2 : options_.sparse_weights);
    tables_.first_payload = has_initial_state(program_) ? 2 : 1;
    ET_RETURN_IF_ERROR(check_names());
    ET_RETURN_IF_ERROR(add_plans());
    if (!diagnostics_.empty()) {
      return diagnostics_.front().code;
    }
    ET_RETURN_IF_ERROR(finish_program());
    for (const ir::NamedData& data : program_.named_data) {
      if (!data.external_file.empty()) {
        tables_.externals[data.external_file].emplace(data.key, ExternalEntry{data.bytes.data(), data.bytes.size()});
      }
    }
    for (const auto& [name, entries] : tables_.externals) {
      File& file = emitted_.externals[name];
      ET_RETURN_IF_ERROR(lay_out_flat_tensor(entries, options_.segment_alignment, file));
      file.keep_alive.push_back(owner_);
    }
    return Error::Ok;
  }

 private:
  Error fail(Error code, std::string message) {
    ir::Diagnostic diagnostic;
    diagnostic.code = code;
    diagnostic.message = std::move(message);
    diagnostics_.push_back(std::move(diagnostic));
    return code;
  }

  Error check_names() {
    std::set<std::string_view> methods;
    for (const auto& graph : program_.methods) {
      if (graph->stage != ir::Stage::kPlanned) {
        return fail(Error::InvalidState, "method '" + graph->name + "' has no memory plan yet");
      }
      if (!methods.insert(graph->name).second) {
        return fail(Error::InvalidArgument, "two methods are called '" + graph->name + "'");
      }
    }
    for (const ir::ConstantMethod& method : program_.constant_methods) {
      if (!methods.insert(method.name).second) {
        return fail(Error::InvalidArgument, "two methods are called '" + method.name + "'");
      }
    }
    std::set<std::string_view> keys{kDebugKey, kShapesKey};
    for (const ir::NamedData& entry : program_.named_data) {
      if (!keys.insert(entry.key).second) {
        return fail(Error::InvalidArgument, "two entries of named data have the key '" + entry.key + "'");
      }
    }
    uint64_t inline_nbytes = 0;
    for (const ir::Delegate& delegate : program_.delegates) {
      inline_nbytes += options_.inline_payloads ? delegate.payload.size() : 0;
    }
    if (inline_nbytes >= schema::kMaxFlatbufferSize) {  // checked before the tables are built, which cannot fail
      return fail(Error::OutOfResources, "the payloads of delegates take " + std::to_string(inline_nbytes) +
                                             " bytes; the tables hold 2 GiB, so let payloads be segments of their own");
    }
    return Error::Ok;
  }

  /// Plans stand in order of their names, methods and constant methods together.
  Error add_plans() {
    std::map<std::string_view, Offset<schema::ExecutionPlan>> plans;
    std::vector<const ir::Graph*> graphs;
    for (const auto& graph : program_.methods) {
      graphs.push_back(graph.get());
    }
    graphs = sorted_by_name(std::move(graphs), [](const ir::Graph& graph) -> const std::string& { return graph.name; });
    for (const ir::Graph* graph : graphs) {
      PlanEmitter emitter(tables_, *graph, diagnostics_);
      const size_t before = diagnostics_.size();
      Result<Offset<schema::ExecutionPlan>> plan = emitter.run();
      if (!plan.ok()) {
        if (diagnostics_.size() == before) {
          return plan.error();  // its line went to the log hook
        }
        continue;  // the other methods may have something to report, too
      }
      plans.emplace(graph->name, plan.get());
      origins_.push_back({graph, emitter.origins()});
      MethodHandles handles{graph->name, {}, {}};
      for (const ir::Node* node : emitter.origins()) {
        if (const std::optional<size_t> delegate = delegate_called_by(*node)) {
          handles.calls.push_back({handles.instructions.size(), *delegate, node->results().size()});
        }
        handles.instructions.push_back(node->all_handles());
      }
      emitted_.handles.push_back(std::move(handles));
    }
    for (const ir::ConstantMethod& method : program_.constant_methods) {
      ET_TRY(const auto plan, add_constant_method(method));
      plans.emplace(method.name, plan);
    }
    for (const auto& [name, plan] : plans) {
      plans_.push_back(plan);
    }
    return Error::Ok;
  }

  Result<Offset<schema::ExecutionPlan>> add_constant_method(const ir::ConstantMethod& method) {
    // An empty graph whose outputs are the values: a tensor is the constant node it names.
    ir::Graph graph(method.name);
    graph.stage = ir::Stage::kPlanned;
    for (const ir::Argument& value : method.values) {
      const auto* text = value.as<std::string>();
      if (text == nullptr || text->empty() || text->front() != '@') {
        graph.outputs.push_back(value);
        continue;
      }
      const auto constant = program_.constants.find(text->substr(1));
      if (constant == program_.constants.end()) {
        return fail(Error::InvalidArgument,
                    "constant method '" + method.name + "' returns the unknown constant " + *text);
      }
      ir::Node* node = graph.create_node("constant", {});
      node->symbol = constant->first;
      ir::Argument output;
      output.data = node->add_result("value", ir::Type::of(constant->second.type));
      graph.outputs.push_back(output);
    }
    PlanEmitter emitter(tables_, graph, diagnostics_);
    return emitter.run();
  }

  Error finish_program() {
    flatbuffers::FlatBufferBuilder& builder = tables_.builder;
    SegmentPool segments(options_.segment_alignment);
    segments.add(tables_.constants.pieces(), tables_.constants.nbytes());
    if (tables_.first_payload == 2) {
      segments.add(tables_.mutables.pieces(), tables_.mutables.nbytes());
    }
    add_payloads(segments);
    const auto named_data = add_named_data(segments);

    std::vector<Offset<schema::DataSegment>> table;
    for (const SegmentPool::Segment& segment : segments.segments()) {
      table.push_back(schema::CreateDataSegment(builder, segment.offset, segment.nbytes));
    }
    const auto constants = schema::CreateSubsegmentOffsetsDirect(builder, 0, &tables_.constants.offsets());
    std::vector<Offset<schema::SubsegmentOffsets>> mutables;
    if (tables_.first_payload == 2) {
      mutables.push_back(schema::CreateSubsegmentOffsetsDirect(builder, 1, &tables_.mutables.offsets()));
    }
    const std::vector<Offset<schema::Buffer>> no_buffers;
    const auto root =
        schema::CreateProgramDirect(builder, 0, &plans_, &no_buffers, &tables_.inline_payloads, &table, constants,
                                    mutables.empty() ? nullptr : &mutables, named_data.empty() ? nullptr : &named_data);
    schema::FinishProgramBuffer(builder, root);
    return lay_out(segments);
  }

  void add_payloads(SegmentPool& segments) const {
    const auto& pieces = tables_.payloads.pieces();
    size_t next = 0;
    for (const SegmentPool::Segment& segment : tables_.payloads.segments()) {
      std::vector<Piece> own;
      if (segment.nbytes != 0) {
        own.push_back({pieces[next].data, pieces[next].nbytes, 0});
        ++next;
      }
      segments.add(own, segment.nbytes);
    }
  }

  std::vector<Offset<schema::NamedData>> add_named_data(SegmentPool& segments) {
    NamedEntries entries(program_, tables_.constants);
    if (options_.debug_info) {
      entries.add(kDebugKey, debug_table(program_, origins_, options_.debug_handles));
    }
    if (std::string shapes = shape_table(origins_, options_.debug_info); !shapes.empty()) {
      entries.add(kShapesKey, std::move(shapes));
    }
    for (auto& [name, constant] : tables_.sparse) {
      if (constant.key == name) {
        entries.add_sparse(name, std::move(constant.bytes));
      }
    }
    if (!options_.compatible) {
      entries.make_sparse(options_.sparse_weights);
    }
    emitted_.program.keep_alive.push_back(entries.own_bytes());
    std::vector<Offset<schema::NamedData>> table;
    for (const auto& [key, bytes] : entries.sorted()) {
      // A weight that a kernel and a delegate share is a view of the constants, which are the first segment.
      const std::optional<uint64_t> constant = tables_.constants.find(bytes.data(), bytes.size());
      const uint32_t segment = constant && !bytes.empty() ? segments.add_view(*constant, bytes.size())
                                                          : segments.add_shared(bytes.data(), bytes.size());
      table.push_back(
          schema::CreateNamedData(tables_.builder, tables_.builder.CreateString(key.data(), key.size()), segment));
    }
    return table;
  }

  Error lay_out(const SegmentPool& segments) {
    File& file = emitted_.program;
    file.keep_alive.push_back(owner_);
    if (segments.nbytes() == 0) {  // nothing behind the flatbuffer: no header either
      const uint8_t* body = tables_.builder.GetBufferPointer();
      file.head.assign(body, body + tables_.builder.GetSize());
      file.nbytes = file.head.size();
      return Error::Ok;
    }
    ET_RETURN_IF_ERROR(insert_header(tables_.builder, schema::kPteHeaderLength, file.head));
    schema::FileLayout layout;
    layout.flatbuffer_size = file.head.size();
    layout.segment_base_offset = align_up(file.head.size(), options_.segment_alignment);
    layout.segment_data_size = segments.nbytes();
    schema::write_pte_header(layout, file.head.data() + schema::kHeaderOffset);
    append_segments(segments, layout.segment_base_offset, file);
    return Error::Ok;
  }

  std::shared_ptr<const ir::Program> owner_;
  const ir::Program& program_;
  const EmitOptions& options_;
  Emitted& emitted_;
  ir::Diagnostics& diagnostics_;
  FileTables tables_;
  std::vector<Offset<schema::ExecutionPlan>> plans_;
  std::vector<MethodOrigins> origins_;
};

}  // namespace

Error emit(const std::shared_ptr<const ir::Program>& program, const EmitOptions& options, Emitted& emitted,
           ir::Diagnostics& diagnostics) {
  emitted = Emitted();
  return FileEmitter(program, options, emitted, diagnostics).run();
}

}  // namespace et::emit
