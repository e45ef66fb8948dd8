#pragma once
// The names of the figures of a run, as docs/metrics.md lists them. Plain functions; any thread.

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Paths in the records, like "lag.p95" and "learner.kl".
std::vector<std::string> figure_names();

// A reader of flag values: the name of a figure, or of an entry of one that has entries, like
// "env_failures.CartPole-v1". Throws ConfigError, which begins with `flag` and may suggest one of the figures or of
// `others`.
std::string parse_figure(std::string_view flag, const std::string& text, const std::vector<std::string>& others = {});

}  // namespace troupe
