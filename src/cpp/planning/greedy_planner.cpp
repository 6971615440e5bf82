#include <algorithm>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "planning/overlap.h"
#include "planning/planner.h"

namespace et::planning {
namespace {

using Order = std::vector<uint32_t>;

/// How far the search goes: placements tried, all orders together. 2 * 10^7 interval tests take about 50 ms.
constexpr uint64_t kSearchBudget = 20'000'000;
/// A plan this close to the bound is good enough to stop the search.
constexpr double kGoodEnough = 1.01;

/// Which of the free places a request takes.
enum class Fit : uint8_t {
  kBest,      ///< the smallest gap, the lowest of equal ones
  kTwoEnded,  ///< in turn the lowest place and the highest one under the bound, as in a chain where only neighbours
              ///< meet
};

/// Places requests in a given order.
class Placer {
 public:
  /// `bound`: the live-bytes bound of the requests.
  Placer(Span<const Request> requests, Span<const Arena> arenas, uint64_t bound)
      : requests_(requests), arenas_(arenas), bound_(bound), placed_(arenas.size()), sizes_(arenas.size()) {}

  /// True when everything fits; the placements are then in placements().
  bool run(const Order& order, Fit fit) {
    placements_.assign(requests_.size(), {});
    for (auto& arena : placed_) {
      arena.clear();
    }
    std::fill(sizes_.begin(), sizes_.end(), 0);
    bool from_top = false;
    for (const uint32_t index : order) {
      if (!place(index, from_top)) {
        return false;
      }
      from_top = fit == Fit::kTwoEnded && !from_top;
    }
    return true;
  }

  const std::vector<Placement>& placements() const { return placements_; }
  /// Bytes of all arenas together.
  uint64_t total() const { return std::accumulate(sizes_.begin(), sizes_.end(), uint64_t{0}); }
  /// Bytes of requests that stick out above the bound: tells plans of equal total apart, so that the search can take
  /// one request after another down from the top.
  uint64_t excess() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < placements_.size(); ++i) {
      const uint64_t top = placements_[i].offset + requests_[i].nbytes;
      sum += top > bound_ ? top - bound_ : 0;
    }
    return sum;
  }
  uint64_t work() const { return work_; }

 private:
  struct Block {
    uint64_t offset;
    uint32_t index;
  };

  bool place(uint32_t index, bool from_top) {
    const Request& request = requests_[index];
    const size_t begin = request.memory_id == 0 ? 0 : request.memory_id - 1;
    const size_t end = request.memory_id == 0 ? arenas_.size() : request.memory_id;
    for (size_t arena = begin; arena < end; ++arena) {
      find_forbidden(placed_[arena], index);
      const uint64_t offset = from_top ? highest_fit(request) : best_fit(request);
      const uint64_t top = offset + request.nbytes;
      if (arenas_[arena].capacity != 0 && top > arenas_[arena].capacity) {
        continue;
      }
      placements_[index] = {static_cast<uint32_t>(arena + 1), offset};
      sizes_[arena] = std::max(sizes_[arena], top);
      if (request.nbytes != 0) {
        insert(placed_[arena], {offset, index});
      }
      return true;
    }
    return false;
  }

  /// Blocks are kept by rising offset.
  static void insert(std::vector<Block>& blocks, const Block& block) {
    const auto position = std::upper_bound(blocks.begin(), blocks.end(), block,
                                           [](const Block& a, const Block& b) { return a.offset < b.offset; });
    blocks.insert(position, block);
  }

  /// What blocks alive with the request forbid it, by rising offset.
  void find_forbidden(const std::vector<Block>& blocks, uint32_t index) {
    const Request& request = requests_[index];
    work_ += blocks.size();
    forbidden_.clear();
    for (const Block& block : blocks) {
      const Request& other = requests_[block.index];
      if (other.last < request.first || request.last < other.first) {
        continue;
      }
      forbidden_.push_back(forbidden_offsets(requests_, index, block.index, block.offset));
      for (size_t i = forbidden_.size() - 1; i > 0 && forbidden_[i].low < forbidden_[i - 1].low; --i) {
        std::swap(forbidden_[i], forbidden_[i - 1]);  // of those that may overlap
      }
    }
  }

