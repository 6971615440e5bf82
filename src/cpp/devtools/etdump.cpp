#include "devtools/etdump.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/log.h"
#include "runtime/platform.h"
#include "runtime/tensor_lists.h"

namespace et::devtools {

using runtime::EValue;
using runtime::EventKind;
using runtime::Tensor;

/// Numbers of ValueType in the format.
enum class ValueType : uint8_t { kNull, kInt, kBool, kFloat, kDouble, kTensor, kTensorList };

/// What the buffer holds, one after the other. Behind a record stand `extra_size` bytes (metadata, or tensors), the
/// name, the text of a delegate's id, and bytes up to a multiple of 8.
struct EtDump::Record {
  enum class Type : uint8_t { kRun, kAllocator, kSpan, kAllocation, kValue };

  uint32_t nbytes = 0;  // of all of it
  Type type = Type::kSpan;
  EventKind kind = EventKind::kProgramLoad;
  ValueType value_type = ValueType::kNull;
  bool is_output = false;
  int32_t chain = -1;
  int32_t instruction = -1;
  int32_t number = -1;  // a delegate's id, an allocator's, or the test case of a run
  uint32_t extra_size = 0;
  uint32_t name_size = 0;
  uint32_t text_size = 0;
  uint64_t first = 0;   // start of a span, or a number
  uint64_t second = 0;  // end of a span

  const uint8_t* extra() const { return reinterpret_cast<const uint8_t*>(this + 1); }
  std::string_view name() const { return {reinterpret_cast<const char*>(extra() + extra_size), name_size}; }
  std::string_view text() const { return {name().data() + name_size, text_size}; }
};

namespace {

/// A tensor of a value. Its sizes and strides stand behind it.
struct TensorRecord {
  int64_t offset;  // in the debug buffer
  int64_t rank;
  ScalarType dtype;

