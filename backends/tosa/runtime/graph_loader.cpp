#include "backends/tosa/runtime/graph_loader.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"

namespace et::backends::tosa {
namespace {

using payload::DType;

constexpr uintptr_t kPayloadAlignment = 8;
constexpr size_t kArenaAlignment = 16;
/// Values and operators in a payload; bounds the work of checking hostile bytes.
constexpr uint32_t kMaxEntries = 1u << 20;
/// A CONST_SHAPE has at most two values for each dimension.
constexpr uint32_t kMaxShapeValues = 2 * kMaxRank;
constexpr uint32_t kUndefined = UINT32_MAX;

bool is_half(DType dtype) { return dtype == payload::DType_FP16 || dtype == payload::DType_BF16; }

int compare(const flatbuffers::String& a, const flatbuffers::String& b) {
  const int order = std::memcmp(a.data(), b.data(), std::min<size_t>(a.size(), b.size()));
  return order != 0 ? order : (a.size() > b.size()) - (a.size() < b.size());
}

template <typename T>
uint32_t count(const flatbuffers::Vector<T>* list) {
  return list == nullptr ? 0 : list->size();
}

/// Bytes of the elements of a constant in the file.
size_t stored_nbytes(const Value& value) {
  const auto numel = static_cast<size_t>(value.numel);
  return value.dtype == payload::DType_INT4    ? (numel + 1) / 2
         : value.dtype == payload::DType_INT48 ? 6 * numel
                                               : value.nbytes;
}

/// Whether an operation gives elements another shape or name.
bool is_rename(const Operation& operation) {
  return operation.row->op == payload::Op_RESHAPE || operation.row->op == payload::Op_IDENTITY;
}

}  // namespace

size_t element_size(DType dtype) {
  switch (dtype) {
    case payload::DType_BOOL:
    case payload::DType_INT8: return 1;
    case payload::DType_INT16:
    case payload::DType_FP16:
    case payload::DType_BF16: return 2;
    case payload::DType_INT32:
    case payload::DType_FP32: return 4;
    case payload::DType_INT48:
    case payload::DType_SHAPE: return 8;
    default: return 0;
  }
}

const char* dtype_name(DType dtype) { return payload::EnumNameDType(dtype); }

const OperatorRow* find_operator(payload::Op op) {
  const Span<const OperatorRow> families[] = {convolution_operators(), elementwise_operators(), movement_operators(),
                                              pooling_operators(),     reduction_operators(),   rescale_operators(),
                                              unary_operators(),       resize_operators()};
  for (const Span<const OperatorRow>& family : families) {
    for (const OperatorRow& row : family) {
      if (row.op == op && row.run != nullptr) {
        return &row;
      }
    }
  }
  return nullptr;
}

Error GraphLoader::load(Span<const uint8_t> bytes) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kPayloadAlignment != 0) {
    ET_TRY(uint8_t* copy, allocator_.allocate_list<uint8_t>(bytes.size()));
    std::memcpy(copy, bytes.data(), bytes.size());
    bytes = {copy, bytes.size()};
  }
  ET_RETURN_IF_ERROR(find_block(bytes));
  ET_RETURN_IF_ERROR(make_values());
  ET_RETURN_IF_ERROR(sort_names());
  ET_RETURN_IF_ERROR(make_inputs());
  ET_RETURN_IF_ERROR(make_operations());
  ET_RETURN_IF_ERROR(make_outputs());
  share_places();
  ET_RETURN_IF_ERROR(plan());
  drop_renames();
  return Error::Ok;
}

