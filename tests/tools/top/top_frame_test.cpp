// The picture of `troupe top`, without a terminal.
#include "tools/top/frame.h"

#include <array>

#include "runtime/base/text_format.h"
#include "tests/support/test.h"
#include "tools/top/figures.h"

using namespace troupe;

namespace {

StatsSnapshot snapshot_at(uint64_t update) {
  StatsSnapshot s;
  const auto x = static_cast<double>(update);
  s.progress = x / 100;
  s.elapsed_seconds = x;
  s.eta_seconds = 100 - x;
  s.env_steps = 1000 * update;
  s.env_steps_per_second = 5000;
  s.updates = update;
  s.return_mean = x;
  s.lag_p50 = s.lag_p95 = s.lag_max = 1;
  s.lag_cap = 4;
  s.workers_up = s.workers_total = 2;
  s.busy.workers = 0.91;
  s.busy.trainer = 0.25;
  s.ledger.produced = 1000 * update;
  s.ledger.trained = 600 * update;
  s.ledger.waiting = 400 * update;
  s.learner = {{"kl", 0.01 / (1 + x)}, {"entropy", 0.5}, {"policy_loss", -0.02}};
  s.told_bottleneck = Bottleneck{"sampling", "the trainer waits 63 % of the time", "more workers", "workers"};
  return s;
}

TopModel running_model() {
  TopModel model;
  model.run = "cartpole";
  model.source = "127.0.0.1:4711";
  model.settings = "CartPole  seed 7";
  model.link = Link::live;
  for (uint64_t update = 1; update <= 50; ++update) {
    model.history.add(update, snapshot_at(update));
    model.show(snapshot_at(update), "12:00:00");
  }
  return model;
}

std::string text_of_lines(const std::vector<FrameLine>& lines) {
  std::string text;
  for (const FrameLine& line : lines) {
    for (const Piece& piece : line) text += piece.text;
    text += '\n';
  }
  return text;
}

constexpr std::array kSizes = {FrameSize{80, 24},       FrameSize{200, 50}, FrameSize{20, 5}, FrameSize{1, 1},
                               FrameSize{80, 24, true}, FrameSize{0, 0},    FrameSize{500, 3}};

void check_size(const std::vector<FrameLine>& lines, const FrameSize& size) {
  CHECK(lines.size() <= size.height);
  for (const FrameLine& line : lines) {
    size_t columns = 0;
    for (const Piece& piece : line) columns += display_width(piece.text);
    CHECK(columns <= size.width);
  }
}

constexpr std::array kViews = {TopView::overview, TopView::learning, TopView::flow,
                               TopView::machines, TopView::events,   TopView::help};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("top: no view is larger than the terminal") {
  TopModel noisy = running_model();
  for (int i = 0; i < 300; ++i) noisy.tell({EventLevel::news, "event " + std::to_string(i)}, "12:00:00");
  noisy.log.assign(100, "2026-01-01 00:00:00.000 info    a line of the log");
  for (const TopModel& model : {TopModel{}, running_model(), noisy})
    for (const FrameSize& size : kSizes)
      for (const TopView view : kViews) check_size(frame(model, view, size), size);
}

TEST_CASE("top: 80 by 24 characters show the state, the verdict, the return and the flow") {
  const std::string text = text_of_lines(frame(running_model(), TopView::overview, {80, 24}));
  for (const char* part : {"cartpole", "running", "50 %", "ETA", "bottleneck sampling", "KL of an update", "workers",
                           "lag", "1 Overview", "? Help"}) {
    CAPTURE(part);
    CHECK(has(text, part));
  }
}

TEST_CASE("top: a large terminal shows all panels in one view") {
  const std::string text = text_of_lines(frame(running_model(), TopView::overview, {200, 50}));
  for (const std::string_view name : kViewNames) CHECK(has(text, std::string(name)));
  for (const char* part : {"entropy", "workers up", "what happened to the samples", "nothing has happened"})
    CHECK(has(text, part));
}

TEST_CASE("top: the part that limits the run stands out in the flow") {
  for (const FrameLine& line : frame(running_model(), TopView::flow, {80, 24}))
    for (const Piece& piece : line)
      if (piece.text.starts_with("  workers busy")) CHECK(piece.look == Look::warning);
  CHECK(has(text_of_lines(frame(running_model(), TopView::flow, {80, 24})), "91 %"));
}

TEST_CASE("top: without room for all shares the most important are shown, and how many more there are") {
  TopModel model = running_model();
  StatsSnapshot s = snapshot_at(51);
  s.busy = {.workers = 0.2,
            .stepping = 0.1,
            .credit_wait = 0.3,
            .action_wait = 0.4,
            .inference = 0.5,
            .replay = 0.05,
            .prefetcher = 0.06,
            .trainer = 0.7,
            .machine = 0.95};
  model.show(s, "12:00:00");
  const std::string small = text_of_lines(frame(model, TopView::flow, {80, 13}));
  CHECK(has(small, "  workers busy"));  // which limits the run
  CHECK(has(small, "  processors of the machine"));
  CHECK(has(small, "+6 more"));
  CHECK_FALSE(has(small, "  replay buffer busy"));
  const std::string large = text_of_lines(frame(model, TopView::flow, {80, 40}));
  CHECK_FALSE(has(large, "+6 more"));
  CHECK(has(large, "  replay buffer busy"));
  CHECK(has(large, "busy shares"));
}

TEST_CASE("top: before the first report the header says that it waits") {
  CHECK(has(text_of_lines(frame(TopModel{}, TopView::overview, {80, 24})), "waiting for the first report"));
}

TEST_CASE("top: control characters in names, errors, alarms and the log are never part of a picture") {
  TopModel model = running_model();
  StatsSnapshot s = snapshot_at(51);
  const std::string evil = "a\x1b[2Jb\nc\x07\xff\u202e";
  model.run = model.source = model.settings = model.note = evil;
  s.alarms[evil] = {AlarmLevel::error, 1, evil};
  s.rows_served[evil] = 1;
  s.env_failures[evil] = 2;
  s.last_error = evil;
  s.told_bottleneck = Bottleneck{evil, evil, evil, evil};
  model.show(s, evil);
  model.log = {evil};
  for (const FrameSize& size : kSizes)
    for (const TopView view : kViews)
      for (const FrameLine& line : frame(model, view, size))
        for (const Piece& piece : line)
          for (const char c : piece.text) CHECK(static_cast<unsigned char>(c) >= 0x20);
  for (const char c : plain_frame(model, 80, true)) CHECK((c == '\n' || (c >= 0x20 && c < 0x7f)));
}

TEST_CASE("top: a very long name leaves room for the state and the figures") {
  TopModel model = running_model();
  model.run = std::string(1000, 'x');
  const std::string text = text_of_lines(frame(model, TopView::overview, {80, 24}));
  CHECK(has(text, "running"));
  CHECK(has(text, "50 %"));
}

TEST_CASE("top: the picture has only ASCII characters where the terminal shows no others") {
  for (const TopView view : kViews)
    for (const char c : text_of_lines(frame(running_model(), view, {200, 50, true})))
      CHECK(static_cast<unsigned char>(c) < 0x80);
}

TEST_CASE("top: the state is told in words") {
  TopModel model = running_model();
  CHECK(state_text(model) == "running");
  model.silent_seconds = 75;
  CHECK(state_text(model) == "silent for 1:15");
  model.link = Link::lost;
  CHECK(state_text(model) == "connection lost, trying again");
  model.newest->training_ended = true;
  CHECK(state_text(model) == "the run ended");
  model.link = Link::live;
  model.silent_seconds = 0;
  CHECK(state_text(model) == "training ended");
  model.newest->evaluating.emplace();
  CHECK(state_text(model) == "evaluating");
}

TEST_CASE("top: a run that was killed is called so, without a time that it still needs") {
  TopModel model = running_model();
  model.link = Link::killed;
  CHECK(state_text(model) == "killed");
  for (const std::string& text :
       {text_of_lines(frame(model, TopView::overview, {80, 24})), plain_frame(model, SIZE_MAX, false)}) {
    CHECK_FALSE(has(text, "ETA"));
    CHECK(has(text, "50 %"));
    CHECK(has(text, "bottleneck was sampling"));
  }
}

TEST_CASE("top: when a run has ended, its last verdict and its alarms are shown as past") {
  TopModel model = running_model();
  StatsSnapshot s = snapshot_at(51);
  s.alarms["kl_high"] = {AlarmLevel::error, 51, "it is high"};
  model.show(s, "12:00:00");
  CHECK(has(text_of_lines(frame(model, TopView::overview, {80, 24})), "  alarms     ERROR kl_high"));
  model.show(snapshot_at(52), "12:00:00");  // the alarm is over
  CHECK_FALSE(has(text_of_lines(frame(model, TopView::overview, {80, 24})), "  alarms "));
  s = snapshot_at(53);
  s.told_bottleneck.reset();
  s.training_ended = true;
  model.show(s, "12:00:00");
  const std::string text = text_of_lines(frame(model, TopView::overview, {80, 24}));
  CHECK(has(text, "  alarms     1 error during the run; over before: kl_high (error)"));
  CHECK(has(text, "  bottleneck was sampling: the trainer waits 63 % of the time"));
  CHECK_FALSE(has(text, "more workers"));
}

TEST_CASE(
    "top: of a run that has ended errors come first, those at the end before those that were over, and nothing is "
    "cut") {
  TopModel model = running_model();
  StatsSnapshot s = snapshot_at(51);
  s.alarms["kl_extreme"] = {AlarmLevel::error, 51, "it is high"};
  s.alarms["entropy_low"] = {AlarmLevel::warning, 51, "it is low"};
  model.show(s, "12:00:00");
  s = snapshot_at(52);
  s.alarms["entropy_dead"] = {AlarmLevel::warning, 52, "it is nothing"};
  s.alarms["return_collapse"] = {AlarmLevel::error, 52, "it has collapsed"};
  s.training_ended = true;
  model.show(s, "12:00:00");
  const std::string text = text_of_lines(frame(model, TopView::learning, {80, 24}));
  CHECK(has(text, "  alarms     2 errors, 2 warnings during the run; raised at the end:\n"));
  CHECK(has(text, "\n             return_collapse (error), entropy_dead; over before: kl_extreme\n"));
  CHECK(has(text, "\n             (error), entropy_low\n"));
}

TEST_CASE("top: the events begin with the alarms that are raised, errors first, and no word of them is cut") {
  TopModel model = running_model();
  StatsSnapshot s = snapshot_at(51);
  std::string words;
  for (int i = 0; i < 30; ++i) words += "word" + std::to_string(i) + ' ';
  s.alarms["a_warning"] = {AlarmLevel::warning, 7, "look at it"};
  s.alarms["kl_high"] = {AlarmLevel::error, 51, words + "the advice"};
  model.show(s, "12:00:00");
  for (const size_t width : {size_t{80}, size_t{200}}) {
    const std::vector<FrameLine> lines = frame(model, TopView::events, {width, 40});
    check_size(lines, {width, 40});
    const std::string text = text_of_lines(lines);
    CHECK(has(text, "  alarms that are raised\n  kl_high (error) since update 51: word0 word1"));
    for (int i = 0; i < 30; ++i) CHECK(has(text, "word" + std::to_string(i)));
    CHECK(has(text, "the advice"));
    CHECK(has(text, "  a_warning (warning) since update 7: look at it\n"));
    CHECK(text.find("kl_high (error) since") < text.find("a_warning (warning) since"));
  }
}

TEST_CASE("top: of a run that has ended the verdict that held for longest is shown, as by troupe runs") {
  TopModel model = running_model();
  model.link = Link::ended;
  model.longest = "processors 85 % of the time";
  const std::string text = text_of_lines(frame(model, TopView::learning, {80, 24}));
  CHECK(has(text, "  bottleneck was processors 85 % of the time\n"));
  CHECK_FALSE(has(text, "was sampling"));
}

TEST_CASE("top: the plain picture cuts no text where nothing limits its width") {
  TopModel model = running_model();
  const std::string why(300, 'y');
  StatsSnapshot s = snapshot_at(51);
  s.told_bottleneck = Bottleneck{"sampling", why + '!', "", "workers"};
  model.show(s, "12:00:00");
  CHECK(has(plain_frame(model, SIZE_MAX, false), why + "!\n"));
  CHECK_FALSE(has(plain_frame(model, 80, false), why));
  CHECK_FALSE(has(plain_frame(model, SIZE_MAX, false), " \n"));
}

TEST_CASE("top: the plain picture has every view, without spaces at the end of lines") {
  const std::string text = plain_frame(running_model(), 80, false);
  for (const char* part : {"\nLearning\n", "\nFlow\n", "\nMachines\n", "\nEvents\n", "bottleneck sampling"})
    CHECK(has(text, part));
  CHECK_FALSE(has(text, " \n"));
}
