// The ticks of plots, plots of characters, and what gnuplot is told.
#include <algorithm>
#include <cmath>

#include "runtime/base/errors.h"
#include "runtime/base/text_format.h"
#include "tests/support/test.h"
#include "tests/tools/troupe_program.h"
#include "tools/cli/character_plot.h"
#include "tools/cli/gnuplot_picture.h"

using namespace troupe;
using namespace troupe::test;

namespace {

GroupCurve line(const std::string& label, double from, double to, size_t runs = 1) {
  GroupCurve curve;
  curve.label = label;
  curve.runs = runs;
  for (int i = 0; i <= 100; ++i) {
    curve.x.push_back(1000 * i);
    curve.mean.push_back(from + (to - from) * i / 100);
    curve.low.push_back(curve.mean.back() - 1);
    curve.high.push_back(curve.mean.back() + 1);
  }
  return curve;
}

PlotPanel some_panel() {
  return {"env steps", "episodes.return_mean", {line("rising", 0, 500, 3), line("it's _flat_", 100, 100)}};
}

bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); });
}

}  // namespace

TEST_CASE("ticks_between: round numbers within the limits") {
  CHECK(ticks_between(0, 500, 5) == std::vector<double>{0, 100, 200, 300, 400, 500});
  CHECK(ticks_between(-3, 12, 3) == std::vector<double>{0, 5, 10});
  CHECK(ticks_between(0.02, 0.05, 3).size() == 4);
}

