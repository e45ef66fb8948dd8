#pragma once
// DashData: what `troupe dash` answers to the page, from the folders of runs (docs/protocol.md). It does no more than
// what a request asks for, and reads at most kReadAtOnce of curves for one. One thread at a time: that of the port.

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

  explicit DashData(Words folders) : list_(std::move(folders)) {}

  // The answer to a path that begins with "/data/".
  HttpData answer(std::string_view target);
  const RunList& list() const { return list_; }

 private:
  using Json = nlohmann::ordered_json;

  Json runs();
  Json curves(const QueryValues& query);
  Json group(const QueryValues& query);
  Json run(const QueryValues& query);
  const ServedRun& named_run(const QueryValues& query) const;
  // Reads more of the run's curves; the problem, if there is one.
  std::string read_more(CurveFile& file, uint64_t& budget);
  CurveFile& file_of(const std::string& folder, const Words& figures);

  RunList list_;
  std::map<std::string, CurveFile> files_;
};

}  // namespace troupe
