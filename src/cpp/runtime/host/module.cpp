#include "runtime/host/module.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/platform.h"
#include "runtime/tracing.h"

namespace et::runtime {

std::shared_ptr<HostProgram> HostSession::program() const { return program_->shared_from_this(); }

HostProgram::~HostProgram() {
  if (pack_cache_ != nullptr) {
    pack_cache_->save();  // what was packed at a call
  }
}

Result<std::shared_ptr<HostProgram>> HostProgram::make(std::shared_ptr<DataLoader> loader,
                                                       std::shared_ptr<const void> keep_alive, const std::string& path,
                                                       const HostOptions& options, const FileStamp& before) try {
  const TraceSpan span(options.tracer.get(), EventKind::kProgramLoad, path);
  std::shared_ptr<HostProgram> host(new HostProgram);
  host->options_ = options;
  host->keep_alive_ = std::move(keep_alive);
  host->loader_ = std::move(loader);
  size_t nbytes = host->loader_->size();
  for (const std::string& path : options.data_files) {
    ET_TRY(std::shared_ptr<const DataFile> file, DataFile::open(path, options.mode));
    if (file->mapped().empty()) {
      nbytes += file->nbytes();
    } else {
      host->shared_cache_.add_file(file->mapped(), file->shared_cache());
    }
    host->data_map_list_.push_back(&file->map());
    host->data_files_.push_back(std::move(file));
  }
  host->shared_cache_.set_constant_nbytes(nbytes);
  host->external_data_ = std::make_unique<MergedDataMap>(Span<const NamedDataMap* const>(host->data_map_list_));
  Result<Program> program = Program::load(host->loader_.get());
  if (!program.ok()) {
    if (!path.empty()) {
      ET_LOG_CONTEXT("'%s' cannot be loaded: %s", path.c_str(), to_string(program.error()));
    }
    return program.error();
  }
  host->program_ = std::make_unique<Program>(std::move(program.get()));
  host->key_order_ = order_by_key(host->program_->named_data());
  host->program_->set_named_data_order(host->key_order_);
  host->constants_ = std::make_unique<SparseConstants>(host->program_->named_data(), *host->external_data_);
  host->shared_cache_.set_constants(host->constants_.get());
  if (!options.pack_cache.empty()) {
    ET_RETURN_IF_ERROR(host->open_pack_cache(path, before));
  }
  return host;
}
ET_NO_MEMORY("the tables of %s", path.empty() ? "a program in memory" : path.c_str())

Error HostProgram::open_pack_cache(const std::string& path, const FileStamp& before) {
  const size_t size = loader_->size();
  const Result<FreeableBuffer> whole = options_.mode == LoadMode::kFile ? FreeableBuffer() : loader_->load(0, size);
  ET_CHECK_OR_RETURN(whole.ok() && whole->is_borrowed() && whole->size() == size, InvalidArgument,
                     "pack_cache is for programs in mapped files and in memory, not for those that are read%s",
                     options_.mode == LoadMode::kFile ? " (mmap=False, LoadMode::kFile)" : " by a loader");
  const auto unchanged = [](const std::string& of, const FileStamp& stamp) {
    return !of.empty() && stamp_of(of) == stamp ? stamp : FileStamp{};
  };
  List<PackCache::Source> sources = {{{whole->data(), size}, unchanged(path, before)}};
  for (size_t i = 0; i < data_files_.size(); ++i) {
    sources.push_back({data_files_[i]->mapped(), unchanged(options_.data_files[i], data_files_[i]->stamp())});
  }
  ET_TRY(pack_cache_, PackCache::open(options_.pack_cache, path, std::move(sources)));
  shared_cache_.set_pack_cache(pack_cache_.get());
  return Error::Ok;
}

Result<std::shared_ptr<HostProgram>> HostProgram::from_file(const std::string& path, const HostOptions& options) try {
  platform_install_default_log();
  const FileStamp before = stamp_of(path);
  ET_TRY(std::unique_ptr<DataLoader> loader, open_loader(path, options.mode));
  return make(std::move(loader), nullptr, path, options, before);
}
ET_NO_MEMORY("the loader of '%s'", path.c_str())

Result<std::shared_ptr<HostProgram>> HostProgram::from_loader(std::shared_ptr<DataLoader> loader,
                                                              const HostOptions& options) {
  platform_install_default_log();
  ET_CHECK_OR_RETURN(loader != nullptr, InvalidArgument, "a program cannot be loaded: the data loader is null");
  return make(std::move(loader), nullptr, "", options);
}

Result<std::shared_ptr<HostProgram>> HostProgram::from_buffer(std::shared_ptr<const void> keep_alive, const void* data,
                                                              size_t size, const HostOptions& options) try {
  platform_install_default_log();
  ET_CHECK_OR_RETURN(data != nullptr || size == 0, InvalidArgument,
                     "a program cannot be loaded: the address of its %zu bytes is null", size);
  if (reinterpret_cast<uintptr_t>(data) % 16 != 0) {
    constexpr size_t kAlignment = 64;
    size_t rounded;
    const bool overflows = align_up_overflow(size == 0 ? 1 : size, kAlignment, &rounded);
    void* copy = overflows ? nullptr : std::aligned_alloc(kAlignment, rounded);
    ET_CHECK_OR_RETURN(copy != nullptr, MemoryAllocationFailed, "no memory for a program of %zu bytes", size);
    std::memcpy(copy, data, size);
    keep_alive = std::shared_ptr<const void>(copy, [](const void* memory) { std::free(const_cast<void*>(memory)); });
    data = copy;
  }
  return make(std::make_shared<BufferLoader>(data, size), std::move(keep_alive), "", options);
}
ET_NO_MEMORY("a program of %zu bytes in memory", size)

Result<std::shared_ptr<HostSession>> HostProgram::default_session() try {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (default_session_ == nullptr) {
    std::unique_ptr<HostSession> session(new HostSession(this));
    ET_TRY(session->session_, Session::create(*program_, session->memory_, external_data_.get()));
    default_session_ = std::move(session);
  }
  return std::shared_ptr<HostSession>(shared_from_this(), default_session_.get());
}
ET_NO_MEMORY("the default session of %zu methods", program_->num_methods())

Result<std::shared_ptr<HostSession>> HostProgram::new_session() try {
  std::shared_ptr<HostSession> session(new HostSession(this));
  session->owner_ = shared_from_this();
  ET_TRY(session->session_, Session::create(*program_, session->memory_, external_data_.get()));
  return session;
}
ET_NO_MEMORY("a session of %zu methods", program_->num_methods())

Result<std::unique_ptr<HostMethod>> HostProgram::load_method(std::string_view name,
                                                             std::shared_ptr<HostSession> session,
                                                             const HostMethodOptions& method_options) try {
  if (session == nullptr) {
    ET_TRY(session, default_session());
  }
  ET_CHECK_OR_RETURN(session->program_ == this, InvalidArgument, "the session belongs to another program");
  ET_TRY(const MethodMeta meta, program_->method_meta(name));
  std::unique_ptr<HostMethod> host(new HostMethod(std::move(session)));
  const auto either = [](MemoryAllocator* given, HeapAllocator& own) { return given != nullptr ? given : &own; };
  MemoryAllocator* const planned = either(method_options.memory, host->planned_memory_);
  for (size_t i = 0; i < meta.num_memory_planned_buffers(); ++i) {
    const uint64_t nbytes = meta.memory_planned_buffer_is_state(i) ? 0 : meta.memory_planned_buffer_size(i);
    void* memory = nullptr;
    if (nbytes > 0) {
      const bool fits = nbytes <= SIZE_MAX - kReadAhead;
      memory = fits ? planned->allocate(static_cast<size_t>(nbytes) + kReadAhead, 64) : nullptr;
      ET_CHECK_OR_RETURN(memory != nullptr, MemoryAllocationFailed,
                         "method '%.*s' plans a buffer of %" PRIu64 " bytes, which the system does not give",
                         static_cast<int>(name.size()), name.data(), nbytes);
    }
    host->planned_.emplace_back(static_cast<uint8_t*>(memory), static_cast<size_t>(nbytes));
    host->planned_nbytes_ += static_cast<size_t>(nbytes);
  }
  host->manager_.method_allocator = either(method_options.memory, host->method_memory_);
  host->manager_.planned_memory = host->planned_;
  host->manager_.temp_allocator = either(method_options.temp_memory, host->temp_memory_);
  host->manager_.data_allocator = either(method_options.data_memory, host->data_memory_);
  MethodOptions options;
  options.kernels = options_.kernels;
  options.backends = options_.backends;
  options.external_data = constants_.get();
  options.session = &host->session_->session();
  options.pool = method_options.pool != nullptr ? method_options.pool : options_.pool;
  options.shared_cache = &shared_cache_;
  options.tracer = method_options.tracer != nullptr ? method_options.tracer : options_.tracer.get();
  options.seed = method_options.seed;
  options.max_backward_jumps = method_options.max_backward_jumps;
  Result<Method> method = program_->load_method(name, &host->manager_, options);
  if (!method.ok()) {
    if (method.error() == Error::InvalidExternalData) {
      std::string given;
      for (const std::string& path : options_.data_files) {
        given += (given.empty() ? "'" : ", '") + path + "'";
      }
      ET_LOG_CONTEXT(".ptd files that were given: %s", given.empty() ? "none" : given.c_str());
    }
    return method.error();
  }
  host->method_ = std::make_unique<Method>(std::move(method.get()));
  if (pack_cache_ != nullptr) {
    pack_cache_->save();
  }
  return host;
}
ET_NO_MEMORY("method '%.*s'", static_cast<int>(std::min<size_t>(name.size(), 200)), name.data())

}  // namespace et::runtime
