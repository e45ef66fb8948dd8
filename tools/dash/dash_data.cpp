#include "tools/dash/dash_data.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/run_folder/log_tail.h"
#include "runtime/run_folder/run_records.h"
#include "runtime/stats/protocol.h"
#include "tools/cli/exported_metrics.h"
#include "tools/cli/run_curves.h"
#include "tools/cli/run_groups.h"
#include "tools/cli/run_json.h"

namespace troupe {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFigures = 100;
constexpr size_t kMostGroupedRuns = 200;
const Words kAxes = {"env_steps", "updates", "elapsed_seconds"};

// What is asked for does not exist.
class NotFound : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    if (escape) {
      result += static_cast<char>(16 * hex_digit(text[i + 1]) + hex_digit(text[i + 2]));
      i += 2;
    } else {
      result += text[i] == '+' ? ' ' : text[i];
    }
  }
  return result;
}

Words all_of(const QueryValues& query, std::string_view name) {
  Words result;
  for (const auto& [key, value] : query)
    if (key == name) result.push_back(value);
  return result;
}

std::string value_of(const QueryValues& query, std::string_view name) {
  const Words values = all_of(query, name);
  return values.empty() ? "" : values.front();
}

Words figures_of(const QueryValues& query) {
  Words figures = all_of(query, "y");
  if (figures.empty() || figures.size() > kMostFigures)
    throw RequestError("y: " + std::to_string(figures.size()) + " figures, expected 1 to " +
                       std::to_string(kMostFigures));
  return figures;
}

std::string axis_of(const QueryValues& query) {
  const std::string axis = value_of(query, "x");
  if (std::ranges::count(kAxes, axis) == 0)
    throw RequestError("x: \"" + printable(axis) + "\" is no axis, expected env_steps, updates or elapsed_seconds");
  return axis;
}

// NaN becomes null.
Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(std::isfinite(value) ? Json(value) : Json());
  return list;
}

// The last record, with the newest evaluation, which most records are without; null without a record.
Json last_record(const std::string& folder) {
  if (!posix_disk().exists(metrics_file(folder))) return {};
  const LastLines lines = read_last_lines(posix_disk(), folder, /*with_evaluation=*/true);
  Json record = Json::parse(lines.last, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return {};
  const Json evaluated = Json::parse(lines.evaluated, nullptr, /*allow_exceptions=*/false);
  if (evaluated.is_object()) record["eval"] = evaluated.value("eval", Json());
  return record;
}

// "eval.return_mean: 5 of 9 runs have no record with it and env_steps: runs/a, runs/b, runs/c, ...".
std::string without_text(const Words& without, size_t of, const std::string& figure, const std::string& axis) {
  constexpr size_t kNamed = 3;
  std::string text = figure + ": " + std::to_string(without.size()) + " of " + std::to_string(of) +
                     (of == 1 ? " run has" : " runs have") + " no record with it and " + axis + ": ";
  for (size_t i = 0; i < std::min(without.size(), kNamed); ++i) text += (i == 0 ? "" : ", ") + without[i];
  return without.size() > kNamed ? text + ", ..." : text;
}

// Another text when a record has brought one of the figures that none had before: its curve is new.
std::string known_figures(const CurveFile& file, const Words& figures) {
  std::string known;
  for (const std::string& figure : figures)
    if (file.has(figure)) known += figure + '\n';
  return std::to_string(std::hash<std::string>()(known));
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

HttpData data_of(const Json& json) { return {.body = dumped(json)}; }

}  // namespace

QueryValues query_values(std::string_view query) {
  QueryValues values;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, end);
    const size_t equals = item.find('=');
    if (equals != item.npos && equals > 0)
      values.emplace_back(decoded(item.substr(0, equals)), decoded(item.substr(equals + 1)));
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return values;
}

DashData::DashData(Words folders, size_t most_kept)
    : list_(std::move(folders)), most_kept_(most_kept), start_(std::to_string(std::random_device()())) {}

