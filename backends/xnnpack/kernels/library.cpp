#include "backends/xnnpack/kernels/library.h"

#include <cpuinfo.h>
#include <pthreadpool.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/host/instruction_set.h"
#include "runtime/host/pages.h"
#include "runtime/shared_cache.h"

namespace et::backends::xnnpack {

using runtime::InstructionSet;

Error check(xnn_status status, const char* call, const char* op) {
  if (status == xnn_status_success) {
    return Error::Ok;
  }
  const bool memory = status == xnn_status_out_of_memory;
  const char* const of = *op == '\0' ? "" : " of ";
  ET_CHECK_OR_RETURN(!memory, MemoryAllocationFailed, "%s%s%s: no memory for %zu bytes", call, of, op, failed_nbytes());
  return ET_ERROR_WITH_MESSAGE(Internal, "%s%s%s failed with status %d", call, of, op, static_cast<int>(status));
}

namespace {

/// Takes from what cpuinfo found, which is all that XNNPACK asks, the instructions above the limit.
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

void* aligned(size_t alignment, size_t nbytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, nbytes) == 0 ? memory : nullptr;
}

constexpr xnn_allocator kAllocator = {
    nullptr,
    [](void*, size_t nbytes) { return or_failed(std::malloc(nbytes), nbytes); },
    [](void*, void* memory, size_t nbytes) { return or_failed(std::realloc(memory, nbytes), nbytes); },
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

Result<void*> Operator::workspace(KernelContext& context) const {
  if (workspace_size == 0) {
    return nullptr;
  }
  return context.allocate_temp(workspace_size + XNN_EXTRA_BYTES, workspace_alignment < 64 ? 64 : workspace_alignment);
}

namespace {

// What packed weights name as alignment; the library's kernels load whole lines.
constexpr size_t kPackedAlignment = 64;

/// Memory that is given back as a whole. The first slabs are small, for small programs; those that follow are address
/// space for many weights, of which the system makes memory, in huge pages, as far as they are written.
class SlabAllocator {
 public:
  /// `expected`: about how many bytes will be handed out.
  explicit SlabAllocator(size_t expected) : expected_(expected) {}
  SlabAllocator(const SlabAllocator&) = delete;
  SlabAllocator& operator=(const SlabAllocator&) = delete;
  ~SlabAllocator() {
    while (slabs_ != nullptr) {
      Slab* const next = slabs_->next;
      if (slabs_->is_mapped) {
        runtime::unmap_pages(slabs_->base, slabs_->size);
      } else {
        std::free(slabs_->base);
      }
      std::free(slabs_);
      slabs_ = next;
    }
  }

  /// So many bytes more will be handed out.
  void expect(size_t nbytes) { expected_ = expected_ > SIZE_MAX - nbytes ? SIZE_MAX : expected_ + nbytes; }

  /// `size` bytes at a multiple of kPackedAlignment, nullptr when there is no memory.
  void* allocate(size_t size) {
    size = (size + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
    if (slabs_ == nullptr || slabs_->size - slabs_->used < size) {
      if (!add_slab(size)) {
        return nullptr;
      }
    }
    void* const memory = slabs_->base + slabs_->used;
    slabs_->used += size;
    total_ += size;
    return memory;
  }

  /// Gives back the last allocation if `memory` is it; otherwise it stays until the end.
  void undo(void* memory) {
    const auto* const at = static_cast<char*>(memory);
    if (slabs_ != nullptr && at >= slabs_->base && at < slabs_->base + slabs_->used) {
      slabs_->used = static_cast<size_t>(at - slabs_->base);
    }
  }

 private:
  struct Slab {
    Slab* next;
    char* base;
    size_t size, used;
    bool is_mapped;
  };

  bool add_slab(size_t least) {
    constexpr size_t kSmall = size_t{256} << 10;
    constexpr size_t kLarge = size_t{64} << 20;
    auto* const slab = static_cast<Slab*>(std::malloc(sizeof(Slab)));
    if (slab == nullptr) {
      return false;
    }
    const bool is_mapped = total_ + least > 2 * kSmall;
    size_t size = is_mapped ? (least < kLarge ? kLarge : least) : (least < kSmall ? kSmall : least);
    void* base = nullptr;
    if (is_mapped) {
      const size_t rest = expected_ > total_ ? expected_ - total_ : 0;
      base = runtime::map_pages(size, least > rest ? least : rest);
      if (base == nullptr) {  // a system that counts address space as memory
        size = least;
        base = runtime::map_pages(size);
      }
    } else if (posix_memalign(&base, kPackedAlignment, size) != 0) {
      base = nullptr;
    }
    if (base == nullptr) {
      std::free(slab);
      return false;
    }
    *slab = {slabs_, static_cast<char*>(base), size, 0, is_mapped};
    slabs_ = slab;
    return true;
  }

  size_t expected_;
  Slab* slabs_ = nullptr;  // the one in use first
  size_t total_ = 0;       // bytes handed out
};

}  // namespace

// One block of packed weights. The library wants an "offset" for each: the address itself serves.
struct PackedEntry {
  PackedEntry* next;
  const void* weight;
  const void* bias;
  WeightForm form;
  uint32_t seed;
  void* packed;
};

struct PackedWeights {
  static Result<PackedWeights*> of(SharedCache& shared);
  explicit PackedWeights(size_t expected) : memory(expected) {}

  std::mutex mutex;
  SlabAllocator memory;
  PackedEntry* entries = nullptr;
  // What the scope that holds the mutex is packing.
  const void* weight = nullptr;
  const void* bias = nullptr;
  WeightForm form{};
  PackedWeightsScope::Owner owner{};  // without functions: what is above stands
  PackedWeights* home = this;         // of the weight above: this one, or that of a file
  PackedWeights* reserved_in = this;  // where the next packed weight gets its memory
  xnn_weights_cache_provider provider{};

  ~PackedWeights() {
    while (entries != nullptr) {
      PackedEntry* const next = entries->next;
      std::free(entries);
      entries = next;
    }
  }

  /// Brings weight, bias and form up to date for a key of the library; false when its weights are not to be shared.
  bool name(const xnn_weights_cache_look_up_key& key) {
    if (owner.identify == nullptr) {
      return true;
    }
    weight = key.kernel;
    bias = key.bias;
    home = this;
    if (!owner.identify(owner.context, &weight, bias, &form)) {
      return false;
    }
    if (SharedCache* const shared = owner.home == nullptr ? nullptr : owner.home(owner.context, weight)) {
      const Result<PackedWeights*> found = of(*shared);
      home = found.ok() ? found.get() : this;
    }
    return true;
  }

  PackedEntry* find(uint32_t seed) const {
    for (PackedEntry* entry = home->entries; entry != nullptr; entry = entry->next) {
      if (entry->weight == weight && entry->bias == bias && entry->form == form && entry->seed == seed) {
        return entry;
      }
    }
    return nullptr;
  }
};

namespace {

constexpr size_t kNotFound = SIZE_MAX;  // the library's word for it
size_t look_up(void* context, const xnn_weights_cache_look_up_key* key) {
  auto* const weights = static_cast<PackedWeights*>(context);
  const bool has_name = weights->name(*key);
  const PackedEntry* const entry = has_name ? weights->find(key->seed) : nullptr;
  weights->reserved_in = has_name && entry == nullptr ? weights->home : weights;
  if (entry == nullptr && weights->owner.identify != nullptr) {
    weights->owner.will_pack(weights->owner.context, key->kernel);
  }
  return entry == nullptr ? kNotFound : reinterpret_cast<size_t>(entry->packed);
}

void* reserve_space(void* context, size_t size) {
  return or_failed(static_cast<PackedWeights*>(context)->reserved_in->memory.allocate(size + XNN_EXTRA_BYTES), size);
}

/// Moves a weight that an operator packed without looking first to the memory of its home; nullptr: there is none left.
void* move_home(PackedWeights& from, PackedWeights& home, void* packed, size_t size) {
  void* const moved = home.memory.allocate(size + XNN_EXTRA_BYTES);
  if (moved != nullptr) {
    std::memcpy(moved, packed, size);
    from.memory.undo(packed);
  }
  return moved;
}

size_t look_up_or_insert(void* context, const xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
  auto* const weights = static_cast<PackedWeights*>(context);
  PackedWeights& reserved_in = *std::exchange(weights->reserved_in, weights);
  if (!weights->name(*key)) {
    return reinterpret_cast<size_t>(packed);  // stays in the slab until the end, without a name
  }
  if (const PackedEntry* const entry = weights->find(key->seed)) {
    if (packed != entry->packed) {
      reserved_in.memory.undo(packed);  // packed a second time by an operator that does not look first
    }
    return reinterpret_cast<size_t>(entry->packed);
  }
  if (weights->owner.identify != nullptr && !weights->owner.packed(weights->owner.context, key->kernel)) {
    return reinterpret_cast<size_t>(packed);
  }
  PackedWeights& home = *weights->home;
  if (&reserved_in != &home) {
    void* const moved = move_home(reserved_in, home, packed, size);
    if (moved == nullptr) {
      return reinterpret_cast<size_t>(packed);
    }
    packed = moved;
  }
  auto* const entry = static_cast<PackedEntry*>(std::malloc(sizeof(PackedEntry)));
  if (entry == nullptr) {
    return reinterpret_cast<size_t>(packed);  // stays without a name
  }
  *entry = {home.entries, weights->weight, weights->bias, weights->form, key->seed, packed};
  home.entries = entry;
  return reinterpret_cast<size_t>(packed);
}

Result<void*> create_packed_weights(void* expected) {
  auto* const weights = new (std::nothrow) PackedWeights(*static_cast<const size_t*>(expected));
  ET_CHECK_OR_RETURN(weights != nullptr, MemoryAllocationFailed, "no memory for the %zu bytes of a list of weights",
                     sizeof(PackedWeights));
  weights->provider.context = weights;
  weights->provider.look_up = &look_up;
  weights->provider.reserve_space = &reserve_space;
  weights->provider.look_up_or_insert = &look_up_or_insert;
  weights->provider.is_finalized = [](void*) { return true; };  // entries never move: usable at once
  weights->provider.offset_to_addr = [](void*, size_t offset) { return reinterpret_cast<void*>(offset); };
  weights->provider.delete_cache = [](void*) { return xnn_status_success; };
  return static_cast<void*>(weights);
}

void destroy_packed_weights(void* object) { delete static_cast<PackedWeights*>(object); }

constexpr char kMaker = 0;  // its address names our entry in the shared cache

}  // namespace

PackedWeightsScope::PackedWeightsScope(SharedCache* shared, const void* weight, IntArrayRef sizes, const void* bias,
                                       uint64_t kind, Span<const uint64_t> factors) {
  constexpr size_t kMaxSizes = 4;
  // Factors may name what lies elsewhere.
  SharedCache* const home = shared == nullptr || !factors.empty() ? shared : shared->cache_of({weight, bias});
  take(sizes.size() <= kMaxSizes ? home : nullptr, {});
  if (weights_ != nullptr) {
    weights_->weight = weight;
    weights_->bias = bias;
    weights_->form = {kind};
    std::copy(sizes.begin(), sizes.end(), weights_->form.begin() + 1);
    std::copy(factors.begin(), factors.end(), weights_->form.begin() + 1 + kMaxSizes);
    weights_->owner = {};
  }
}

PackedWeightsScope::PackedWeightsScope(SharedCache* shared, const Owner& owner) {
  take(shared, owner.homes);
  if (weights_ != nullptr) {
    weights_->owner = owner;
    if (num_locked_ != 1 + owner.homes.size()) {  // no memory for one
      weights_->owner.home = nullptr;
    }
    weights_->memory.expect(owner.nbytes_not_in_file);
  }
}

Result<PackedWeights*> PackedWeights::of(SharedCache& shared) {
  SharedCache::Key key;
  key.maker = &kMaker;
  size_t expected = shared.constant_nbytes();
  ET_TRY(void* const object, shared.get_or_create(key, &create_packed_weights, &expected, &destroy_packed_weights));
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
  weights_->reserved_in = weights_;
  weights_->home = weights_;
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

xnn_weights_cache_t PackedWeightsScope::cache() const { return weights_ == nullptr ? nullptr : &weights_->provider; }

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