  /// Offset of the smallest gap that holds the request; the end of all that is alive with it when there is none.
  uint64_t best_fit(const Request& request) {
    int64_t best_offset = 0;
    int64_t best_gap = INT64_MAX;
    int64_t free = 0;  // the lowest offset that nothing up to here forbids
    for (const ForbiddenOffsets& forbidden : forbidden_) {
      const int64_t gap = forbidden.low - free;
      if (gap >= 0 && gap < best_gap && !is_empty_gap(gap, request)) {
        best_gap = gap;
        best_offset = free;
      }
      free = std::max(free, forbidden.high);
    }
    return static_cast<uint64_t>(best_gap == INT64_MAX ? free : best_offset);
  }

  /// The highest free place that ends at or under the bound; where there is none, that of best_fit.
  uint64_t highest_fit(const Request& request) {
    int64_t best = -1;
    int64_t free = 0;
    for (const ForbiddenOffsets& forbidden : forbidden_) {
      if (forbidden.low >= free && !is_empty_gap(forbidden.low - free, request)) {
        best = forbidden.low;
      }
      free = std::max(free, forbidden.high);
    }
    if (static_cast<uint64_t>(free) <= bound_ && bound_ - static_cast<uint64_t>(free) >= request.nbytes) {
      return bound_ - request.nbytes;
    }
    return best >= 0 ? static_cast<uint64_t>(best) : best_fit(request);
  }

  static bool is_empty_gap(int64_t gap, const Request& request) { return gap == 0 && request.nbytes == 0; }

  Span<const Request> requests_;
  Span<const Arena> arenas_;
  uint64_t bound_;
  std::vector<std::vector<Block>> placed_;
  std::vector<uint64_t> sizes_;
  std::vector<Placement> placements_;
  std::vector<ForbiddenOffsets> forbidden_;  // of the request that is being placed
  uint64_t work_ = 0;
};

/// Sum of bytes alive at each time, from the first to the last.
std::vector<uint64_t> live_bytes(Span<const Request> requests) {
  uint32_t end = 0;
  for (const Request& request : requests) {
    end = std::max(end, request.last + 1);
  }
  std::vector<uint64_t> live(end + 1, 0);
  for (const Request& request : requests) {
    live[request.first] += request.nbytes;
    live[request.last + 1] -= request.nbytes;
    if (request.over.input != Overlap::kNone) {  // at that one time both take less
      const uint64_t apart = requests[request.over.input].nbytes + request.nbytes;
      const uint64_t saved = apart - std::min(apart, request.over.nbytes(apart - request.nbytes, request.nbytes));
      live[request.first] -= saved;
      live[request.first + 1] += saved;
    }
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

uint64_t length(const Request& request) { return request.last - request.first + 1; }

/// Comparisons by which requests are ordered; ties keep their order of appearance.
bool by_size(const Request& a, const Request& b) {
  return a.nbytes != b.nbytes ? a.nbytes > b.nbytes : length(a) > length(b);
}
bool by_area(const Request& a, const Request& b) { return a.nbytes * length(a) > b.nbytes * length(b); }
bool by_length(const Request& a, const Request& b) {
  return length(a) != length(b) ? length(a) > length(b) : a.nbytes > b.nbytes;
}
bool by_first(const Request& a, const Request& b) {
  return a.first != b.first ? a.first < b.first : a.nbytes > b.nbytes;
}
bool by_last(const Request& a, const Request& b) { return a.last != b.last ? a.last > b.last : a.nbytes > b.nbytes; }
/// Most accesses a byte first: what profits most from the first arena.
bool by_heat(const Request& a, const Request& b) {
  const uint64_t left = a.accesses * std::max<uint64_t>(b.nbytes, 1);
  const uint64_t right = b.accesses * std::max<uint64_t>(a.nbytes, 1);
  return left != right ? left > right : by_size(a, b);
}

Order sorted(Span<const Request> requests, bool (*less)(const Request&, const Request&)) {
  Order order(requests.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return less(requests[a], requests[b]); });
  return order;
}

/// Greedy by breadth: first the requests alive when most bytes are, then those at the next largest time, and so on.
Order by_breadth(Span<const Request> requests) {
  const std::vector<uint64_t> live = live_bytes(requests);
  std::vector<uint64_t> peak(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    peak[i] = *std::max_element(live.begin() + requests[i].first, live.begin() + requests[i].last + 1);
  }
  Order order(requests.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return peak[a] != peak[b] ? peak[a] > peak[b] : by_size(requests[a], requests[b]);
  });
  return order;
}