  const int64_t* sizes() const { return reinterpret_cast<const int64_t*>(this + 1); }
  const TensorRecord* next() const { return reinterpret_cast<const TensorRecord*>(sizes() + 2 * rank); }
};

constexpr size_t kDebugAlignment = 64;

/// "add.out" of "aten::add.out".
std::string_view without_namespace(std::string_view name) {
  const size_t colons = name.rfind("::");
  name.remove_prefix(colons == std::string_view::npos ? 0 : colons + 2);  // substr() could throw
  return name;
}

/// The name that the published runtime gives an event, in two parts.
struct EventName {
  std::string_view prefix;
  std::string_view rest = {};
};
EventName name_of(EventKind kind, std::string_view name) {
  switch (kind) {
    case EventKind::kProgramLoad: return {"Program::load"};
    case EventKind::kMethodLoad: return {"Program::load_method"};
    case EventKind::kMethodInit: return {"Method::init"};
    case EventKind::kDelegateInit: return {"delegate_init_", name};
    case EventKind::kExecute: return {"Method::execute"};
    case EventKind::kKernel: return {"native_call_", without_namespace(name)};
    case EventKind::kDelegate: return {"DELEGATE_CALL"};
    case EventKind::kMove: return {"MOVE_CALL"};
    case EventKind::kJump: return {"JF_CALL"};
    case EventKind::kFree: return {"FREE_CALL"};
    case EventKind::kDelegateStep: break;
  }
  return {name};
}

}  // namespace

EtDump::EtDump(Span<uint8_t> events, Span<uint8_t> debug) : debug_(debug) {
  const size_t skipped = (0 - reinterpret_cast<uintptr_t>(events.data())) % alignof(Record);
  if (skipped <= events.size()) {
    events_ = events.subspan(skipped, events.size() - skipped);
  }
}

// ---------------------------------------------------------------------------------------------------------- recording

/// Room for a record, filled but for its extra bytes, to which it points. nullptr: there is none.
uint8_t* EtDump::append(Record record, std::string_view name, std::string_view text, size_t extra_size) {
  const size_t nbytes = (sizeof(Record) + extra_size + name.size() + text.size() + 7) / 8 * 8;
  wanted_ += nbytes;
  if (nbytes > events_.size() - used_) {
    events_ = grow_events(used_ + nbytes);
  }
  if (nbytes > events_.size() - used_ || nbytes > UINT32_MAX) {
    return nullptr;
  }
  record.nbytes = static_cast<uint32_t>(nbytes);
  record.extra_size = static_cast<uint32_t>(extra_size);
  record.name_size = static_cast<uint32_t>(name.size());
  record.text_size = static_cast<uint32_t>(text.size());
  uint8_t* const place = events_.data() + used_;
  used_ += nbytes;
  std::memcpy(place, &record, sizeof(record));
  uint8_t* const extra = place + sizeof(record);
  std::copy(name.begin(), name.end(), extra + extra_size);
  std::copy(text.begin(), text.end(), extra + extra_size + name.size());
  return extra;
}

void EtDump::begin_run(std::string_view name, Phase phase) {
  Record record;
  record.type = Record::Type::kRun;
  record.number = phase == Phase::kExecuting ? bundled_input_index_.load() : -1;
  append(record, name);
  phase_ = phase;
  ++num_runs_;
}

/// What is recorded outside of executions belongs to a run of its own.
void EtDump::begin_loading() {
  if (phase_ == Phase::kNothing || phase_ == Phase::kExecuted) {
    begin_run("Default", Phase::kLoading);
  }
}

void EtDump::begin_execution(std::string_view) { begin_run("Execute", Phase::kExecuting); }

void EtDump::record(const runtime::TraceEvent& event) {
  if (event.kind != EventKind::kExecute) {
    begin_loading();
  }
  Record record;
  record.kind = event.kind;
  record.chain = event.position.chain;
  record.instruction = event.position.instruction;
  record.number = event.delegate_id.number;
  record.first = event.start_ns;
  record.second = event.end_ns;
  uint8_t* const extra = append(record, event.name, event.delegate_id.text, event.metadata.size());
  if (extra != nullptr) {
    std::copy(event.metadata.begin(), event.metadata.end(), extra);
  }
  if (event.kind == EventKind::kExecute) {
    phase_ = Phase::kExecuted;
  }
}

uint32_t EtDump::add_allocator(std::string_view name) {
  Record record;
  record.type = Record::Type::kAllocator;
  append(record, name);
  return num_allocators_++;
}

void EtDump::record_allocation(uint32_t allocator, size_t nbytes) {
  begin_loading();
  Record record;
  record.type = Record::Type::kAllocation;
  record.chain = position().chain;
  record.instruction = position().instruction;
  record.number = static_cast<int32_t>(allocator);
  record.first = record.second = runtime::platform_now_ns();
  uint8_t* const extra = append(record, {}, {}, sizeof(uint64_t));
  if (extra != nullptr) {
    const uint64_t size = nbytes;
    std::memcpy(extra, &size, sizeof(size));
  }
}

void EtDump::record_counter(std::string_view name, int64_t value) {
  begin_loading();
  const EValue number(value);
  record_value({&number, position(), {}, name});
}

void EtDump::record_value(const runtime::TraceValue& value) {
  Record record;
  record.type = Record::Type::kValue;
  record.chain = value.position.chain;
  record.instruction = value.position.instruction;
  record.number = value.delegate_id.number;
  record.is_output = value.is_output;
  const EValue& given = *value.value;
  size_t extra_size = 0;
  if (given.is_tensor() || given.is_tensor_list()) {
    record.value_type = given.is_tensor() ? ValueType::kTensor : ValueType::kTensorList;
    runtime::all_tensors(given, [&](const Tensor& tensor) {
      extra_size += sizeof(TensorRecord) + 2 * static_cast<size_t>(tensor.dim()) * sizeof(int64_t);
      return true;
    });
  } else if (given.is_double()) {
    record.value_type = ValueType::kDouble;
    const double number = given.to_double();
    std::memcpy(&record.first, &number, sizeof(number));
  } else if (given.is_number()) {
    record.value_type = given.is_bool() ? ValueType::kBool : ValueType::kInt;
    record.first = static_cast<uint64_t>(given.number_as_int());
  }
  const size_t debug_before = debug_used_;
  const bool has_room = record.value_type < ValueType::kTensor || keep_bytes(given);
  uint8_t* extra = has_room ? append(record, value.name, value.delegate_id.text, extra_size) : nullptr;
  if (extra == nullptr) {
    debug_used_ = debug_before;
    return;
  }
  size_t offset = debug_before;
  runtime::all_tensors(given, [&](const Tensor& tensor) {
    offset = (offset + kDebugAlignment - 1) / kDebugAlignment * kDebugAlignment;
    const TensorRecord made{static_cast<int64_t>(offset), tensor.dim(), tensor.scalar_type()};
    const size_t nbytes = static_cast<size_t>(tensor.dim()) * sizeof(int64_t);
    std::memcpy(extra, &made, sizeof(made));
    std::memcpy(extra + sizeof(made), tensor.sizes().data(), nbytes);
    std::memcpy(extra + sizeof(made) + nbytes, tensor.strides().data(), nbytes);
    extra += sizeof(made) + 2 * nbytes;
    offset += tensor.nbytes();
    return true;
  });
}

/// Copies the bytes of tensors to the debug buffer. False when it has no room for them.
bool EtDump::keep_bytes(const EValue& value) {
  const auto place_of = [](size_t used) { return (used + kDebugAlignment - 1) / kDebugAlignment * kDebugAlignment; };
  size_t end = debug_used_;
  runtime::all_tensors(value, [&](const Tensor& tensor) {
    end = place_of(end) + tensor.nbytes();
    debug_wanted_ = place_of(debug_wanted_) + tensor.nbytes();
    return true;
  });
  if (end > debug_.size()) {
    return false;
  }
  runtime::all_tensors(value, [&](const Tensor& tensor) {
    debug_used_ = place_of(debug_used_);
    if (tensor.nbytes() > 0 && tensor.const_data_ptr() != nullptr) {
      std::memcpy(debug_.data() + debug_used_, tensor.const_data_ptr(), tensor.nbytes());
    }
    debug_used_ += tensor.nbytes();
    return true;
  });
  return true;
}

// ------------------------------------------------------------------------------------------------------------- writing

/// Walks over records and makes the nodes of the file from them.
class EventReader {
 public:
  using Record = EtDump::Record;

