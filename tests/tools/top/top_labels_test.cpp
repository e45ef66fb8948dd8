// What the figures of `troupe top` are called, and those of token runs and of the verdict.
#include <algorithm>
#include <string>
#include <vector>

#include "actors/experience/answers/answer_words.h"
#include "models/learning/run_figures.h"
#include "tests/support/test.h"
#include "tools/top/figures.h"
#include "tools/top/panels.h"

using namespace troupe;

namespace {

std::vector<std::string> texts_of(const std::vector<FrameLine>& lines) {
  std::vector<std::string> texts;
  for (const FrameLine& line : lines) {
    texts.emplace_back();
    for (const Piece& piece : line) texts.back() += piece.text;
  }
  return texts;
}

bool has(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

TopModel model_with(const ExperienceWords& words, StatsSnapshot snapshot) {
  TopModel model;
  model.link = Link::live;
  model.words = snapshot.words = &words;
  model.newest = std::move(snapshot);
  return model;
}

StatsSnapshot answers_snapshot() {
  StatsSnapshot s;
  s.return_mean = 0.5;
  s.answers = {.turns_mean = 1.5,
               .turns_max = 3,
               .length_min = 4,
               .length_p50 = 9,
               .length_p95 = 30,
               .length_max = 41,
               .groups_alike = 0.25};
  s.return_parts = {{"format", 0.125}, {"right", 0.375}};
  return s;
}

StatsSnapshot snapshot_with(Resource resource, double share, double gain, const std::string& waits) {
  StatsSnapshot s;
  s.told_bottleneck =
      Bottleneck{.what = "sampling", .resource = resource, .share = share, .gain = gain, .waits = waits};
  return s;
}

}  // namespace

TEST_CASE("top: curves have the labels of the table of figures, in both kinds of runs") {
  for (const ExperienceWords* words : {&kStepWords, &kAnswerWords}) {
    TopModel model = model_with(*words, {});
    model.history.add(1, std::vector<double>(curve_paths().size(), 1.0));
    const FrameSize size{200, 100};
    std::vector<std::string> lines = texts_of(learning_panel(model, size));
    for (const std::string& line : texts_of(flow_panel(model, size))) lines.push_back(line);
    for (const Figure& figure : run_figures()) {
      if (std::ranges::find(curve_paths(), figure.path) == curve_paths().end() || figure.path == "env_steps") continue;
      const std::string& label = words->tokens ? figure.token_label : figure.label;
      CAPTURE(figure.path);
      CHECK(std::ranges::any_of(lines, [&](const std::string& line) { return line.starts_with("  " + label + ' '); }));
    }
  }
}

TEST_CASE("top: shares of time have the labels of the table of figures") {
  StatsSnapshot s;
  s.busy.stepping = 0.5;
  REQUIRE(busy_shares(s).size() == 1);
  CHECK(busy_shares(s)[0].name == "stepping");
  CHECK(busy_shares(s)[0].label == find_figure("busy.stepping")->label);
  s.words = &kAnswerWords;
  CHECK(busy_shares(s)[0].label == find_figure("busy.stepping")->token_label);
}

TEST_CASE("top: a token run lists the figures of its answers in 80 by 18 characters, and its curves") {
  const auto lines = texts_of(learning_panel(model_with(kAnswerWords, answers_snapshot()), {80, 18}));
  for (const char* part : {"mean turns", "1.5000", "most turns", "shortest", "4 tokens", "median", "9 tokens",
                           "95th percentile", "30 tokens", "longest", "41 tokens", "groups with equal rewards", "25 %",
                           "parts of the reward", "format", "0.1250", "right", "0.3750"}) {
    CAPTURE(part);
    CHECK(has(lines, part));
  }
  CHECK(std::ranges::any_of(lines, [](const std::string& line) { return line.starts_with("  reward  "); }));
  CHECK_FALSE(has(lines, " more"));
}

TEST_CASE("top: sums of tokens leave room for two columns of answers in 80 characters, and for curves") {
  StatsSnapshot s = answers_snapshot();
  s.answers.length_min = 1;
  s.answers.tokens = 9'876'543;
  TopModel model = model_with(kAnswerWords, s);
  const auto lines = texts_of(learning_panel(model, {80, 18}));
  CHECK(has(lines, "9,876,543 "));
  CHECK_FALSE(has(lines, "9,876,543 tokens"));  // "tokens of answers" says it
  CHECK(has(lines, "1 token "));
  CHECK(std::ranges::any_of(lines, [](const std::string& line) {
    return line.find("tokens of answers") != line.npos && line.find("median") != line.npos;
  }));
}

TEST_CASE("top: a time of a curve has its unit") {
  StatsSnapshot s;
  s.inference_p99_ms = 16.5;
  CHECK(has(texts_of(flow_panel(model_with(kStepWords, s), {80, 18})), "16.5000 ms "));
}

TEST_CASE("top: before the first answer no figure of answers is listed, and none in a control run") {
  CHECK_FALSE(has(texts_of(learning_panel(model_with(kAnswerWords, {}), {80, 18})), "turns"));
  CHECK_FALSE(has(texts_of(learning_panel(model_with(kStepWords, answers_snapshot()), {80, 18})), "turns"));
}

TEST_CASE("top: the verdict says what it rests on") {
  const auto lines = texts_of(
      flow_panel(model_with(kStepWords, snapshot_with(Resource::env_stepping, 0.91, 0.4, "trainer")), {80, 18}));
  CHECK(has(lines, "  resource   env stepping 91 %  trainer waits  twice as much: 40 % faster"));
}

TEST_CASE("top: a gain of nothing is said in words") {
  const auto lines =
      texts_of(flow_panel(model_with(kStepWords, snapshot_with(Resource::trainer, 1, 0, "workers")), {80, 18}));
  CHECK(has(lines, "twice as much: no faster"));
}

TEST_CASE("top: without an expected gain, or a part that waits, the verdict does not speak of it") {
  const auto lines = texts_of(
      flow_panel(model_with(kStepWords, snapshot_with(Resource::trainer, 0.7, kUnknown, "workers")), {80, 18}));
  CHECK(has(lines, "  resource   trainer 70 %  workers wait"));
  CHECK_FALSE(has(lines, "twice"));
  const auto bare =
      texts_of(flow_panel(model_with(kStepWords, snapshot_with(Resource::lag_cap, kUnknown, kUnknown, "")), {80, 18}));
  CHECK(std::ranges::find(bare, "  resource   lag cap") != bare.end());
}

TEST_CASE("top: where nothing limits the run there is no line about it") {
  for (const Resource resource : {Resource::none, Resource::unknown})
    CHECK_FALSE(
        has(texts_of(flow_panel(model_with(kStepWords, snapshot_with(resource, 0.5, 0.5, "")), {80, 18})), "resource"));
}
