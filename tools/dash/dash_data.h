#pragma once
// DashData: what `troupe dash` answers to the page, from the folders of runs (docs/protocol.md). It does no more than
// what a request asks for, and reads at most kReadAtOnce of curves for one. One thread at a time: that of the port
// for data (StatsSocketOptions::data).

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/stats/http.h"
#include "tools/dash/curve_file.h"
#include "tools/dash/run_list.h"

namespace troupe {

// The names and values of a query, "y=a&y=b%20c"; what is no name with a value is left out.
using QueryValues = std::vector<std::pair<std::string, std::string>>;
QueryValues query_values(std::string_view query);

class DashData {
 public:
  static constexpr uint64_t kReadAtOnce = 64 << 20;
  // Of curves in memory. Beyond it the files that were asked for the longest ago are dropped, and read again if
  // somebody asks for them.
  static constexpr size_t kMostKept = size_t{1} << 30;

  explicit DashData(Words folders, size_t most_kept = kMostKept);

  // The answer to a path that begins with "/data/".
  HttpData answer(std::string_view target);
  const RunList& list() const { return list_; }
  size_t files_kept() const { return files_.size(); }

 private:
  struct ReadCurves {
    CurveFile file;
    uint64_t asked = 0;  // number of the newest request for it
  };
  using Json = nlohmann::ordered_json;

  std::string runs();
  Json listed_runs() const;
  Json curves(const QueryValues& query);
  Json group(const QueryValues& query);
  Json run(const QueryValues& query);
  const ServedRun& named_run(const QueryValues& query) const;
  // The curves of a run, after reading more of them. `problem` is why they could not be read, or empty.
  CurveFile& read_more(const std::string& folder, const Words& figures, uint64_t& budget, std::string& problem);
  void drop_old();

  RunList list_;
  std::string listed_ = "[]";  // listed_runs(), as JSON
  uint64_t listed_changes_ = 0;
  size_t most_kept_;
  std::string start_;  // tells the versions of this process from those of others
  uint64_t requests_ = 0;
  std::map<std::string, ReadCurves> files_;
};

}  // namespace troupe