  explicit EventReader(const EtDump& dump) : begin_(dump.events_.data()), end_(begin_ + dump.used_) {}

  const Record* first() const { return at(begin_); }
  const Record* next(const Record* record) const {
    return at(reinterpret_cast<const uint8_t*>(record) + record->nbytes);
  }

 private:
  const Record* at(const uint8_t* place) const {
    return place == end_ ? nullptr : reinterpret_cast<const Record*>(place);
  }

  const uint8_t* begin_;
  const uint8_t* end_;
};

/// Methods that are loaded keep their allocators' numbers, so those records stay.
void EtDump::reset() {
  const EventReader reader(*this);
  size_t kept = 0;
  for (const Record *r = reader.first(), *next; r != nullptr; r = next) {
    next = reader.next(r);
    if (r->type == Record::Type::kAllocator) {
      const size_t nbytes = r->nbytes;
      std::memmove(events_.data() + kept, r, nbytes);
      kept += nbytes;
    }
  }
  used_ = wanted_ = kept;
  debug_used_ = debug_wanted_ = num_runs_ = 0;
  phase_ = Phase::kNothing;
}

namespace {

using Record = EventReader::Record;

template <size_t kCount>
Table table(const Field (&fields)[kCount]) {
  return Table(Span<const Field>(fields, kCount));
}

class Allocators final : public Nodes {
 public:
  explicit Allocators(const EventReader& reader) : reader_(reader) {}
  size_t count() const override {
    size_t found = 0;
    each([](void* context, const Node&) { ++*static_cast<size_t*>(context); }, &found);
    return found;
  }
  void each(Visit visit, void* context) const override {
    for (const Record* r = reader_.first(); r != nullptr; r = reader_.next(r)) {
      if (r->type == Record::Type::kAllocator) {
        const String name(r->name());
        visit(context, table({Field::node(&name)}));
      }
    }
  }