HttpData DashData::answer(std::string_view target) {
  const size_t question = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, question);
  try {
    const QueryValues query = query_values(target.substr(std::min(question + 1, target.size())));
    ++requests_;
    drop_old();
    list_.refresh(RunList::Clock::now());
    if (path == "/data/runs") return {.body = runs()};
    if (path == "/data/curves") return data_of(curves(query));
    if (path == "/data/group") return data_of(group(query));
    if (path == "/data/run") return data_of(run(query));
    if (path == "/data/metrics") return {.body = metrics_message(exported_metrics())};
    throw NotFound("there are /data/runs, /data/curves, /data/group, /data/run and /data/metrics");
  } catch (const NotFound& error) {
    return {"404 Not Found", error.what()};
  } catch (const RequestError& error) {
    return {"400 Bad Request", error.what()};
  } catch (const ConfigError& error) {
    return {"400 Bad Request", error.what()};
  } catch (const IoError& error) {
    return {"404 Not Found", error.what()};
  }
}

std::string DashData::runs() {
  if (std::exchange(listed_changes_, list_.changes()) != list_.changes()) listed_ = dumped(listed_runs());
  return R"({"type":"runs","runs":)" + listed_ + R"(,"problems":)" + dumped(Json(list_.problems())) + '}';
}

DashData::Json DashData::listed_runs() const {
  Json list = Json::array();
  for (const ServedRun& each : list_.runs()) {
    Json run = run_json(each.run, each.differs, each.bottleneck, each.alarms);
    run["deleted"] = each.deleted;
    list.push_back(std::move(run));
  }
  return list;
}

const ServedRun& DashData::named_run(const QueryValues& query) const {
  const std::string folder = value_of(query, "run");
  const ServedRun* run = list_.find(folder);
  if (run == nullptr) throw NotFound("run: \"" + printable(folder, 200) + "\" is none of the runs that are served");
  return *run;
}

CurveFile& DashData::read_more(const std::string& folder, const Words& figures, uint64_t& budget,
                               std::string& problem) {
  ReadCurves& curves = files_.try_emplace(folder, CurveFile(folder)).first->second;
  curves.asked = requests_;
  CurveFile& file = curves.file;
  Words wanted = kAxes;
  wanted.insert(wanted.end(), figures.begin(), figures.end());
  const auto missing = [&] { return std::ranges::count_if(wanted, [&](const auto& each) { return !file.has(each); }); };
  try {
    file.want(wanted);
    const auto before = missing();
    budget -= std::min(budget, file.read(posix_disk(), budget));
    file.want(wanted);  // some of them may have come with the new records: their columns need the older ones too
    if (missing() < before) budget -= std::min(budget, file.read(posix_disk(), budget));
    problem.clear();
  } catch (const IoError& error) {
    problem = error.what();
  }
  return file;
}

void DashData::drop_old() {
  size_t kept = 0;
  for (const auto& [folder, curves] : files_) kept += curves.file.bytes_kept();
  while (kept > most_kept_) {
    const auto oldest = std::ranges::min_element(files_, {}, [](const auto& each) { return each.second.asked; });
    kept -= oldest->second.file.bytes_kept();
    files_.erase(oldest);
  }
}

