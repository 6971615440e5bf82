#include "backends/xnnpack/kernels/library.h"

#include <cpuinfo.h>
#include <pthreadpool.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/host/instruction_set.h"
#include "runtime/host/packed_memory.h"
#include "runtime/host/pages.h"
#include "runtime/shared_cache.h"

namespace et::backends::xnnpack {

using runtime::InstructionSet;

namespace {

/// Whether a call runs that its caller asked to stop.
bool is_stopped() {
  const threads::StopScope* const scope = threads::StopScope::current();
  return scope != nullptr && scope->stops();
}

}  // namespace

Error check(xnn_status status, const char* call, const char* op) {
  if (status == xnn_status_success) {
    return Error::Ok;
  }
  const bool memory = status == xnn_status_out_of_memory;
  const char* const of = *op == '\0' ? "" : " of ";
  ET_CHECK_OR_RETURN(!is_stopped(), Cancelled, "%s%s%s: cancelled", call, of, op);
  ET_CHECK_OR_RETURN(!memory, MemoryAllocationFailed, "%s%s%s: no memory for %zu bytes", call, of, op, failed_nbytes());
  return ET_ERROR_WITH_MESSAGE(Internal, "%s%s%s failed with status %d", call, of, op, static_cast<int>(status));
}

namespace {

/// Takes from what cpuinfo found, which is all that XNNPACK reads, the instructions above the limit.
void limit_instructions() {
#if CPUINFO_ARCH_X86 || CPUINFO_ARCH_X86_64
  const InstructionSet limit = runtime::instruction_limit();
  if (limit == InstructionSet::kAmx || !cpuinfo_initialize()) {
    return;
  }
  cpuinfo_isa.amx_tile = cpuinfo_isa.amx_int8 = cpuinfo_isa.amx_bf16 = cpuinfo_isa.amx_fp16 = false;
  if (limit < InstructionSet::kAvx512) {
    cpuinfo_isa.avx512f = cpuinfo_isa.avx512bw = cpuinfo_isa.avx512dq = cpuinfo_isa.avx512vl = false;
    cpuinfo_isa.avx512vbmi = cpuinfo_isa.avx512vnni = cpuinfo_isa.avx512bf16 = cpuinfo_isa.avx512fp16 = false;
  }
  if (limit < InstructionSet::kAvxVnni) {
    cpuinfo_isa.avxvnni = cpuinfo_isa.avx_vnni_int8 = cpuinfo_isa.avx_vnni_int16 = cpuinfo_isa.gfni = false;
  }
  if (limit < InstructionSet::kAvx2) {
    cpuinfo_isa.avx = cpuinfo_isa.avx2 = cpuinfo_isa.fma3 = cpuinfo_isa.f16c = false;
  }
#endif
}

thread_local size_t t_failed_nbytes = 0;

/// Remembers what the system did not give; the library says only that it failed.
void* or_failed(void* memory, size_t nbytes) {
  if (memory == nullptr) {
    t_failed_nbytes = nbytes;
  }
  return memory;
}

/// The library clears such blocks at once, for half a gigabyte 0.3 s of the system's work on new pages. In a call they
/// are made here, piece by piece, and refused when the caller asked to stop.
bool make_pages(char* memory, size_t nbytes) {
  constexpr size_t kPage = 4096, kPiece = 1 << 24;
  for (size_t begin = 0; begin + kPiece <= nbytes; begin += kPiece) {
    if (is_stopped()) {
      return false;
    }
    for (size_t at = begin; at < begin + kPiece; at += kPage) {
      static_cast<volatile char*>(memory)[at] = 0;
    }
  }
  return true;
}

/// Large blocks are in huge pages: weights that no cache keeps, as those of sparse layers, are read in every call.
void* aligned(size_t alignment, size_t nbytes) {
  void* memory = nullptr;
  const bool is_large = nbytes >= runtime::kHugePage;
  alignment = is_large ? std::max(alignment, runtime::kHugePage) : alignment;
  if (is_stopped() || posix_memalign(&memory, alignment, nbytes) != 0) {
    return nullptr;
  }
  if (is_large) {
    runtime::want_huge_pages(memory, nbytes);
  }
  if (threads::StopScope::current() != nullptr && !make_pages(static_cast<char*>(memory), nbytes)) {
    std::free(memory);
    return nullptr;
  }
  return memory;
}

constexpr xnn_allocator kAllocator = {
    nullptr,
    [](void*, size_t nbytes) { return or_failed(is_stopped() ? nullptr : std::malloc(nbytes), nbytes); },
    [](void*, void* memory, size_t nbytes) {
      return or_failed(is_stopped() ? nullptr : std::realloc(memory, nbytes), nbytes);
    },
    [](void*, void* memory) { std::free(memory); },
    [](void*, size_t alignment, size_t nbytes) { return or_failed(aligned(alignment, nbytes), nbytes); },
    [](void*, void* memory) { std::free(memory); },
};

}  // namespace

size_t failed_nbytes() { return t_failed_nbytes; }

Error start_library() {
  static const bool started = [] {  // takes no memory, so that its answer stands
    limit_instructions();
    return xnn_initialize(&kAllocator) == xnn_status_success;
  }();
  return started ? Error::Ok : Error::NotSupported;
}

bool Operator::needs_reshape(pthreadpool* pool, IntArrayRef sizes) {
  const size_t threads = pthreadpool_get_threads_count(pool);
  bool same = rank_ == static_cast<int>(sizes.size()) && (threads == 1 || threads == threads_);
  for (size_t d = 0; same && d < sizes.size(); ++d) {
    same = sizes_[d] == sizes[d];
  }
  if (same) {
    return false;
  }
  ET_DCHECK(sizes.size() <= 8);
  rank_ = static_cast<int>(sizes.size());
  threads_ = threads;
  for (size_t d = 0; d < sizes.size(); ++d) {
    sizes_[d] = sizes[d];
  }
  return true;
}

Error Operator::run(const KernelContext& context, pthreadpool* pool) const {
  const threads::StopScope scope([](const void* call) { return static_cast<const KernelContext*>(call)->cancelled(); },
                                 &context);
  ET_RETURN_IF_ERROR(check(xnn_run_operator(handle_, pool), "xnn_run_operator"));
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "operator of XNNPACK: cancelled");
  return Error::Ok;
}