 private:
  const EventReader& reader_;
};

void visit_tensor(const TensorRecord& tensor, Nodes::Visit visit, void* context) {
  const auto rank = static_cast<size_t>(tensor.rank);
  const Numbers sizes(tensor.sizes(), rank, sizeof(int64_t));
  const Numbers strides(tensor.sizes() + rank, rank, sizeof(int64_t));
  visit(context, table({Field::scalar(static_cast<int8_t>(tensor.dtype)), Field::node(&sizes), Field::node(&strides),
                        Field::scalar(tensor.offset)}));
}

class Tensors final : public Nodes {
 public:
  explicit Tensors(const Record& record) : record_(record) {}
  size_t count() const override {
    size_t found = 0;
    each([](void* context, const Node&) { ++*static_cast<size_t*>(context); }, &found);
    return found;
  }
  void each(Visit visit, void* context) const override {
    const auto* tensor = reinterpret_cast<const TensorRecord*>(record_.extra());
    const auto* const end = reinterpret_cast<const TensorRecord*>(record_.extra() + record_.extra_size);
    for (; tensor != end; tensor = tensor->next()) {
      visit_tensor(*tensor, visit, context);
    }
  }

 private:
  const Record& record_;
};

/// The events of one run: of the records from `first` to the next run.
class Events final : public Nodes {
 public:
  Events(const EventReader& reader, const Record* first) : reader_(reader), first_(first) {}

  size_t count() const override {
    size_t found = 0;
    for (const Record* r = first_; r != nullptr && r->type != Record::Type::kRun; r = reader_.next(r)) {
      found += r->type == Record::Type::kAllocator ? 0 : is_call(*r) ? 2 : 1;
    }
    return found;
  }

  void each(Visit visit, void* context) const override {
    for (const Record* r = first_; r != nullptr && r->type != Record::Type::kRun; r = reader_.next(r)) {
      switch (r->type) {
        case Record::Type::kSpan:
          visit_span(*r, name_of(r->kind, r->name()), visit, context);
          if (is_call(*r)) {
            visit_span(*r, {"OPERATOR_CALL"}, visit, context);
          }
          break;
        case Record::Type::kAllocation: {
          uint64_t nbytes;
          std::memcpy(&nbytes, r->extra(), sizeof(nbytes));
          const Field fields[] = {Field::scalar(r->number), Field::scalar(nbytes)};
          const Table allocation = table(fields);
          visit_span(*r, {"ALLOCATION"}, visit, context, &allocation);
          break;
        }
        case Record::Type::kValue: visit_value(*r, visit, context); break;
        case Record::Type::kRun:
        case Record::Type::kAllocator: break;
      }
    }
  }

 private:
  static bool is_call(const Record& r) { return r.type == Record::Type::kSpan && r.kind == EventKind::kKernel; }

  /// An allocation has a span of no length beside it: the published Inspector fails at an event that has none.
  static void visit_span(const Record& r, EventName event_name, Visit visit, void* context,
                         const Node* allocation = nullptr) {
    const String name(event_name.prefix, event_name.rest);
    const String text(r.text());
    // An execution's name is always the same, so its metadata says the method.
    const bool names_method = r.kind == EventKind::kExecute;
    const Numbers method(r.name().data(), r.name_size, 1), metadata(r.extra(), r.extra_size, 1);
    const Node* const told = r.kind == EventKind::kDelegateStep ? &metadata : names_method ? &method : nullptr;
    const Field fields[] = {Field::node(event_name.prefix.empty() ? nullptr : &name),
                            Field::scalar(r.chain),
                            Field::scalar(r.instruction),
                            Field::scalar(allocation == nullptr ? r.number : -1),
                            Field::node(r.text_size == 0 ? nullptr : &text),
                            Field::node(told),
                            Field::scalar(r.first),
                            Field::scalar(r.second)};
    const Table span = table(fields);
    visit(context, table({Field::node(&span), Field::node(allocation)}));
  }

  static void visit_value(const Record& r, Visit visit, void* context) {
    struct Event {
      const Record& record;
      Visit visit;
      void* context;
    };
    const Event event{r, visit, context};
    const auto finish = [](void* opaque, const Node& payload) {
      const Event& given = *static_cast<const Event*>(opaque);
      write_event(given.record, &payload, given.visit, given.context);
    };
    switch (r.value_type) {
      case ValueType::kTensor:
        visit_tensor(*reinterpret_cast<const TensorRecord*>(r.extra()), finish, const_cast<Event*>(&event));
        break;
      case ValueType::kTensorList: {
        const Tensors tensors(r);
        write_event(r, &static_cast<const Node&>(table({Field::node(&tensors)})), visit, context);
        break;
      }
      case ValueType::kBool:
        write_event(r, &static_cast<const Node&>(table({Field::scalar(static_cast<uint8_t>(r.first))})), visit,
                    context);
        break;
      case ValueType::kInt:
      case ValueType::kFloat:
      case ValueType::kDouble:
        write_event(r, &static_cast<const Node&>(table({Field::scalar(r.first)})), visit, context);
        break;
      case ValueType::kNull: write_event(r, nullptr, visit, context); break;
    }
  }