Error GraphLoader::find_block(Span<const uint8_t> bytes) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  ET_CHECK_OR_RETURN(bytes.size() >= 8 && payload::VerifyTosaGraphBuffer(verifier), InvalidProgram,
                     "TOSA payload: %zu bytes are no TOSA graph", bytes.size());
  const payload::TosaGraph& graph = *payload::GetTosaGraph(bytes.data());
  const payload::Version& version = *graph.version();
  ET_CHECK_OR_RETURN(version._major() == 1 && version._minor() == 0 && !version._draft(), DelegateInvalidCompatibility,
                     "TOSA payload: version %" PRId32 ".%" PRId32 "%s, this runtime reads 1.0; lower the model again",
                     version._major(), version._minor(), version._draft() ? " (draft)" : "");
  ET_CHECK_OR_RETURN(count(graph.regions()) == 1 && count(graph.regions()->Get(0)->blocks()) == 1, NotSupported,
                     "TOSA payload: more or less than one block");
  block_ = graph.regions()->Get(0)->blocks()->Get(0);
  ET_CHECK_OR_RETURN(count(block_->tensors()) < kMaxEntries && count(block_->shapes()) < kMaxEntries &&
                         count(block_->operators()) < kMaxEntries && count(block_->inputs()) < kMaxEntries &&
                         count(block_->outputs()) < kMaxEntries,
                     InvalidProgram, "TOSA payload: too many operators or values");
  return Error::Ok;
}

Error GraphLoader::make_tensor(const payload::TosaTensor& tensor, Value& value) {
  value.dtype = tensor.type();
  ET_CHECK_OR_RETURN(element_size(value.dtype) != 0 || value.dtype == payload::DType_INT4, NotSupported,
                     "TOSA payload: type %u is none that the interpreter holds", static_cast<unsigned>(value.dtype));
  ET_CHECK_OR_RETURN(value.dtype != payload::DType_SHAPE && !tensor.variable() && !tensor.is_unranked() &&
                         tensor.offset() <= 1 && count(tensor.shape()) <= kMaxRank,
                     NotSupported,
                     "TOSA payload: a tensor is a variable, without rank, over rank %zu or lies elsewhere", kMaxRank);
  value.rank = static_cast<uint8_t>(count(tensor.shape()));
  value.numel = 1;
  for (uint32_t d = 0; d < value.rank; ++d) {
    value.dims[d] = tensor.shape()->Get(d);
    ET_CHECK_OR_RETURN(value.dims[d] > 0 && !mul_overflow(value.numel, value.dims[d], &value.numel), InvalidProgram,
                       "TOSA payload: a tensor has size %" PRId32 " or too many elements", value.dims[d]);
  }
  const size_t size = value.dtype == payload::DType_INT4 ? 1 : element_size(value.dtype);
  ET_CHECK_OR_RETURN(static_cast<uint64_t>(value.numel) * size <= INT32_MAX, InvalidProgram,
                     "TOSA payload: a tensor of %" PRId32 " elements is too large", value.numel);
  value.nbytes = static_cast<uint32_t>(static_cast<size_t>(value.numel) * size);
  return Error::Ok;
}

Error GraphLoader::make_values() {
  num_tensors_ = count(block_->tensors());
  graph_.num_values_ = num_tensors_ + count(block_->shapes());
  ET_TRY(graph_.values_, allocator_.allocate_list<Value>(graph_.num_values_));
  for (uint32_t i = 0; i < graph_.num_values_; ++i) {
    Value& value = *new (graph_.values_ + i) Value();
    value.first_use = kUndefined;
    if (i < num_tensors_) {
      ET_RETURN_IF_ERROR(make_tensor(*block_->tensors()->Get(i), value));
    } else {
      const payload::TosaShape& shape = *block_->shapes()->Get(i - num_tensors_);
      ET_CHECK_OR_RETURN(shape.rank() <= kMaxShapeValues, InvalidProgram, "TOSA payload: a shape of %" PRIu32 " values",
                         shape.rank());
      value.dtype = payload::DType_SHAPE;
      value.numel = static_cast<int32_t>(shape.rank());
      value.nbytes = shape.rank() * 8;
    }
  }
  return Error::Ok;
}

const flatbuffers::String* GraphLoader::name(uint32_t id) const {
  return id < num_tensors_ ? block_->tensors()->Get(id)->name() : block_->shapes()->Get(id - num_tensors_)->name();
}