DashData::Json DashData::curves(const QueryValues& query) {
  const ServedRun& run = named_run(query);
  const Words figures = figures_of(query);
  uint64_t budget = kReadAtOnce;
  std::string problem;
  const CurveFile& file = read_more(run.run.folder, figures, budget, problem);
  const std::string version = start_ + '-' + file.version() + '-' + known_figures(file, figures);
  Json reply{
      {"type", "curves"},          {"run", run.run.folder},     {"version", version},
      {"records", file.records()}, {"skipped", file.skipped()}, {"read_bytes", file.bytes_read()},
      {"bytes", file.bytes()},     {"points", file.points()},   {"problem", problem.empty() ? Json() : Json(problem)}};
  if (value_of(query, "version") == version) return reply;
  Json x = Json::object(), y = Json::object();
  for (const std::string& axis : kAxes) x[axis] = numbers(file.column(axis, CurveFile::Value::mean));
  const bool joined = file.records() > file.points();
  for (const std::string& figure : figures) {
    const std::vector<double> mean = file.column(figure, CurveFile::Value::mean);
    if (!std::ranges::any_of(mean, [](double value) { return std::isfinite(value); })) continue;
    y[figure] = {{"mean", numbers(mean)}};
    if (!joined) continue;
    y[figure]["low"] = numbers(file.column(figure, CurveFile::Value::low));
    y[figure]["high"] = numbers(file.column(figure, CurveFile::Value::high));
  }
  reply["x"] = std::move(x);
  reply["y"] = std::move(y);
  return reply;
}

DashData::Json DashData::group(const QueryValues& query) {
  const std::string axis = axis_of(query), figure = figures_of(query).front();
  const Words wanted = all_of(query, "run");
  if (wanted.size() > kMostGroupedRuns)
    throw RequestError("run: " + std::to_string(wanted.size()) + " runs, at most " + std::to_string(kMostGroupedRuns));
  std::vector<RunOverview> runs;
  std::vector<RunCurve> curves;
  Json notes = Json::array();
  Words without;  // the runs that have no point
  uint64_t budget = kReadAtOnce, read = 0, bytes = 0;
  for (const std::string& folder : wanted) {
    const ServedRun& run = named_run({{"run", folder}});
    std::string problem;
    const CurveFile& file = read_more(folder, {figure}, budget, problem);
    read += file.bytes_read();
    bytes += file.bytes();
    RunCurve curve = curve_of(file.column(axis, CurveFile::Value::mean), file.column(figure, CurveFile::Value::mean));
    if (!problem.empty()) notes.push_back(problem);
    if (curve.x.empty()) {
      without.push_back(folder);
      continue;
    }
    runs.push_back(run.run);
    curves.push_back(std::move(curve));
  }
  if (!without.empty()) notes.push_back(without_text(without, wanted.size(), figure, axis));
  Json groups = Json::array();
  const std::string setting = value_of(query, "group");
  const Words settings = setting.empty() ? Words() : Words{setting};
  for (const RunGroup& each : runs.empty() ? std::vector<RunGroup>() : group_runs(runs, settings)) {
    std::vector<RunCurve> members;
    for (const size_t i : each.runs) members.push_back(curves[i]);
    const GroupCurve curve = group_curve(members, tasks_of(runs, each.runs));
    if (curve.x.empty()) notes.push_back(each.label + ": its runs have no " + axis + " in common");
    groups.push_back({{"label", each.label},
                      {"runs", members.size()},
                      {"x", numbers(curve.x)},
                      {"mean", numbers(curve.mean)},
                      {"low", numbers(curve.low)},
                      {"high", numbers(curve.high)}});
  }
  return {{"type", "group"},
          {"groups", std::move(groups)},
          {"notes", std::move(notes)},
          {"read_bytes", read},
          {"bytes", bytes}};
}

DashData::Json DashData::run(const QueryValues& query) {
  const ServedRun& served = named_run(query);
  const RunOverview& run = served.run;
  return {{"type", "run"},
          {"run", run.folder},
          {"name", run.about.name},
          {"tags", run.about.tags},
          {"note", run.about.note},
          {"alarms", alarms_json(served.alarms)},
          {"state", text_of(run.state)},
          {"reason", run.reason},
          {"deleted", served.deleted},
          {"config", Json::parse(run.config, nullptr, /*allow_exceptions=*/false)},
          {"defaults", Json::parse(to_json(RunConfig{}), nullptr, /*allow_exceptions=*/false)},
          {"stats", last_record(run.folder)},
          {"log", log_tail(posix_disk(), run.folder)}};
}

}  // namespace troupe