  static void write_event(const Record& r, const Node* payload, Visit visit, void* context) {
    const auto of = [&](ValueType type) { return Field::node(r.value_type == type ? payload : nullptr); };
    const Field yes[] = {Field::scalar(uint8_t{1})};
    const Table is_output = table(yes);
    const Field value_fields[] = {Field::scalar(static_cast<uint8_t>(r.value_type)),
                                  of(ValueType::kTensor),
                                  of(ValueType::kTensorList),
                                  of(ValueType::kInt),
                                  of(ValueType::kFloat),
                                  of(ValueType::kDouble),
                                  of(ValueType::kBool),
                                  Field::node(r.is_output ? &is_output : nullptr)};
    const Table value = table(value_fields);
    const String text(r.text());
    const String name(r.name());
    const Field fields[] = {Field::scalar(static_cast<uint64_t>(int64_t{r.chain})),
                            Field::scalar(r.instruction),
                            Field::node(&value),
                            Field::scalar(r.number),
                            Field::node(r.text_size == 0 ? nullptr : &text),
                            Field::node(r.name_size == 0 ? nullptr : &name)};
    const Table event = table(fields);
    visit(context, table({Field::absent(), Field::absent(), Field::node(&event)}));
  }

  const EventReader& reader_;
  const Record* first_;
};

class Runs final : public Nodes {
 public:
  Runs(const EventReader& reader, size_t count, bool has_allocators)
      : reader_(reader), count_(count), has_allocators_(has_allocators) {}
  size_t count() const override { return count_; }
  void each(Visit visit, void* context) const override {
    const Allocators allocators(reader_);
    for (const Record* r = reader_.first(); r != nullptr; r = reader_.next(r)) {
      if (r->type == Record::Type::kRun) {
        const String name(r->name());
        const Events events(reader_, reader_.next(r));
        visit(context, table({Field::node(&name), Field::scalar(r->number),
                              Field::node(has_allocators_ ? &allocators : nullptr), Field::node(&events)}));
      }
    }
  }

 private:
  const EventReader& reader_;
  size_t count_;
  bool has_allocators_;
};

constexpr uint32_t kVersion = 0;

}  // namespace

Error EtDump::check() const {
  ET_CHECK_OR_RETURN(wanted_ == used_, OutOfResources,
                     "the events take %zu bytes, their buffer has %zu; give a larger one, or run less often", wanted_,
                     events_.size());
  ET_CHECK_OR_RETURN(debug_wanted_ <= debug_.size(), OutOfResources,
                     "the values take %zu bytes, the debug buffer has %zu; give a larger one (debug_buffer_size), or "
                     "record fewer executions",
                     debug_wanted_, debug_.size());
  return Error::Ok;
}

template <typename Use>
auto EtDump::with_root(Use use) const {
  const EventReader reader(*this);
  const Runs runs(reader, num_runs_, num_allocators_ > 0);
  const Field fields[] = {Field::scalar(kVersion), Field::node(&runs)};
  return use(table(fields));
}

Result<size_t> EtDump::nbytes() const {
  ET_RETURN_IF_ERROR(check());
  const size_t nbytes = with_root([](const Node& root) { return size_prefixed_nbytes(root); });
  ET_CHECK_OR_RETURN(nbytes < (size_t{1} << 31) - 1, OutOfResources,
                     "the ETDump would have %zu bytes, the format holds less than 2 GiB; record fewer executions",
                     nbytes);
  return nbytes;
}

Error EtDump::write(WriteBytes write, void* context) const {
  ET_RETURN_IF_ERROR(nbytes().error());
  Out out(write, context);
  return with_root([&](const Node& root) { return write_size_prefixed(out, root, "ED00"); });
}

}  // namespace et::devtools