Error GraphLoader::sort_names() {
  ET_TRY(by_name_, allocator_.allocate_list<uint32_t>(graph_.num_values_));
  for (uint32_t i = 0; i < graph_.num_values_; ++i) {
    ET_CHECK_OR_RETURN(name(i) != nullptr, InvalidProgram, "TOSA payload: a value has no name");
    by_name_[i] = i;
  }
  std::sort(by_name_, by_name_ + graph_.num_values_,
            [this](uint32_t a, uint32_t b) { return compare(*name(a), *name(b)) < 0; });
  for (uint32_t i = 1; i < graph_.num_values_; ++i) {
    ET_CHECK_OR_RETURN(compare(*name(by_name_[i - 1]), *name(by_name_[i])) != 0, InvalidProgram,
                       "TOSA payload: two values have the same name");
  }
  return Error::Ok;
}

Result<Value*> GraphLoader::find(const flatbuffers::String& wanted) const {
  const uint32_t* const begin = by_name_;
  const uint32_t* const end = begin + graph_.num_values_;
  const uint32_t* place = std::lower_bound(
      begin, end, wanted, [this](uint32_t id, const auto& key) { return compare(*name(id), key) < 0; });
  ET_CHECK_OR_RETURN(place != end && compare(*name(*place), wanted) == 0, InvalidProgram,
                     "TOSA payload: there is no value '%.*s'", static_cast<int>(std::min<size_t>(wanted.size(), 64)),
                     wanted.c_str());
  return graph_.values_ + *place;
}

Error GraphLoader::make_inputs() {
  graph_.num_inputs_ = count(block_->inputs());
  graph_.num_arguments_ = graph_.num_inputs_ + count(block_->outputs());
  ET_TRY(graph_.arguments_, allocator_.allocate_list<const Value*>(graph_.num_arguments_));
  for (uint32_t i = 0; i < graph_.num_inputs_; ++i) {
    ET_TRY(Value * value, find(*block_->inputs()->Get(i)));
    ET_CHECK_OR_RETURN(
        value->place == Place::kNowhere && element_size(value->dtype) != 0 && value->dtype != payload::DType_SHAPE,
        InvalidProgram, "TOSA payload: input %" PRIu32 " is a shape, INT4, or there twice", i);
    value->place = Place::kArgument;
    value->offset = i;
    value->first_use = 0;
    graph_.arguments_[i] = value;
  }
  return Error::Ok;
}

Error GraphLoader::define_constant(uint32_t id) {
  Value& value = graph_.values_[id];
  const bool is_shape = id >= num_tensors_;
  const auto* data = is_shape ? block_->shapes()->Get(id - num_tensors_)->data() : block_->tensors()->Get(id)->data();
  const size_t stored = stored_nbytes(value);
  ET_CHECK_OR_RETURN(count(data) >= stored, InvalidProgram,
                     "TOSA payload: a constant has %" PRIu32 " bytes, its shape makes %zu", count(data), stored);
  value.place = Place::kConstant;
  value.first_use = 0;
  value.constant = data == nullptr ? nullptr : data->data();
  const size_t alignment = std::max<size_t>(element_size(value.dtype), 1);
  if (value.dtype != payload::DType_INT48 && reinterpret_cast<uintptr_t>(value.constant) % alignment == 0) {
    return Error::Ok;
  }
  ET_TRY(uint8_t* copy, allocator_.allocate_list<uint8_t>(value.nbytes));
  if (value.dtype == payload::DType_INT48) {
    for (int32_t i = 0; i < value.numel; ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, data->data() + 6 * i, 6);
      const auto element = static_cast<int64_t>(bits << 16) >> 16;
      std::memcpy(copy + 8 * i, &element, sizeof(element));
    }
  } else {
    std::memcpy(copy, value.constant, value.nbytes);
  }
  value.constant = copy;
  return Error::Ok;
}

