#include "algorithms/balance/karmarkar_karp.h"

#include <algorithm>
#include <utility>

#include "algorithms/balance/partition.h"

namespace troupe {

namespace {

// A set of items that will form one part. The items are a linked list in Differencing, so
// joining two sets moves no items.
struct Set {
  int64_t sum = 0;
  int64_t count = 0;
  int64_t first = -1;
  int64_t last = -1;
};

// Ordered by sum, then number of items, then the lists of (index, value). No two sets share an item, so two lists
// always differ in their first index.
bool less(const Set& a, const Set& b) {
  if (a.sum != b.sum) return a.sum < b.sum;
  if (a.count != b.count) return a.count < b.count;
  return a.first < b.first;
}
bool greater(const Set& a, const Set& b) { return less(b, a); }

// A partial solution: k sets in descending order. Empty sets sort last and are not stored.
using Sets = std::vector<Set>;

// The order in which partial solutions are processed: largest spread first, then largest first set.
struct Rank {
  int64_t spread;
  Set top;

  friend bool operator<(const Rank& a, const Rank& b) {
    return a.spread != b.spread ? a.spread < b.spread : less(a.top, b.top);
  }
};

struct Entry {
  Rank rank;
  Sets sets;

  friend bool operator<(const Entry& a, const Entry& b) { return a.rank < b.rank; }
};

class Differencing {
 public:
  Differencing(std::span<const int64_t> values, int64_t k, bool equal_size);
  Partition solve();

 private:
  Rank rank_of(const Sets& sets) const;
  void pop(Sets& out);
  void join(Set& into, const Set& from);
  void merge_runs(Sets& sets, std::size_t middle);
  void merge(Sets& into, const Sets& from);

  std::size_t k_;
  std::vector<int64_t> next_;  // the next item in the same set, or -1
  Sets singles_;               // partial solutions of one item, ascending, so that the last is processed first
  std::vector<Entry> heap_;    // all other partial solutions
  Sets scratch_;
};

Differencing::Differencing(std::span<const int64_t> values, int64_t k, bool equal_size)
    : k_(static_cast<std::size_t>(k)), next_(values.size(), -1) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    singles_.push_back({values[i], 1, index, index});
  }
  std::sort(singles_.begin(), singles_.end(), less);
  if (!equal_size) return;
  for (std::size_t i = 0; i < singles_.size(); i += k_) {
    Sets sets(singles_.begin() + static_cast<std::ptrdiff_t>(i),
              singles_.begin() + static_cast<std::ptrdiff_t>(i + k_));
    std::reverse(sets.begin(), sets.end());
    heap_.push_back({rank_of(sets), std::move(sets)});
  }
  singles_.clear();
  std::make_heap(heap_.begin(), heap_.end());
}

Rank Differencing::rank_of(const Sets& sets) const {
  return {sets.front().sum - (sets.size() < k_ ? 0 : sets.back().sum), sets.front()};
}

// Removes the partial solution that comes first. Among those with one item it is the one with the largest item.
void Differencing::pop(Sets& out) {
  out.clear();
  if (!singles_.empty()) {
    out.push_back(singles_.back());
    if (heap_.empty() || heap_.front().rank < rank_of(out)) return singles_.pop_back();
  }
  std::pop_heap(heap_.begin(), heap_.end());
  out = std::move(heap_.back().sets);
  heap_.pop_back();
}

void Differencing::join(Set& into, const Set& from) {
  next_[static_cast<std::size_t>(into.last)] = from.first;
  into.sum += from.sum;
  into.count += from.count;
  into.last = from.last;
}

// Merges the descending runs [0, middle) and [middle, end) of `sets` from the back, which
// moves as few sets as possible.
void Differencing::merge_runs(Sets& sets, std::size_t middle) {
  scratch_.assign(sets.begin() + static_cast<std::ptrdiff_t>(middle), sets.end());
  std::size_t left = middle, right = scratch_.size();
  while (right > 0) {
    const bool from_left = left > 0 && less(sets[left - 1], scratch_[right - 1]);
    sets[left + right - 1] = from_left ? sets[left - 1] : scratch_[right - 1];
    --(from_left ? left : right);
  }
}

// Joins the i-th largest set of `into` with the i-th smallest of `from`. Empty sets are not stored, so with few sets on
// both sides no sets are joined. Only joined sets can be out of order.
void Differencing::merge(Sets& into, const Sets& from) {
  const std::size_t total = into.size() + from.size(), joined = total > k_ ? total - k_ : 0;
  const std::size_t kept = into.size() - joined;
  for (std::size_t i = kept; i < into.size(); ++i) join(into[i], from[k_ - 1 - i]);
  std::sort(into.begin() + static_cast<std::ptrdiff_t>(kept), into.end(), greater);
  merge_runs(into, kept);
  const std::size_t sorted = into.size();
  into.insert(into.end(), from.begin(), from.end() - static_cast<std::ptrdiff_t>(joined));
  merge_runs(into, sorted);
}

Partition Differencing::solve() {
  Partition parts(k_);
  if (singles_.empty() && heap_.empty()) return parts;
  Sets sets, other;
  pop(sets);
  while (!singles_.empty() || !heap_.empty()) {
    pop(other);
    merge(sets, other);
    heap_.push_back({rank_of(sets), std::move(sets)});
    std::push_heap(heap_.begin(), heap_.end());
    pop(sets);
  }
  for (std::size_t part = 0; part < sets.size(); ++part)
    for (int64_t item = sets[part].first; item >= 0; item = next_[static_cast<std::size_t>(item)])
      parts[part].push_back(item);
  return parts;
}

}  // namespace

Partition karmarkar_karp(std::span<const int64_t> values, int64_t k, bool equal_size) {
  check_partition(values, k, equal_size);
  return Differencing(values, k, equal_size).solve();
}

}  // namespace troupe
