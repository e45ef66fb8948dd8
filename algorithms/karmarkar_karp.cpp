#include "algorithms/karmarkar_karp.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <string>
#include <utility>

#include "algorithms/partition.h"
#include "runtime/errors.h"

namespace troupe {

namespace {

// A set of items that ends up in one part. The items themselves are a linked list in Differencing, so that joining two sets
// moves nothing.
struct Set {
  int64_t sum = 0;
  int64_t count = 0;
  int64_t first = -1;
  int64_t last = -1;
};

// By sum, then number of items, then the lists of (index, value). No two sets share an item, so two lists differ in their first
// index already.
bool less(const Set& a, const Set& b) {
  if (a.sum != b.sum) return a.sum < b.sum;
  if (a.count != b.count) return a.count < b.count;
  return a.first < b.first;
}
bool greater(const Set& a, const Set& b) { return less(b, a); }

// A partial solution: k sets in descending order. Empty sets sort last and are left out.
using Sets = std::vector<Set>;

// A state in the queue: the largest spread first, then the largest first set.
struct Entry {
  int64_t spread;
  Set top;
  std::size_t state;

  friend bool operator<(const Entry& a, const Entry& b) {
    return a.spread != b.spread ? a.spread < b.spread : less(a.top, b.top);
  }
};

class Differencing {
 public:
  Differencing(std::span<const int64_t> values, int64_t k, bool equal_size);
  Partition solve();

 private:
  void push(std::size_t state);
  void join(Set& into, const Set& from);
  void merge(Sets& into, Sets& from);

  std::size_t k_;
  std::vector<int64_t> next_;  // the item after each in its set, or -1
  std::vector<Sets> states_;
  std::priority_queue<Entry> queue_;
  Sets merged_;
};

Differencing::Differencing(std::span<const int64_t> values, int64_t k, bool equal_size)
    : k_(static_cast<std::size_t>(k)), next_(values.size(), -1) {
  std::vector<std::pair<int64_t, int64_t>> items;
  for (std::size_t i = 0; i < values.size(); ++i) items.emplace_back(values[i], static_cast<int64_t>(i));
  std::sort(items.begin(), items.end());
  const std::size_t run = equal_size ? k_ : 1;
  states_.resize(items.size() / run);
  for (std::size_t state = 0; state < states_.size(); ++state) {
    for (std::size_t i = state * run; i < (state + 1) * run; ++i)
      states_[state].push_back({items[i].first, 1, items[i].second, items[i].second});
    std::sort(states_[state].begin(), states_[state].end(), greater);
    push(state);
  }
}

void Differencing::push(std::size_t state) {
  const Sets& sets = states_[state];
  queue_.push({sets.front().sum - (sets.size() < k_ ? 0 : sets.back().sum), sets.front(), state});
}

void Differencing::join(Set& into, const Set& from) {
  next_[static_cast<std::size_t>(into.last)] = from.first;
  into.sum += from.sum;
  into.count += from.count;
  into.last = from.last;
}

// The i-th largest set of `into` takes the items of the i-th smallest of `from`; the empty ones of each side are those that are
// left out, so with few sets on both sides nothing is joined and the two lists are merged.
void Differencing::merge(Sets& into, Sets& from) {
  const std::size_t total = into.size() + from.size();
  if (total > k_) {
    for (std::size_t i = k_ - from.size(); i < into.size(); ++i) join(into[i], from[k_ - 1 - i]);
    into.insert(into.end(), from.begin(), from.end() - static_cast<std::ptrdiff_t>(total - k_));
    std::sort(into.begin(), into.end(), greater);
  } else if (greater(into.back(), from.front())) {
    into.insert(into.end(), from.begin(), from.end());
  } else {
    merged_.clear();
    std::merge(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(merged_), greater);
    into.assign(merged_.begin(), merged_.end());
  }
  Sets().swap(from);
}

Partition Differencing::solve() {
  while (queue_.size() > 1) {
    const std::size_t into = queue_.top().state;
    queue_.pop();
    const std::size_t from = queue_.top().state;
    queue_.pop();
    merge(states_[into], states_[from]);
    push(into);
  }
  Partition parts(k_);
  if (queue_.empty()) return parts;
  const Sets& sets = states_[queue_.top().state];
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
