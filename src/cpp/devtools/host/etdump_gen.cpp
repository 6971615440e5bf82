#include "devtools/host/etdump_gen.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/log.h"

namespace et::devtools {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

Error append_bytes(void* context, const void* data, size_t nbytes) {
  auto& bytes = *static_cast<std::vector<uint8_t>*>(context);
  const auto* const begin = static_cast<const uint8_t*>(data);
  bytes.insert(bytes.end(), begin, begin + nbytes);
  return Error::Ok;
}

Error write_file(const std::string& path, const void* data, size_t nbytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), &std::fclose);
  ET_CHECK_OR_RETURN(file != nullptr || errno != ENOMEM, MemoryAllocationFailed,
                     "no memory for a small object of the ETDump '%s'", path.c_str());
  ET_CHECK_OR_RETURN(
      file != nullptr && std::fwrite(data, 1, nbytes, file.get()) == nbytes && std::fflush(file.get()) == 0,
      AccessFailed, "cannot write '%s': %s", path.c_str(), std::strerror(errno));
  return Error::Ok;
}

}  // namespace

void ETDumpGen::Free::operator()(uint8_t* memory) const { std::free(memory); }

Span<uint8_t> ETDumpGen::grow_events(size_t needed) {
  if (is_static_etdump()) {
    return EtDump::grow_events(needed);
  }
  const size_t nbytes = std::max({needed, 2 * events_nbytes_, size_t{4096}});
  if (auto* const memory = static_cast<uint8_t*>(std::realloc(events_.get(), nbytes))) {
    static_cast<void>(events_.release());
    events_.reset(memory);
    events_nbytes_ = nbytes;
  }
  return {events_.get(), events_nbytes_};
}

Error ETDumpGen::record_values(size_t debug_nbytes) {
  const Lock lock(mutex_);
  debug_.reset(static_cast<uint8_t*>(std::calloc(std::max(debug_nbytes, size_t{1}), 1)));
  ET_CHECK_OR_RETURN(debug_ != nullptr, MemoryAllocationFailed, "no memory for a debug buffer of %zu bytes",
                     debug_nbytes);
  set_debug_buffer({debug_.get(), debug_nbytes});
  set_event_tracer_debug_level(runtime::EventTracerDebugLogLevel::kIntermediateOutputs);
  return Error::Ok;
}

Result<std::vector<uint8_t>> ETDumpGen::to_bytes() const {
  const Lock lock(mutex_);
  const bool has_all = is_static_ || events_wanted() + free_events().size() == events_nbytes_;
  ET_CHECK_OR_RETURN(has_all, MemoryAllocationFailed, "there was no memory for %zu bytes of events", events_wanted());
  ET_TRY(const size_t size, nbytes());
  std::vector<uint8_t> bytes;
  try {
    bytes.reserve(size);
  } catch (const std::bad_alloc&) {
    return ET_ERROR_WITH_MESSAGE(MemoryAllocationFailed, "no memory for %zu bytes of an ETDump", size);
  }
  ET_RETURN_IF_ERROR(write(&append_bytes, &bytes));  // without exceptions; these bytes have their memory
  return bytes;
}

ETDumpResult ETDumpGen::get_etdump_data() {
  const Lock lock(mutex_);
  const Result<std::vector<uint8_t>> bytes = to_bytes();
  if (!bytes.ok()) {
    return {nullptr, 0};
  }
  const Span<uint8_t> room = is_static_etdump() ? free_events() : Span<uint8_t>();
  void* const place = !is_static_etdump()            ? std::malloc(bytes->size())
                      : bytes->size() <= room.size() ? room.data()
                                                     : nullptr;
  if (place == nullptr) {
    ET_LOG_ERROR("the ETDump has %zu bytes, for which there is no room; give a larger buffer, or use write()",
                 bytes->size());
    return {nullptr, 0};
  }
  return {std::memcpy(place, bytes->data(), bytes->size()), bytes->size()};
}

Error ETDumpGen::save(const std::string& path, const std::string& debug_path) const {
  const Lock lock(mutex_);
  ET_TRY(const std::vector<uint8_t> bytes, to_bytes());
  ET_RETURN_IF_ERROR(write_file(path, bytes.data(), bytes.size()));
  return debug_path.empty() ? Error::Ok : write_file(debug_path, debug_bytes().data(), debug_bytes().size());
}

void ETDumpGen::clear() {
  const Lock lock(mutex_);
  reset();
}

void ETDumpGen::record(const runtime::TraceEvent& event) {
  const Lock lock(mutex_);
  EtDump::record(event);
}

void ETDumpGen::begin_execution(std::string_view method) {
  const Lock lock(mutex_);
  EtDump::begin_execution(method);
}

void ETDumpGen::record_value(const runtime::TraceValue& value) {
  const Lock lock(mutex_);
  EtDump::record_value(value);
}

uint32_t ETDumpGen::add_allocator(std::string_view name) {
  const Lock lock(mutex_);
  return EtDump::add_allocator(name);
}

void ETDumpGen::record_allocation(uint32_t allocator, size_t nbytes) {
  const Lock lock(mutex_);
  EtDump::record_allocation(allocator, nbytes);
}

void ETDumpGen::record_counter(std::string_view name, int64_t value) {
  const Lock lock(mutex_);
  EtDump::record_counter(name, value);
}

}  // namespace et::devtools