TEST_CASE("tick_text: short, and as exact as the distance of the ticks needs") {
  CHECK(tick_text(250'000, 50'000) == "250k");
  CHECK(tick_text(1'500'000, 500'000) == "1.5M");
  CHECK(tick_text(-20'000, 10'000) == "-20k");
  CHECK(tick_text(2000, 500) == "2000");
  CHECK(tick_text(5000, 5000) == "5k");
  CHECK(tick_text(1'005'000, 5000) == "1005k");
  CHECK(tick_text(350'000, 2000) == "350k");
  CHECK(tick_text(12'345, 5) == "12345");
  CHECK(tick_text(0.15, 0.05) == "0.15");
  CHECK(tick_text(0, 0.05) == "0.00");
}

TEST_CASE("character_plot: fits into its columns and rows, with marks of ASCII where nothing else is allowed") {
  const std::string plot = character_plot(some_panel(), {80, 24, PlotCharacters::ascii, false});
  const std::vector<std::string> lines = lines_of(plot);
  CHECK(lines.size() == 24);
  for (const std::string& each : lines) CHECK(each.size() <= 80);
  CHECK(is_ascii(plot));
  CHECK(lines.front() == "episodes.return_mean over env steps");
  CHECK(lines[21] == "* rising: 3 runs, at the end 500 [499, 501]");
  CHECK(lines[22] == "o it's _flat_: 1 run, at the end 100");
  CHECK(lines[23] == "interquartile mean of runs, 95 % bootstrap interval; rough: fewer than 5 runs");
}

TEST_CASE("character_plot: a label without room for the last value has lines of its own, and nothing is cut") {
  PlotPanel panel = some_panel();
  panel.curves[0].label = "trainer.policy_lr=0.0001 env.rows=16";
  const std::vector<std::string> lines = lines_of(character_plot(panel, {50, 24, PlotCharacters::ascii, false}));
  CHECK(lines.size() == 24);
  CHECK(lines[19] == "* trainer.policy_lr=0.0001 env.rows=16:");
  CHECK(lines[20] == "  3 runs, at the end 500 [499, 501]");
  CHECK(lines[21] == "o it's _flat_: 1 run, at the end 100");
}

TEST_CASE("character_plot: a curve that rises begins at the bottom on the left and ends at the top on the right") {
  const std::vector<std::string> lines =
      lines_of(character_plot({"x", "y", {line("a", 0, 1)}}, {60, 20, PlotCharacters::ascii, false}));
  CHECK(lines[1].find('*') > 50);
  CHECK(lines[16].find('*') == 10);
}

TEST_CASE("character_plot: a line of dots has no gaps, and colours only if they are asked for") {
  const PlotPanel one = {"x", "y", {line("a", 0, 1)}};
  const std::string plot = character_plot(one, {60, 20, PlotCharacters::braille, false});
  CHECK(plot.find('\x1b') == plot.npos);
  for (const std::string& each : lines_of(plot)) CHECK(display_width(each) <= 60);
  for (int row = 1; row <= 16; ++row) CHECK(lines_of(plot)[static_cast<size_t>(row)].find("\xE2\xA0") != plot.npos);
  CHECK(character_plot(one, {60, 20, PlotCharacters::braille, true}).find("\x1b[38;5;25m") != plot.npos);
}

TEST_CASE("character_plot: a curve with one value and one point is drawn") {
  GroupCurve point;
  point.label = "a";
  point.runs = 1;
  point.x = {5};
  point.mean = point.low = point.high = {3};
  CHECK(character_plot({"x", "y", {point}}, {40, 12, PlotCharacters::ascii, false}).find('*') != std::string::npos);
}

TEST_CASE("gnuplot_script: a band and a line for each curve, names as they are, the same text each time") {
  const std::vector<PlotPanel> panels = {some_panel()};
  const std::string script = gnuplot_script(panels, PictureKind::svg, "out");
  CHECK(script == gnuplot_script(panels, PictureKind::svg, "out"));
  CHECK(script.find("set output 'out'") != script.npos);
  CHECK(script.find("title 'rising (3 runs)'") != script.npos);
  CHECK(script.find("title 'it''s _flat_'") != script.npos);
  CHECK(script.find("$c0_0 using 1:3:4 with filledcurves") != script.npos);
  CHECK(script.find("$c0_1 using 1:3:4") == script.npos);  // one run has no interval
  CHECK(script.find("'100k' 100000") != script.npos);
  CHECK(gnuplot_script(std::vector<PlotPanel>{some_panel(), some_panel()}, PictureKind::pdf, "out")
            .find("multiplot layout 2,1") != script.npos);
}

namespace {

GroupCurve point(const std::string& label, double x, double mean, size_t runs) {
  GroupCurve curve{label, runs, {x}, {mean}, {mean - 10}, {mean + 10}};
  return curve;
}

PlotPanel points() {
  PlotPanel panel{"env steps", "eval.return_mean", {point("lr=0.001", 0, 100, 5), point("lr=0.01", 1, 40, 5)}};
  panel.categories = true;
  return panel;
}

}  // namespace

TEST_CASE("range_of: holds the intervals of points, and half a place beside the categories") {
  const PlotRange range = range_of(points());
  CHECK(range.bottom == 30);
  CHECK(range.top == 110);
  CHECK(range.left == -0.5);
  CHECK(range.right == 1.5);
}

TEST_CASE("category_names: the values of the setting that all labels begin with, else the labels") {
  PlotPanel panel = points();
  CHECK(category_names(panel) == std::vector<std::string>{"0.001", "0.01"});
  CHECK(category_axis(panel) == "lr");
  panel.curves[1].label = "cartpole";
  CHECK(category_names(panel) == std::vector<std::string>{"lr=0.001", "cartpole"});
  CHECK(category_axis(panel) == "groups");
}

TEST_CASE("character_plot: categories have their names below the points, and bars for their intervals") {
  const std::vector<std::string> lines = lines_of(character_plot(points(), {60, 20, PlotCharacters::ascii, false}));
  CHECK(lines.front() == "eval.return_mean over lr");
  const auto names =
      std::ranges::find_if(lines, [](const std::string& line) { return line.find("0.001") != line.npos; });
  REQUIRE(names != lines.end());
  CHECK(names->find("0.01", names->find("0.001") + 5) != names->npos);
  size_t bars = 0;
  for (const std::string& line : lines)
    bars += line.size() > 11 && line.find('|', 10) != line.npos && !line.starts_with("interquartile");
  CHECK(bars >= 4);
}

TEST_CASE("gnuplot_script: points have bars for their intervals, names at the axis, and marks of their own") {
  const std::string script = gnuplot_script(std::vector<PlotPanel>{points()}, PictureKind::svg, "out");
  CHECK(script.find("$c0_0 using 1:2:3:4 with yerrorbars pt 7") != script.npos);
  CHECK(script.find("$c0_1 using 1:2:3:4 with yerrorbars pt 5") != script.npos);
  CHECK(script.find("set xtics norotate ('0.001' 0, '0.01' 1)") != script.npos);
  CHECK(script.find("set xlabel 'lr'.") != script.npos);
}

TEST_CASE("gnuplot_script: says what the bands are, and not that few runs make them rough; a title if there is one") {
  PlotPanel panel = points();
  const auto script = [&] { return gnuplot_script(std::vector<PlotPanel>{panel}, PictureKind::svg, "out"); };
  CHECK(script().find("title 'interquartile mean of runs, 95 % bootstrap interval'") != std::string::npos);
  panel.curves[0].runs = 4;
  panel.title = "rates";
  CHECK(script().find("rough") == std::string::npos);
  CHECK(rough_note(panel) == "rough: fewer than 5 runs");
  CHECK(script().find("set title 'rates'") != std::string::npos);
  panel.curves.resize(1);
  panel.curves[0].runs = 1;
  CHECK(script().find("interquartile") == std::string::npos);
}

TEST_CASE(
    "axis_ticks: powers of 10 on a logarithmic axis, 2 and 5 times these where there are few, else round numbers") {
  const auto texts = [](double low, double high) {
    std::vector<std::string> result;
    for (const AxisTick& tick : axis_ticks(low, high, true, 6)) result.push_back(tick.text);
    return result;
  };
  CHECK(texts(0.5, 20'000) == std::vector<std::string>{"1", "10", "100", "1k", "10k"});
  CHECK(texts(0.01, 0.5) == std::vector<std::string>{"0.01", "0.02", "0.05", "0.1", "0.2", "0.5"});
  CHECK(texts(3, 4.5).size() > 2);
  CHECK(texts(1e-300, 1e300).size() < 20);
}

TEST_CASE("share_of: the middle of a logarithmic axis is the geometric mean, and nothing is at 0") {
  CHECK(share_of(10, 1, 100, true) == doctest::Approx(0.5));
  CHECK(value_at_share(0.5, 1, 100, true) == doctest::Approx(10));
  CHECK(std::isnan(share_of(0, 1, 100, true)));
  CHECK(share_of(25, 0, 100, false) == 0.25);
}

TEST_CASE("parse_limits: two numbers, the smaller first") {
  CHECK(parse_limits("--x-limits", "-1..2.5e3").low == -1);
  CHECK(parse_limits("--x-limits", "-1..2.5e3").high == 2500);
  for (const char* text : {"", "1", "1..", "..2", "2..1", "1..1", "1..nan", "0..inf", "a..b"})
    CHECK_THROWS_WITH_AS(
        parse_limits("--x-limits", text),
        (std::string("--x-limits: \"") + text + "\": expected two numbers, the smaller first, like 0..50000").c_str(),
        ConfigError);
}

TEST_CASE("range_of: given limits take the place of those of the curves, and a logarithmic axis begins above 0") {
  PlotPanel panel = some_panel();
  panel.x = {false, 0.0, 5e5};
  panel.y.log = true;
  const PlotRange range = range_of(panel);
  CHECK(range.left == 0);
  CHECK(range.right == 5e5);
  CHECK(range.bottom == 5);  // the second point of the curve that begins at 0
  CHECK(range.top == 500);
}

TEST_CASE("range_of: without a value above 0 a logarithmic axis still has limits") {
  PlotPanel panel = {"x", "y", {line("a", -3, 0)}};
  panel.y.log = true;
  const PlotRange range = range_of(panel);
  CHECK(range.bottom > 0);
  CHECK(range.top > range.bottom);
}

TEST_CASE("character_plot: what is outside of the limits is not drawn, and a logarithmic axis bends lines") {
  PlotPanel panel = {"x", "y", {line("a", 1, 1000)}};
  panel.y = {false, 0.0, 10.0};
  const std::string cut = character_plot(panel, {60, 20, PlotCharacters::braille, false});
  CHECK(lines_of(cut).size() == 20);
  panel.y = {true, 1.0, 1000.0};
  const std::vector<std::string> lines = lines_of(character_plot(panel, {60, 20, PlotCharacters::ascii, false}));
  CHECK(lines[1].find('*') < 50);  // the last half of the x is in the upper tenth
  CHECK(lines[1].starts_with("      1k |"));
}

TEST_CASE("gnuplot_script: a curve of few records has marks at these, and its legend shows them") {
  PlotPanel panel = some_panel();
  panel.curves[0].marks = {0, 50'000};
  const std::string script = gnuplot_script(std::vector<PlotPanel>{panel}, PictureKind::svg, "out");
  CHECK(script.find("$m0_0 << EOD\n0 0\n50000 250\nEOD\n") != script.npos);
  CHECK(script.find("$m0_0 using 1:2 with points pt 7") != script.npos);
  CHECK(script.find("NaN with linespoints dt solid pt 7") != script.npos);
  CHECK(script.find("$m0_1") == script.npos);
}

TEST_CASE("gnuplot_script: axes have the same ticks as text on both, limits and scales of their own, and one margin") {
  PlotPanel panel = some_panel();
  const auto script = [&] { return gnuplot_script(std::vector<PlotPanel>{panel}, PictureKind::svg, "out"); };
  CHECK(script().find("set yrange [-100:600]") != std::string::npos);
  CHECK(script().find("set lmargin 9\n") != std::string::npos);
  panel.y = {true, 1.0, 1000.0};
  CHECK(script().find("set logscale y\nset xrange") != std::string::npos);
  CHECK(script().find("set yrange [1:1000]\nset ytics ('1' 1, '10' 10, '100' 100, '1k' 1000)") != std::string::npos);
}

TEST_CASE("fitted_middle: keeps both ends, and cuts between characters") {
  CHECK(fitted_middle("policy_lr=0.001_seed=1", 12) == "polic..eed=1");
  CHECK(fitted_middle("short", 5) == "short");
  CHECK(fitted_middle("\u4e2d\u6587\u4e2d\u6587", 6) == "\u4e2d..\u6587");
  CHECK(fitted_middle("long", 2) == "lo");
}

TEST_CASE("format_percent: less than the whole is never 100 %") {
  CHECK(format_percent(0.995) == "99 %");
  CHECK(format_percent(1) == "100 %");
  CHECK(format_percent(1.3) == "130 %");
}

TEST_CASE("wrapped: cuts between words, and in a word that has no room") {
  CHECK(wrapped("", 5) == std::vector<std::string>{""});
  CHECK(wrapped("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrapped("one twothree", 5) == std::vector<std::string>{"one", "twoth", "ree"});
  CHECK(wrapped("one", 0) == std::vector<std::string>{""});
}

TEST_CASE("gnuplot_script: long names are on several lines, for which the picture is higher") {
  PlotPanel panel = some_panel();
  const auto height = [&] {
    const std::string script = gnuplot_script(std::vector<PlotPanel>{panel}, PictureKind::svg, "out");
    const size_t at = script.find("svg size 640,") + 13;
    return std::stoi(script.substr(at, 5));
  };
  const int before = height();
  panel.curves[0].label = "trainer.policy_lr=0.001 trainer.value_lr=0.002 trainer.entropy=0.01 model.kind=mlp";
  panel.y_label = "some_package/LongEnvironment-v5: episodes.return_mean";
  panel.note = "runs of one group differ also in trainer.gamma";
  CHECK(height() == before + 2 * 20);
  const std::string script = gnuplot_script(std::vector<PlotPanel>{panel}, PictureKind::svg, "out");
  CHECK(script.find("title 'trainer.policy_lr=0.001 trainer.value_lr=0.002'") != script.npos);
  CHECK(script.find("title '  trainer.entropy=0.01 model.kind=mlp (3 runs)'") != script.npos);
  CHECK(script.find(R"(ylabel 'some_package/LongEnvironment-v5:'."\n".'episodes.return_mean')") != script.npos);
  CHECK(script.find("title 'runs of one group differ also in trainer.gamma'") != script.npos);
}

TEST_CASE("gnuplot_script: categories whose names have no room beside each other are numbered") {
  PlotPanel panel = points();
  panel.curves[0].label = "trainer.policy_lr=0.001 trainer.value_lr=0.002";
  panel.curves[1].label = "trainer.policy_lr=0.001 trainer.value_lr=0.004";
  const std::string script = gnuplot_script(std::vector<PlotPanel>{panel}, PictureKind::svg, "out");
  CHECK(script.find("set xtics norotate ('1' 0, '2' 1)") != script.npos);
  CHECK(script.find("title '2: trainer.policy_lr=0.001 trainer.value_lr=0.004 (5") != script.npos);
}

TEST_CASE("character_plot: texts may be wider than the plot, and a note has a line of its own") {
  PlotPanel wide = some_panel();
  wide.curves[0].label = std::string(100, 'a');
  wide.note = "runs of one group differ also in trainer.gamma";
  CharacterPlot how{80, 24, PlotCharacters::ascii, false};
  const std::vector<std::string> narrow = lines_of(character_plot(wide, how));
  CHECK(narrow.size() == 24);
  for (const std::string& each : narrow) CHECK(each.size() <= 80);
  CHECK(narrow[20] == "  3 runs, at the end 500 [499, 501]");
  how.text_columns = SIZE_MAX;
  const std::vector<std::string> lines = lines_of(character_plot(wide, how));
  CHECK(lines[20].ends_with("at the end 500 [499, 501]"));
  CHECK(lines.back() == wide.note);
}
