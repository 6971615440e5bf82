#include "backends/xnnpack/kernels/library.h"

#include <pthreadpool.h>

#include <cmath>
#include <cstdlib>
#include <mutex>

#include "runtime/shared_cache.h"

namespace et::backends::xnnpack {

Error check(xnn_status status, const char* call) {
  if (status == xnn_status_success) {
    return Error::Ok;
  }
  const bool memory = status == xnn_status_out_of_memory;
  ET_LOG_ERROR("%s failed with status %d%s", call, static_cast<int>(status), memory ? " (out of memory)" : "");
  return memory ? Error::MemoryAllocationFailed : Error::Internal;
}

Error start_library() { return xnn_initialize(nullptr) == xnn_status_success ? Error::Ok : Error::NotSupported; }

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

// One block of packed weights. The library wants an "offset" for each: the address itself serves.
struct PackedEntry {
  PackedEntry* next;
  const void* weight;
  const void* bias;
  uint64_t variant;
  uint32_t seed;
  void* packed;
  size_t size;
};

struct PackedWeights {
  std::mutex mutex;
  PackedEntry* entries = nullptr;
  // What the scope that holds the mutex is packing.
  const void* weight = nullptr;
  const void* bias = nullptr;
  uint64_t variant = 0;
  xnn_weights_cache_provider provider{};

  ~PackedWeights() {
    while (entries != nullptr) {
      PackedEntry* const next = entries->next;
      std::free(entries->packed);
      std::free(entries);
      entries = next;
    }
  }

  PackedEntry* find(uint32_t seed) const {
    for (PackedEntry* entry = entries; entry != nullptr; entry = entry->next) {
      if (entry->weight == weight && entry->bias == bias && entry->variant == variant && entry->seed == seed) {
        return entry;
      }
    }
    return nullptr;
  }
};

namespace {

constexpr size_t kNotFound = SIZE_MAX;  // the library's word for it
constexpr size_t kPackedAlignment = 64;

size_t look_up(void* context, const xnn_weights_cache_look_up_key* key) {
  const PackedEntry* const entry = static_cast<PackedWeights*>(context)->find(key->seed);
  return entry == nullptr ? kNotFound : reinterpret_cast<size_t>(entry->packed);
}

void* reserve_space(void*, size_t size) {
  const size_t rounded = (size + XNN_EXTRA_BYTES + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
  return std::aligned_alloc(kPackedAlignment, rounded);
}

size_t look_up_or_insert(void* context, const xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
  auto* const weights = static_cast<PackedWeights*>(context);
  if (const PackedEntry* const entry = weights->find(key->seed)) {
    if (packed != entry->packed) {
      std::free(packed);  // packed a second time by an operator that does not look first
    }
    return reinterpret_cast<size_t>(entry->packed);
  }
  auto* const entry = static_cast<PackedEntry*>(std::malloc(sizeof(PackedEntry)));
  if (entry == nullptr) {
    std::free(packed);
    return kNotFound;
  }
  *entry = {weights->entries, weights->weight, weights->bias, weights->variant, key->seed, packed, size};
  weights->entries = entry;
  return reinterpret_cast<size_t>(packed);
}

Result<void*> create_packed_weights(void*) {
  auto* const weights = new (std::nothrow) PackedWeights();
  if (weights == nullptr) {
    return Error::MemoryAllocationFailed;
  }
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

PackedWeightsScope::PackedWeightsScope(SharedCache* shared, const void* weight, const void* bias, uint64_t variant) {
  if (shared == nullptr) {
    return;
  }
  SharedCache::Key key;
  key.maker = &kMaker;
  auto object = shared->get_or_create(key, &create_packed_weights, nullptr, &destroy_packed_weights);
  if (!object.ok()) {
    return;  // without it the operator keeps its own weights
  }
  weights_ = static_cast<PackedWeights*>(object.get());
  weights_->mutex.lock();
  weights_->weight = weight;
  weights_->bias = bias;
  weights_->variant = variant;
}

PackedWeightsScope::~PackedWeightsScope() {
  if (weights_ != nullptr) {
    weights_->mutex.unlock();
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
