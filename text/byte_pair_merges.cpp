#include "text/byte_pair_merges.h"

#include <queue>
#include <tuple>

namespace troupe {

namespace {

constexpr uint32_t kNone = UINT32_MAX;

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// A symbol of the word, linked to its neighbours.
struct Symbol {
  int32_t id;  // -1: merged into the symbol before it
  uint32_t before, after;
};

// A merge that was possible when it was found; it still is if the two symbols are the same.
struct Candidate {
  uint32_t rank, at;  // `at` is the left symbol
  int32_t left, right, merged;
  // The heap has the largest on top.
  bool operator<(const Candidate& other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
};

std::vector<Symbol> symbols_of(const std::vector<int32_t>& ids) {
  std::vector<Symbol> symbols(ids.size());
  for (uint32_t i = 0; i < ids.size(); ++i)
    symbols[i] = {ids[i], i == 0 ? kNone : i - 1, i + 1 == ids.size() ? kNone : i + 1};
  return symbols;
}

}  // namespace

void BytePairMerges::add(int32_t left, int32_t right, int32_t merged) {
  merges_[key_of(left, right)] = {next_rank_++, merged};
}

const BytePairMerges::Merge* BytePairMerges::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairMerges::apply(std::vector<int32_t>& ids) const {
  if (ids.size() < 2) return;
  std::vector<Symbol> symbols = symbols_of(ids);
  std::priority_queue<Candidate> heap;
  const auto consider = [&](uint32_t at) {
    if (at == kNone || symbols[at].after == kNone) return;
    const int32_t left = symbols[at].id, right = symbols[symbols[at].after].id;
    if (const Merge* merge = find(left, right)) heap.push({merge->rank, at, left, right, merge->merged});
  };
  for (uint32_t at = 0; at + 1 < symbols.size(); ++at) consider(at);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    Symbol& left = symbols[best.at];
    if (left.id != best.left || left.after == kNone || symbols[left.after].id != best.right) continue;
    Symbol& right = symbols[left.after];
    left.id = best.merged;
    left.after = right.after;
    right.id = -1;
    if (left.after != kNone) symbols[left.after].before = best.at;
    consider(left.before);
    consider(best.at);
  }
  ids.clear();
  for (uint32_t at = 0; at != kNone; at = symbols[at].after) ids.push_back(symbols[at].id);
}

}  // namespace troupe