Result<void*> Operator::workspace(KernelContext& context) const {
  if (workspace_size == 0) {
    return nullptr;
  }
  return context.allocate_temp(workspace_size + XNN_EXTRA_BYTES, workspace_alignment < 64 ? 64 : workspace_alignment);
}

// One block of packed weights. The library wants an "offset" for each: the address itself serves.
struct PackedEntry {
  PackedEntry* next;
  const void* weight;
  const void* bias;
  WeightForm form;
  uint32_t seed;
  void* packed;
};

// What a thread packs, and the library's interface to it.
struct WeightsPacker {
  explicit WeightsPacker(PackedWeights* of);

  PackedWeights* const of;
  const void* weight = nullptr;
  const void* bias = nullptr;
  WeightForm form{};
  PackedWeightsScope::Owner owner{};  // without functions: what is above stands
  PackedWeights* home = of;           // of the weight above: that of the Program, or of a file
  PackedWeights* reserved_in = of;    // where the next packed weight gets its memory
  xnn_weights_cache_provider provider{};

  /// Brings weight, bias and form up to date for a key of the library; false when its weights are not to be shared.
  bool name(const xnn_weights_cache_look_up_key& key);
};

constexpr char kMaker = 0;  // its address names our entries in the shared cache

// An entry's name for a file that keeps it for other processes.
struct KeptName {
  KeptName(const WeightsPacker& packer, uint32_t seed) {
    std::copy(packer.form.addresses.begin(), packer.form.addresses.end(), addresses.begin() + 3);
    std::copy(packer.form.numbers.begin(), packer.form.numbers.end(), numbers.begin() + 1);
    addresses[0] = &kMaker, addresses[1] = packer.weight, addresses[2] = packer.bias;
    numbers[0] = seed;
  }
  runtime::PackedName name() const { return {{addresses.data(), addresses.size()}, {numbers.data(), numbers.size()}}; }

  std::array<const void*, std::tuple_size_v<decltype(WeightForm::addresses)> + 3> addresses;
  std::array<uint64_t, std::tuple_size_v<decltype(WeightForm::numbers)> + 1> numbers;
};

struct PackedWeights {
  static Result<PackedWeights*> of(SharedCache& shared);
  explicit PackedWeights(runtime::PackedMemory& memory) : memory(memory) {}

  std::mutex mutex;  // of a scope
  runtime::PackedMemory& memory;
  WeightsPacker packer{this};

  ~PackedWeights() {
    while (entries_ != nullptr) {
      PackedEntry* const next = entries_->next;
      std::free(entries_);
      entries_ = next;
    }
  }

