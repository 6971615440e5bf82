#include "backends/tosa/compiler/payload_writer.h"

namespace et::backends::tosa::compiler {

void PayloadWriter::set_source(const ir::Node& node) {
  const ir::Source& source = node.source;
  location_ = std::to_string(node.debug_handle);
  if (!source.file.empty()) {
    location_ += " " + source.file + (source.line > 0 ? ":" + std::to_string(source.line) : "");
  }
  if (!source.module_path.empty()) {
    location_ += " " + source.module_path;
  }
  place_ = {};
}

TensorId PayloadWriter::name_it(payload::DType type, Shape shape) {
  tensors_.push_back({type, std::move(shape), "t" + std::to_string(tensors_.size())});
  return static_cast<TensorId>(tensors_.size() - 1);
}

flatbuffers::Offset<flatbuffers::Vector<uint8_t>> PayloadWriter::data(const std::string& bytes) {
  builder.ForceVectorAlignment(bytes.size(), 1, 8);
  return builder.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

TensorId PayloadWriter::add_tensor(payload::DType type, Shape shape) {
  const TensorId id = name_it(type, std::move(shape));
  const auto name = builder.CreateSharedString(tensors_[id].name);
  const auto dims = builder.CreateVector(tensors_[id].shape);
  written_tensors_.push_back(payload::CreateTosaTensor(builder, name, dims, type));
  return id;
}

TensorId PayloadWriter::add_constant(payload::DType type, Shape shape, std::string bytes) {
  std::string key = std::to_string(static_cast<uint32_t>(type));
  for (const int32_t dim : shape) {
    key += "," + std::to_string(dim);
  }
  key += ":" + bytes;
  if (const auto found = constants_.find(key); found != constants_.end()) {
    return found->second;
  }
  const TensorId id = name_it(type, std::move(shape));
  const auto name = builder.CreateSharedString(tensors_[id].name);
  const auto dims = builder.CreateVector(tensors_[id].shape);
  written_tensors_.push_back(payload::CreateTosaTensor(builder, name, dims, type, data(bytes)));
  add(payload::Op_CONST, payload::CreateConstAttribute(builder).Union(), {}, id);
  constants_.emplace(std::move(key), id);
  return id;
}

TensorId PayloadWriter::add_shape(const std::vector<int64_t>& values) {
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
  const std::string key = "shape:" + bytes;
  if (const auto found = constants_.find(key); found != constants_.end()) {
    return found->second;
  }
  const auto rank = static_cast<uint32_t>(values.size());
  const TensorId id = name_it(payload::DType_SHAPE, {static_cast<int32_t>(rank)});
  const auto name = builder.CreateSharedString(tensors_[id].name);
  written_shapes_.push_back(payload::CreateTosaShape(builder, name, rank, data(bytes)));
  add(payload::Op_CONST_SHAPE, payload::CreateConstShapeAttribute(builder).Union(), {}, id);
  constants_.emplace(key, id);
  return id;
}

flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> PayloadWriter::names(
    const std::vector<TensorId>& ids) {
  std::vector<flatbuffers::Offset<flatbuffers::String>> out;
  for (const TensorId id : ids) {
    out.push_back(builder.CreateSharedString(tensors_[id].name));
  }
  return builder.CreateVector(out);
}

void PayloadWriter::add(payload::Op op, flatbuffers::Offset<void> attribute, const std::vector<TensorId>& inputs,
                        TensorId output) {
  const auto in = names(inputs);
  const auto out = names({output});
  if (place_.IsNull()) {
    place_ = payload::CreateOpLocation(builder, builder.CreateSharedString(location_));
  }
  operators_.push_back(
      payload::CreateTosaOperator(builder, op, static_cast<payload::Attribute>(op), attribute, in, out, place_));
}

std::string PayloadWriter::finish(const std::vector<TensorId>& inputs, const std::vector<TensorId>& outputs) {
  const auto name = builder.CreateSharedString("main");
  const auto block = payload::CreateTosaBasicBlock(builder, name, builder.CreateVector(operators_),
                                                   builder.CreateVector(written_tensors_), names(inputs),
                                                   names(outputs), builder.CreateVector(written_shapes_));
  const auto blocks = builder.CreateVector(std::vector<flatbuffers::Offset<payload::TosaBasicBlock>>{block});
  const auto region = payload::CreateTosaRegion(builder, name, blocks);
  const auto regions = builder.CreateVector(std::vector<flatbuffers::Offset<payload::TosaRegion>>{region});
  const auto version = payload::CreateVersion(builder, 1, 0, 0, false);
  payload::FinishTosaGraphBuffer(builder, payload::CreateTosaGraph(builder, version, regions));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace et::backends::tosa::compiler
