#include "tools/cli/host_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "runtime/base/suggest.h"
#include "tools/cli/flag_values.h"

namespace troupe {
namespace {

class HostList {
 public:
  HostList(std::string_view name, const std::string& text) : name_(name), text_(text) {}

  std::vector<std::string> hosts() const {
    std::vector<std::string> hosts;
    std::string_view rest = text_;
    for (bool more = true; more;) {
      const size_t end = end_of_host(rest);
      const std::vector<std::string> these = hosts_of(rest.substr(0, end));
      hosts.insert(hosts.end(), these.begin(), these.end());
      if (hosts.size() > kMostHosts) refuse();
      more = end < rest.size();
      if (more) rest.remove_prefix(end + 1);
    }
    return hosts;
  }

 private:
  [[noreturn]] void refuse() const {
    refuse_flag(name_, '"' + printable(text_) + "\" is not a list of hosts, expected one like n[1-2,7]");
  }

  // Where the first comma outside of brackets is.
  static size_t end_of_host(std::string_view text) {
    bool inside = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '[' || text[i] == ']') inside = text[i] == '[';
      if (text[i] == ',' && !inside) return i;
    }
    return text.size();
  }

  // Of "r[1-2]n[1-3]".
  std::vector<std::string> hosts_of(std::string_view item) const {
    if (item.empty()) refuse();
    std::vector<std::string> hosts{""};
    while (!item.empty()) {
      const size_t open = std::min(item.find('['), item.size());
      hosts = joined(hosts, {plain(item.substr(0, open))});
      item.remove_prefix(open);
      if (item.empty()) break;
      const size_t close = item.find(']');
      if (close == std::string_view::npos) refuse();
      hosts = joined(hosts, numbers(item.substr(1, close - 1)));
      item.remove_prefix(close + 1);
    }
    return hosts;
  }

  std::string plain(std::string_view text) const {
    const auto fits = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
             c == '_';
    };
    if (!std::ranges::all_of(text, fits)) refuse();
    return std::string(text);
  }

  // Each beginning with each end.
  std::vector<std::string> joined(const std::vector<std::string>& begins, const std::vector<std::string>& ends) const {
    if (begins.size() * ends.size() > kMostHosts) refuse();
    std::vector<std::string> all;
    for (const std::string& begin : begins)
      for (const std::string& end : ends) all.push_back(begin + end);
    return all;
  }

  // Of "1-2,7".
  std::vector<std::string> numbers(std::string_view ranges) const {
    std::vector<std::string> all;
    for (bool more = true; more;) {
      const size_t comma = ranges.find(',');
      more = comma != std::string_view::npos;
      add_range(all, ranges.substr(0, comma));
      if (more) ranges.remove_prefix(comma + 1);
    }
    return all;
  }

  void add_range(std::vector<std::string>& all, std::string_view range) const {
    const size_t dash = std::min(range.find('-'), range.size());
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash == range.size() ? low : range.substr(dash + 1);
    const uint64_t first = number(low), last = number(high);
    if (last < first || last - first >= kMostHosts - all.size()) refuse();
    for (uint64_t i = first; i <= last; ++i) {
      const std::string digits = std::to_string(i);
      all.push_back(std::string(std::max(low.size(), digits.size()) - digits.size(), '0') + digits);
    }
  }

  uint64_t number(std::string_view digits) const {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || digits.size() > 18 || error != std::errc() || end != digits.data() + digits.size()) refuse();
    return value;
  }

  std::string_view name_;
  const std::string& text_;
};

}  // namespace

std::vector<std::string> expand_host_list(std::string_view name, const std::string& text) {
  return HostList(name, text).hosts();
}

}  // namespace troupe