  /// What `packer` is packing, if it is here or another process left it; nullptr.
  void* find(const WeightsPacker& packer, uint32_t seed) {
    {
      const std::lock_guard<std::mutex> lock(entries_mutex_);
      const PackedEntry* entry = entries_;
      while (entry != nullptr && !(entry->weight == packer.weight && entry->bias == packer.bias &&
                                   entry->form == packer.form && entry->seed == seed)) {
        entry = entry->next;
      }
      if (entry != nullptr) {
        return entry->packed;
      }
    }
    return const_cast<void*>(memory.kept(KeptName(packer, seed).name()));  // the library reads it only
  }

  void add(const WeightsPacker& packer, uint32_t seed, void* packed, size_t nbytes) {
    add_entry(packer, seed, packed);
    memory.keep(KeptName(packer, seed).name(), packed, nbytes);
  }

 private:
  /// Without memory it stays without a name.
  void add_entry(const WeightsPacker& packer, uint32_t seed, void* packed) {
    if (auto* const entry = static_cast<PackedEntry*>(std::malloc(sizeof(PackedEntry)))) {
      const std::lock_guard<std::mutex> lock(entries_mutex_);
      *entry = {entries_, packer.weight, packer.bias, packer.form, seed, packed};
      entries_ = entry;
    }
  }

  std::mutex entries_mutex_;
  PackedEntry* entries_ = nullptr;
};

bool WeightsPacker::name(const xnn_weights_cache_look_up_key& key) {
  if (owner.identify == nullptr) {
    return true;
  }
  weight = key.kernel;
  bias = key.bias;
  home = of;
  if (!owner.identify(owner.context, &weight, bias, &form)) {
    return false;
  }
  if (SharedCache* const shared = owner.home == nullptr ? nullptr : owner.home(owner.context, weight)) {
    const Result<PackedWeights*> found = PackedWeights::of(*shared);
    home = found.ok() ? found.get() : of;
  }
  return true;
}

namespace {

constexpr size_t kNotFound = SIZE_MAX;  // the library's word for it
size_t look_up(void* context, const xnn_weights_cache_look_up_key* key) {
  auto* const packer = static_cast<WeightsPacker*>(context);
  const bool has_name = packer->name(*key);
  void* const found = has_name ? packer->home->find(*packer, key->seed) : nullptr;
  packer->reserved_in = has_name && found == nullptr ? packer->home : packer->of;
  if (found == nullptr && packer->owner.identify != nullptr) {
    packer->owner.will_pack(packer->owner.context, key->kernel);
  }
  return found == nullptr ? kNotFound : reinterpret_cast<size_t>(found);
}

void* reserve_space(void* context, size_t size) {
  const Result<void*> reserved =
      static_cast<WeightsPacker*>(context)->reserved_in->memory.allocate(size + XNN_EXTRA_BYTES);
  return or_failed(reserved.ok() ? *reserved : nullptr, size);
}

/// Moves a weight that an operator packed without looking first to the memory of its home; nullptr: there is none left.
void* move_home(PackedWeights& from, PackedWeights& home, void* packed, size_t size) {
  const Result<void*> moved = home.memory.allocate(size + XNN_EXTRA_BYTES);
  if (!moved.ok()) {
    return nullptr;
  }
  std::memcpy(*moved, packed, size);
  from.memory.undo(packed);
  return *moved;
}

size_t look_up_or_insert(void* context, const xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
  auto* const packer = static_cast<WeightsPacker*>(context);
  PackedWeights& reserved_in = *std::exchange(packer->reserved_in, packer->of);
  if (!packer->name(*key)) {
    return reinterpret_cast<size_t>(packed);  // stays in the slab until the end, without a name
  }
  PackedWeights& home = *packer->home;
  if (void* const found = home.find(*packer, key->seed)) {
    if (packed != found) {
      reserved_in.memory.undo(packed);  // packed a second time by an operator that does not look first
    }
    return reinterpret_cast<size_t>(found);
  }
  if (packer->owner.identify != nullptr && !packer->owner.packed(packer->owner.context, key->kernel)) {
    return reinterpret_cast<size_t>(packed);
  }
  if (&reserved_in != &home) {
    void* const moved = move_home(reserved_in, home, packed, size);
    if (moved == nullptr) {
      return reinterpret_cast<size_t>(packed);
    }
    packed = moved;
  }
  home.add(*packer, key->seed, packed, size);
  return reinterpret_cast<size_t>(packed);
}

Result<void*> create_packed_weights(void* memory) {
  auto* const weights = new (std::nothrow) PackedWeights(*static_cast<runtime::PackedMemory*>(memory));
  ET_CHECK_OR_RETURN(weights != nullptr, MemoryAllocationFailed, "no memory for the %zu bytes of a list of weights",
                     sizeof(PackedWeights));
  return static_cast<void*>(weights);
}

void destroy_packed_weights(void* object) { delete static_cast<PackedWeights*>(object); }

}  // namespace

