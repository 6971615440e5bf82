#include "threads/worker_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <new>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace et::threads {
namespace {

constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr uint64_t kInside = kOpen - 1;

/// How long a worker waits actively for the next loop before it sleeps. Between the layers of a network pass some
/// microseconds to some hundred of them. To wake a thread costs the caller 2 to 5, the thread 50 and more.
constexpr int64_t kActiveNs = 200'000;
/// Looks at the state between two looks at the clock: about a microsecond.
constexpr int kLooks = 32;
/// Looks before the caller, who waits for the last indices of others, offers its processor to them: some 20
/// microseconds.
constexpr int kLooksAtEnd = 1000;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Lets the processor take subnormal numbers for zero, in operands and results, until the end of the scope.
class FlushDenormals {
 public:
  explicit FlushDenormals(bool on) : on_(on) {
    if (on_) {
#if defined(__x86_64__)
      before_ = _mm_getcsr();
      _mm_setcsr(static_cast<unsigned>(before_) | 0x8040u);  // FTZ, DAZ
#elif defined(__aarch64__)
      __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
      __asm__ volatile("msr fpcr, %0" : : "r"(before_ | (uint64_t{1} << 24)));  // FZ
#elif defined(__arm__) && defined(__ARM_FP)
      uint32_t before;
      __asm__ volatile("vmrs %0, fpscr" : "=r"(before));
      __asm__ volatile("vmsr fpscr, %0" : : "r"(before | (1u << 24)));  // FZ
      before_ = before;
#endif
    }
  }
  ~FlushDenormals() {
    if (on_) {
#if defined(__x86_64__)
      _mm_setcsr(static_cast<unsigned>(before_));
#elif defined(__aarch64__)
      __asm__ volatile("msr fpcr, %0" : : "r"(before_));
#elif defined(__arm__) && defined(__ARM_FP)
      __asm__ volatile("vmsr fpscr, %0" : : "r"(static_cast<uint32_t>(before_)));
#endif
    }
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  bool on_;
  [[maybe_unused]] uint64_t before_ = 0;
};

}  // namespace

WorkerPool* WorkerPool::create(size_t num_threads) {
  auto* const shares = new (std::nothrow) Share[num_threads];
  auto* const workers = new (std::nothrow) Worker[num_threads];
  auto* const pool =
      shares == nullptr || workers == nullptr ? nullptr : new (std::nothrow) WorkerPool(num_threads, shares, workers);
  if (pool == nullptr) {
    delete[] shares;
    delete[] workers;
    return nullptr;
  }
  for (size_t i = 0; i + 1 < num_threads; ++i) {
    workers[i] = {pool, i + 1, {}};
    if (pthread_create(&workers[i].handle, nullptr, &worker_main, &workers[i]) != 0) {
      break;  // loops run all the same
    }
    ++pool->num_workers_;
  }
  return pool;
}

void WorkerPool::destroy() {
  pthread_mutex_lock(&mutex_);
  is_ending_.store(true, std::memory_order_seq_cst);
  pthread_cond_broadcast(&wake_);
  pthread_mutex_unlock(&mutex_);
  for (size_t i = 0; i < num_workers_; ++i) {
    pthread_join(workers_[i].handle, nullptr);
  }
  delete[] shares_;
  delete[] workers_;
  delete this;
}

void WorkerPool::run_here(size_t count, Body body, void* context, bool flush_denormals) {
  const FlushDenormals scope(flush_denormals);
  for (size_t i = 0; i < count; ++i) {
    body(context, 0, i);
  }
}

void WorkerPool::run(size_t count, Body body, void* context, bool flush_denormals) {
  if (count <= 1 || num_workers_ == 0) {
    run_here(count, body, context, flush_denormals);
    return;
  }
  body_ = body;
  context_ = context;
  flush_denormals_ = flush_denormals;
  num_shares_ = std::min(count, num_workers_ + 1);
  const size_t base = count / num_shares_;
  const size_t extra = count % num_shares_;  // the first `extra` shares have one index more
  size_t begin = 0;
  for (size_t i = 0; i < num_shares_; ++i) {
    shares_[i].next.store(begin, std::memory_order_relaxed);
    begin += base + (i < extra ? 1 : 0);
    shares_[i].end = begin;
  }
  is_resting_.store(false, std::memory_order_relaxed);
  const uint64_t number = (state_.load(std::memory_order_relaxed) >> 32) + 1;
  // Sequentially consistent, as a worker's look at the state after it counted itself among the sleepers: one sees the
  // other.
  state_.store((number << 32) | kOpen, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    pthread_mutex_lock(&mutex_);
    pthread_cond_broadcast(&wake_);
    pthread_mutex_unlock(&mutex_);
  }
  work(0);
  uint64_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int looks = 0; (state & kInside) != 0; ++looks) {
    if (looks < kLooksAtEnd) {
      pause();
    } else {
      sched_yield();  // the worker may be waiting for this very processor
    }
    state = state_.load(std::memory_order_acquire);
  }
}

void WorkerPool::work(size_t thread) {
  const FlushDenormals scope(flush_denormals_);
  for (size_t i = 0; i < num_shares_; ++i) {
    Share& share = shares_[(thread + i) % num_shares_];
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      const size_t index = share.next.fetch_add(1, std::memory_order_relaxed);
      if (index < share.end) {
        body_(context_, thread, index);
      }
    }
  }
}

void* WorkerPool::worker_main(void* opaque) {
  const Worker& worker = *static_cast<Worker*>(opaque);
  worker.pool->serve(worker.thread);
  return nullptr;
}

void WorkerPool::serve(size_t thread) {
  for (uint64_t seen = 0;;) {
    uint64_t state = wait_for_loop(seen);
    if ((state & kOpen) == 0) {
      return;
    }
    seen = state >> 32;
    while ((state & kOpen) != 0 && state >> 32 == seen) {
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) {
        work(thread);
        state_.fetch_sub(1, std::memory_order_acq_rel);
        break;
      }
    }
  }
}

uint64_t WorkerPool::wait_for_loop(uint64_t seen) {
  const auto is_new = [seen](uint64_t state) { return (state & kOpen) != 0 && state >> 32 != seen; };
  const int64_t start = now_ns();
  do {
    for (int look = 0; look < kLooks; ++look) {
      const uint64_t state = state_.load(std::memory_order_acquire);
      if (is_new(state)) {
        return state;
      }
      if (is_ending_.load(std::memory_order_relaxed)) {
        return 0;
      }
      pause();
    }
  } while (!is_resting_.load(std::memory_order_relaxed) && now_ns() - start < kActiveNs);
  pthread_mutex_lock(&mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  uint64_t state = state_.load(std::memory_order_seq_cst);
  while (!is_new(state) && !is_ending_.load(std::memory_order_seq_cst)) {
    pthread_cond_wait(&wake_, &mutex_);
    state = state_.load(std::memory_order_seq_cst);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  pthread_mutex_unlock(&mutex_);
  return is_new(state) ? state : 0;
}

}  // namespace et::threads