Error GraphLoader::make_operations() {
  const uint32_t num_operators = count(block_->operators());
  size_t num_operands = 0;
  for (uint32_t i = 0; i < num_operators; ++i) {
    const payload::TosaOperator& source = *block_->operators()->Get(i);
    num_operands += count(source.inputs()) + count(source.outputs());
  }
  ET_TRY(graph_.operations_, allocator_.allocate_list<Operation>(num_operators));
  ET_TRY(const Value** operands, allocator_.allocate_list<const Value*>(num_operands));
  for (uint32_t i = 0; i < num_operators; ++i) {
    const payload::TosaOperator& source = *block_->operators()->Get(i);
    Operation& operation = *new (graph_.operations_ + graph_.num_operations_) Operation();
    operation.position = i;
    const Error error = make_operation(source, operands);
    if (error != Error::Ok) {
      ET_LOG_CONTEXT("TOSA payload: operator %" PRIu32 " is %s", i, payload::EnumNameOp(source.op()));
      if (operation.row != nullptr && operation.num_inputs > 0 && is_half(operation.in(0).dtype)) {  // all are found
        ET_LOG_CONTEXT(
            "TOSA payload: floats of 16 bits run in Arm's reference model, in Python "
            "executorch_py.backends.tosa.reference.run; the interpreter has those of 32");
      }
      return error;
    }
  }
  return Error::Ok;
}

Error GraphLoader::make_operation(const payload::TosaOperator& source, const Value**& operands) {
  Operation& operation = graph_.operations_[graph_.num_operations_];
  operation.operands = operands;
  operation.num_inputs = count(source.inputs());
  for (uint32_t i = 0; i < operation.num_inputs; ++i) {
    ET_TRY(Value * value, find(*source.inputs()->Get(i)));
    ET_CHECK_OR_RETURN(value->place != Place::kNowhere, InvalidProgram,
                       "TOSA payload: operator %" PRIu32 " reads '%.64s' before it is made", operation.position,
                       source.inputs()->Get(i)->c_str());
    value->last_use = operation.position;
    *operands++ = value;
  }
  ET_CHECK_OR_RETURN(count(source.outputs()) == 1, InvalidProgram,
                     "TOSA payload: operator %" PRIu32 " has %" PRIu32 " outputs", operation.position,
                     count(source.outputs()));
  ET_TRY(Value * output, find(*source.outputs()->Get(0)));
  ET_CHECK_OR_RETURN(output->place == Place::kNowhere, InvalidProgram, "TOSA payload: '%.64s' is made twice",
                     source.outputs()->Get(0)->c_str());
  const auto id = static_cast<uint32_t>(output - graph_.values_);
  const bool is_shape = id >= num_tensors_;
  if (source.op() == (is_shape ? payload::Op_CONST_SHAPE : payload::Op_CONST)) {
    return define_constant(id);
  }
  ET_CHECK_OR_RETURN(!is_shape && output->dtype != payload::DType_INT4, NotSupported,
                     "TOSA payload: operator %" PRIu32 " makes a shape or INT4; only constants are such",
                     operation.position);
  output->place = Place::kArena;
  output->first_use = output->last_use = operation.position;
  *operands++ = output;
  operation.row = find_operator(source.op());
  ET_CHECK_OR_RETURN(operation.row != nullptr, NotSupported, "TOSA payload: the interpreter has no operator %u (%s)",
                     static_cast<unsigned>(source.op()), payload::EnumNameOp(source.op()));
  ET_CHECK_OR_RETURN(operation.num_inputs == operation.row->min_inputs ||
                         (operation.row->more_inputs && operation.num_inputs > operation.row->min_inputs),
                     InvalidProgram, "TOSA payload: operator %" PRIu32 " (%s) has %" PRIu32 " inputs",
                     operation.position, payload::EnumNameOp(source.op()), operation.num_inputs);
  if (operation.row->has_attribute) {
    operation.attribute = source.attribute();
    ET_CHECK_OR_RETURN(operation.attribute != nullptr &&
                           static_cast<uint32_t>(source.attribute_type()) == static_cast<uint32_t>(source.op()),
                       InvalidProgram, "TOSA payload: operator %" PRIu32 " (%s) has not its attribute",
                       operation.position, payload::EnumNameOp(source.op()));
  }
  ++graph_.num_operations_;
  return operation.row->check(operation);
}