WeightsPacker::WeightsPacker(PackedWeights* of) : of(of) {
  provider.context = this;
  provider.look_up = &look_up;
  provider.reserve_space = &reserve_space;
  provider.look_up_or_insert = &look_up_or_insert;
  provider.is_finalized = [](void*) { return true; };  // entries never move: usable at once
  provider.offset_to_addr = [](void*, size_t offset) { return reinterpret_cast<void*>(offset); };
  provider.delete_cache = [](void*) { return xnn_status_success; };
}

PackedWeightsScope::PackedWeightsScope(SharedCache* shared, const void* weight, IntArrayRef sizes, const void* bias,
                                       uint64_t kind, Span<const uint64_t> factors) {
  constexpr size_t kMaxSizes = 4;
  // Factors may name what lies elsewhere.
  SharedCache* const home = shared == nullptr || !factors.empty() ? shared : shared->cache_of({weight, bias});
  take(sizes.size() <= kMaxSizes ? home : nullptr, {});
  if (weights_ != nullptr) {
    WeightsPacker& packer = weights_->packer;
    packer.weight = weight;
    packer.bias = bias;
    packer.form = {};
    const auto numbers = packer.form.numbers.begin();
    *numbers = kind;
    std::copy(sizes.begin(), sizes.end(), numbers + 1);
    std::copy(factors.begin(), factors.end(), numbers + 1 + kMaxSizes);
    packer.owner = {};
  }
}

PackedWeightsScope::PackedWeightsScope(SharedCache* shared, const Owner& owner) {
  take(shared, owner.homes);
  if (weights_ != nullptr) {
    weights_->packer.owner = owner;
    if (num_locked_ != 1 + owner.homes.size()) {  // no memory for one
      weights_->packer.owner.home = nullptr;
    }
    weights_->memory.expect(owner.nbytes_not_in_file);
  }
}

Result<PackedWeights*> PackedWeights::of(SharedCache& shared) {
  SharedCache::Key key;
  key.maker = &kMaker;
  ET_TRY(void* const object,
         shared.get_or_create(key, &create_packed_weights, &shared.memory(), &destroy_packed_weights));
  return static_cast<PackedWeights*>(object);
}

// The Program's first, then those of files in the order of their addresses: nobody waits for one who waits for him.
void PackedWeightsScope::take(SharedCache* shared, Span<SharedCache* const> homes) {
  const auto lock = [this](SharedCache& cache) {
    const Result<PackedWeights*> weights = PackedWeights::of(cache);
    if (weights.ok()) {  // without it operators keep their own weights
      weights.get()->mutex.lock();
      locked_[num_locked_++] = weights.get();
    }
    return weights.ok() ? weights.get() : nullptr;
  };
  if (shared == nullptr || (weights_ = lock(*shared)) == nullptr) {
    return;
  }
  weights_->packer.reserved_in = weights_;
  weights_->packer.home = weights_;
  ET_DCHECK(homes.size() <= kMaxHomes);
  for (SharedCache* const home : homes) {
    lock(*home);
  }
}

PackedWeightsScope::~PackedWeightsScope() {
  while (num_locked_ > 0) {
    locked_[--num_locked_]->mutex.unlock();
  }
}

xnn_weights_cache_t PackedWeightsScope::cache() const {
  return weights_ == nullptr ? nullptr : &weights_->packer.provider;
}

PackedWeightsScope::Branch::Branch(const PackedWeightsScope& scope)
    : packer_(new (std::nothrow) WeightsPacker(scope.weights_)) {
  if (packer_ != nullptr) {
    packer_->owner = scope.weights_->packer.owner;
  }
}
PackedWeightsScope::Branch::~Branch() { delete packer_; }
xnn_weights_cache_t PackedWeightsScope::Branch::cache() const {
  return packer_ == nullptr ? nullptr : &packer_->provider;
}

Result<ClampRange> clamp_range(const EValue& min, const EValue& max) {
  ClampRange range;
  if (!min.is_none()) {
    range.min = static_cast<float>(min.number_as_double());
  }
  if (!max.is_none()) {
    range.max = static_cast<float>(max.number_as_double());
  }
  if (!(range.min < range.max)) {  // also when one is not a number
    return Error::NotSupported;
  }
  return range;
}

}  // namespace et::backends::xnnpack