/// The best plan so far.
class Search {
 public:
  using Cost = std::pair<uint64_t, uint64_t>;  ///< total, excess

  Search(Span<const Request> requests, Span<const Arena> arenas, uint64_t bound)
      : requests_(requests), placer_(requests, arenas, bound), bound_(bound) {}

  bool done() const {
    return found_ && (static_cast<double>(best_.first) <= kGoodEnough * static_cast<double>(bound_) ||
                      placer_.work() > kSearchBudget);
  }
  bool found() const { return found_; }
  const std::vector<Placement>& placements() const { return placements_; }

  void attempt(Order order, Fit fit = Fit::kBest) {
    if (done() || !placer_.run(order, fit)) {
      return;
    }
    const Cost cost{placer_.total(), placer_.excess()};
    if (!found_ || cost < best_) {
      found_ = true;
      best_ = cost;
      placements_ = placer_.placements();
      order_ = std::move(order);
      fit_ = fit;
    }
  }

  /// Moves what stands at the top of the best plan to the front of the order, until that no longer helps.
  void improve() {
    for (bool better = true; better && found_ && !done();) {
      better = false;
      const Cost before = best_;
      std::vector<uint32_t> highest(requests_.size());
      std::iota(highest.begin(), highest.end(), 0u);
      const auto top = [&](uint32_t i) { return placements_[i].offset + requests_[i].nbytes; };
      std::stable_sort(highest.begin(), highest.end(), [&](uint32_t a, uint32_t b) { return top(a) > top(b); });
      highest.resize(std::min<size_t>(highest.size(), 16));
      const Order base = order_;
      const Fit fit = fit_;
      for (const uint32_t index : highest) {
        const size_t from = static_cast<size_t>(std::find(base.begin(), base.end(), index) - base.begin());
        for (const size_t to : {size_t{0}, from / 4, from / 2, 3 * from / 4}) {
          Order order = base;
          std::rotate(order.begin() + static_cast<ptrdiff_t>(to), order.begin() + static_cast<ptrdiff_t>(from),
                      order.begin() + static_cast<ptrdiff_t>(from) + 1);
          attempt(std::move(order), fit);
        }
      }
      better = best_ < before;
    }
  }

 private:
  Span<const Request> requests_;
  Placer placer_;
  uint64_t bound_;
  bool found_ = false;
  Cost best_;
  Order order_;
  Fit fit_ = Fit::kBest;
  std::vector<Placement> placements_;
};

}  // namespace

Error GreedyPlanner::plan(Span<const Request> requests, Span<const Arena> arenas, std::vector<Placement>& placements) {
  placements.clear();
  if (requests.empty()) {
    return Error::Ok;
  }
  for (const Request& request : requests) {
    ET_CHECK_OR_RETURN(request.memory_id <= arenas.size(), InvalidArgument,
                       "memory id %" PRIu32 ", there are %zu arenas", request.memory_id, arenas.size());
  }
  const std::vector<uint64_t> live = live_bytes(requests);
  Search search(requests, arenas, *std::max_element(live.begin(), live.end()));
  if (arenas.size() > 1) {
    search.attempt(sorted(requests, by_heat));  // which requests the fast arena holds matters more than the total
  }
  if (!search.found()) {
    search.attempt(sorted(requests, by_size));
    search.attempt(by_breadth(requests));
    for (const auto less : {by_area, by_length, by_first, by_last}) {
      search.attempt(sorted(requests, less));
    }
    search.attempt(sorted(requests, by_first), Fit::kTwoEnded);
    search.attempt(sorted(requests, by_size), Fit::kTwoEnded);
    search.improve();
  }
  if (!search.found()) {
    uint64_t nbytes = 0;
    for (const Request& request : requests) {
      nbytes = std::max(nbytes, request.nbytes);
    }
    ET_CHECK_OR_RETURN(false, OutOfResources,
                       "%zu tensors (the largest has %" PRIu64
                       " bytes) do not fit the arenas: give the last one more "
                       "bytes, or no limit",
                       requests.size(), nbytes);
  }
  placements = search.placements();
  return Error::Ok;
}

}  // namespace et::planning