Error GraphLoader::make_outputs() {
  for (uint32_t i = graph_.num_inputs_; i < graph_.num_arguments_; ++i) {
    ET_TRY(Value * value, find(*block_->outputs()->Get(i - graph_.num_inputs_)));
    ET_CHECK_OR_RETURN(
        value->place != Place::kNowhere && element_size(value->dtype) != 0 && value->dtype != payload::DType_SHAPE,
        InvalidProgram, "TOSA payload: output %" PRIu32 " is a shape, INT4, or never made", i - graph_.num_inputs_);
    if (value->place == Place::kArena) {
      value->place = Place::kArgument;
      value->offset = i;
    }
    graph_.arguments_[i] = value;
  }
  return Error::Ok;
}

Value& GraphLoader::own(const Value& value) { return graph_.values_[&value - graph_.values_]; }

/// From the last operation on, so that values live as long as the last of their names. One that is renamed to an output
/// is made there. The others have no place until all have one.
void GraphLoader::share_places() {
  for (uint32_t i = graph_.num_operations_; i-- > 0;) {
    if (!is_rename(graph_.operations_[i])) {
      continue;
    }
    Value &in = own(graph_.operations_[i].in(0)), &out = own(graph_.operations_[i].out());
    if (out.place == Place::kArena) {
      in.last_use = std::max(in.last_use, out.last_use);
      out.place = Place::kNowhere;
    } else if (in.place == Place::kArena) {
      in.place = out.place;
      in.offset = out.offset;
    }
  }
}

/// What still copies is an input, a constant or an output that is an output once more.
void GraphLoader::drop_renames() {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < graph_.num_operations_; ++i) {
    const Operation& operation = graph_.operations_[i];
    if (is_rename(operation)) {
      const Value& in = operation.in(0);
      Value& out = own(operation.out());
      if (out.place == Place::kNowhere) {
        out.place = in.place;
        out.offset = in.offset;
        out.constant = in.constant;
      }
      if (out.place == in.place && out.offset == in.offset && out.constant == in.constant) {
        continue;
      }
    }
    graph_.operations_[kept++] = operation;
  }
  graph_.num_operations_ = kept;
}

/// The largest first, each at the lowest place that is free while it lives.
Error GraphLoader::plan() {
  ET_TRY(Value * *order, allocator_.allocate_list<Value*>(2 * size_t{graph_.num_values_}));
  Value** const placed = order + graph_.num_values_;  // by offset
  size_t num_values = 0, num_placed = 0, end = 0;
  for (uint32_t i = 0; i < graph_.num_values_; ++i) {
    if (graph_.values_[i].place == Place::kArena) {
      order[num_values++] = graph_.values_ + i;
    }
  }
  std::sort(order, order + num_values,
            [](const Value* a, const Value* b) { return a->nbytes != b->nbytes ? a->nbytes > b->nbytes : a < b; });
  for (size_t i = 0; i < num_values; ++i) {
    Value& value = *order[i];
    size_t offset = 0;
    for (size_t k = 0; k < num_placed; ++k) {
      const Value& other = *placed[k];
      if (other.first_use > value.last_use || value.first_use > other.last_use) {
        continue;
      }
      if (other.offset >= offset + value.nbytes) {
        break;
      }
      offset = std::max<size_t>(offset,
                                (other.offset + size_t{other.nbytes} + kArenaAlignment - 1) & ~(kArenaAlignment - 1));
    }
    ET_CHECK_OR_RETURN(offset + value.nbytes <= INT32_MAX, InvalidProgram,
                       "TOSA payload: intermediate values over 2 GiB");
    value.offset = static_cast<uint32_t>(offset);
    end = std::max<size_t>(end, offset + value.nbytes);
    Value** const place = std::lower_bound(placed, placed + num_placed, &value,
                                           [](const Value* a, const Value* b) { return a->offset < b->offset; });
    std::memmove(place + 1, place, static_cast<size_t>(placed + num_placed - place) * sizeof(*place));
    *place = &value;
    ++num_placed;
  }
  graph_.arena_nbytes_ = end;
  return Error::Ok;
}

}  // namespace et::backends::tosa
