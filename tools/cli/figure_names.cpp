#include "tools/cli/figure_names.h"

#include <algorithm>

#include "models/learning/run_figures.h"
#include "runtime/base/suggest.h"
#include "tools/cli/flag_values.h"

namespace troupe {

namespace {

bool has_entries(const Figure& figure) {
  return figure.type == FigureType::map || figure.type == FigureType::histogram;
}

}  // namespace

std::vector<std::string> figure_names() {
  std::vector<std::string> names;
  for (const Figure& figure : run_figures()) names.push_back(figure.path);
  return names;
}

std::string parse_figure(std::string_view flag, const std::string& text, const std::vector<std::string>& others) {
  const bool known = std::ranges::any_of(run_figures(), [&](const Figure& figure) {
    return text == figure.path || (has_entries(figure) && text.starts_with(figure.path + '.'));
  });
  if (known) return text;
  std::vector<std::string> names = figure_names();
  names.insert(names.begin(), others.begin(), others.end());
  const std::string near = did_you_mean(text, names);
  refuse_flag(flag,
              printable(text) + " is no figure of a run, " + (near.empty() ? "`troupe metrics` lists them" : near));
}

}  // namespace troupe
