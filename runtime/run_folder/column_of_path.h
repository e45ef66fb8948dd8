#pragma once
// Which column of a table of figures has the figure at a path of a record. One thread at a time.

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe {

// Most records have their figures in the same order, so the answer is usually the next one.
class ColumnOfPath {
 public:
  static constexpr size_t kNotWanted = std::numeric_limits<size_t>::max();

  explicit ColumnOfPath(std::span<const std::string> wanted) { want(wanted); }

  // From now on the columns are those of these figures.
  void want(std::span<const std::string> wanted) {
    columns_.clear();
    for (size_t i = 0; i < wanted.size(); ++i) columns_.emplace(wanted[i], i);
    for (Seen& seen : seen_) seen.column = column_at(seen.path);
  }
  // Whether a record had this path, and whether one had any.
  bool has_seen(std::string_view path) const { return places_.contains(std::string(path)); }
  bool has_seen_any() const { return !seen_.empty(); }

  size_t operator()(std::string_view path) {
    if (next_ >= seen_.size() || seen_[next_].path != path) {
      const auto [place, is_new] = places_.try_emplace(std::string(path), seen_.size());
      next_ = place->second;
      if (is_new) seen_.push_back({place->first, column_at(place->first)});
    }
    return seen_[next_++].column;
  }
  void begin_record() { next_ = 0; }

 private:
  struct Seen {
    std::string path;
    size_t column;
  };

  size_t column_at(const std::string& path) const {
    const auto found = columns_.find(path);
    return found == columns_.end() ? kNotWanted : found->second;
  }

  std::unordered_map<std::string, size_t> columns_;
  std::vector<Seen> seen_;
  std::unordered_map<std::string, size_t> places_;  // in seen_
  size_t next_ = 0;
};

}  // namespace troupe
