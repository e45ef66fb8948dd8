#include "algorithms/scan/scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "algorithms/common/cpu.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

// With less output in total, stores that bypass the caches cost more than they save.
constexpr int64_t kStreamBytes = int64_t{16} << 20;
// Starting a thread does not pay off for less.
constexpr int64_t kLeastElementsPerThread = int64_t{1} << 15;
constexpr int64_t kLine = 16;  // floats per cache line
constexpr int64_t kShortRow = 16 * kLine;

// The number of elements of all sequences.
int64_t check_shape(const ScanTask& task) {
  TROUPE_CHECK(task.steps >= 0 && task.sequences >= 0, "steps", task.steps, "sequences", task.sequences);
  if (task.offsets.empty()) {
    int64_t n = 0;
    TROUPE_CHECK(!__builtin_mul_overflow(task.steps, task.sequences, &n), "steps", task.steps, "sequences",
                 task.sequences, "their product is too large");
    return n;
  }
  TROUPE_CHECK(task.layout == Layout::rows && task.steps == 0, "packed sequences need layout rows and steps 0");
  TROUPE_CHECK(static_cast<int64_t>(task.offsets.size()) == task.sequences + 1, "offsets", task.offsets.size(),
               "want sequences + 1", task.sequences + 1);
  TROUPE_CHECK(task.offsets.front() == 0 && std::is_sorted(task.offsets.begin(), task.offsets.end()),
               "offsets must begin at 0 and never decrease");
  return task.offsets.back();
}

struct Extent {
  const char *begin, *end;
};

// The memory layout of an array: elements per row of memory, and number of rows.
struct Rows {
  int64_t length, count;
};

template <class View>
Extent extent_of(const View& view, Rows rows, int64_t bytes) {
  const auto* first = reinterpret_cast<const char*>(view.data);
  const int64_t last = (rows.count - 1) * view.stride * bytes;
  return {first + std::min<int64_t>(0, last), first + std::max<int64_t>(0, last) + rows.length * bytes};
}

bool overlap(const Extent& a, const Extent& b) { return a.begin < b.end && b.begin < a.end; }

// Resolves kDense and checks sizes; appends the extents of the given arrays to `extents`.
class ArrayCheck {
 public:
  ArrayCheck(int64_t elements, Rows rows) : elements_(elements), rows_(rows) {}

  template <class View>
  void read(std::string_view name, View& view, int64_t bytes, bool required = false) {
    if (view.data == nullptr && view.size == 0 && !(required && elements_ > 0)) return;
    check_size(name, view.size);
    if (view.stride == kDense) view.stride = rows_.length;
    if (elements_ > 0) inputs_.push_back(extent_of(view, rows_, bytes));
  }
  void read(std::string_view name, FloatView& view, bool required = false) {
    read(name, view, view.element == Element::float32 ? 4 : 2, required);
  }
  void write(std::string_view name, OutputView& view) {
    check_size(name, view.size);
    if (view.stride == kDense) view.stride = rows_.length;
    TROUPE_CHECK(rows_.count <= 1 || view.stride >= rows_.length, name, "stride", view.stride, "want at least",
                 rows_.length);
    if (elements_ == 0) return;
    const Extent extent = extent_of(view, rows_, 4);
    for (const Extent& other : inputs_) TROUPE_CHECK(!overlap(extent, other), name, "overlaps an input");
    for (const Extent& other : outputs_) TROUPE_CHECK(!overlap(extent, other), name, "overlaps the other output");
    outputs_.push_back(extent);
  }

 private:
  void check_size(std::string_view name, std::size_t size) const {
    TROUPE_CHECK(static_cast<int64_t>(size) == elements_, name, size, "want steps * sequences", elements_);
  }

  int64_t elements_;
  Rows rows_;
  std::vector<Extent> inputs_, outputs_;
};

Rows rows_of(const ScanTask& task, int64_t elements) {
  if (!task.offsets.empty()) return {elements, 1};
  return task.layout == Layout::rows ? Rows{task.steps, task.sequences} : Rows{task.sequences, task.steps};
}

bool has_values(ScanRule rule) { return rule != ScanRule::reward_to_go; }
bool has_first(ScanRule rule) { return rule == ScanRule::gae || rule == ScanRule::vtrace; }

void check_arrays(ScanRule rule, ScanTask& task, int64_t elements) {
  ArrayCheck check(elements, rows_of(task, elements));
  check.read("rewards", task.reward, true);
  check.read("values", task.value, has_values(rule));
  check.read("next_values", task.next);
  check.read("gammas", task.gammas);
  check.read("lambdas", task.lambdas);
  check.read("log_rho", task.log_rho, rule == ScanRule::vtrace);
  check.read("terminated", task.terminated, 1);
  check.read("truncated", task.truncated, 1);
  check.read("mask", task.mask, 1);
  if (has_first(rule)) check.write("the first output", task.first);
  check.write(has_first(rule) ? "the second output" : "the output", task.second);
  TROUPE_CHECK(task.bootstrap.empty() || static_cast<int64_t>(task.bootstrap.size()) == task.sequences, "bootstrap",
               task.bootstrap.size(), "want one per sequence", task.sequences);
}

bool plain(ScanRule rule, const ScanTask& t) {
  const bool all_float32 = t.reward.element == Element::float32 && t.value.element == Element::float32 &&
                           t.gammas.element == Element::float32 && t.log_rho.element == Element::float32;
  return all_float32 && !t.terminated.data && !t.truncated.data && !t.mask.data && !t.next.data && !t.lambdas.data &&
         (!t.gammas.data || rule == ScanRule::vtrace);
}

// Whether streamed stores pay off and may be used, which requires that both outputs fill the same cache lines.
bool streams(ScanRule rule, const ScanTask& task, int64_t elements) {
  const auto place = [](const float* p) { return reinterpret_cast<uintptr_t>(p) % 64; };
  if (place(task.second.data) % 4 != 0) return false;
  // Down columns, if consecutive rows are aligned differently to cache lines, the ends of each row need extra care,
  // which is too expensive for short rows.
  if (task.layout == Layout::time && task.second.stride % kLine != 0 && task.sequences < kShortRow) return false;
  if (!has_first(rule)) return elements * 4 >= kStreamBytes;
  return elements * 8 >= kStreamBytes && place(task.first.data) == place(task.second.data) &&
         (task.first.stride - task.second.stride) % kLine == 0;
}

// The first sequence of part i of n.
int64_t part_begin(const ScanTask& task, int64_t elements, int64_t i, int64_t n) {
  if (i == n) return task.sequences;
  if (!task.offsets.empty()) {
    const auto at = std::lower_bound(task.offsets.begin(), task.offsets.end(), elements / n * i);
    return std::min<int64_t>(at - task.offsets.begin(), task.sequences);
  }
  const int64_t begin = task.sequences * i / n;
  return task.layout == Layout::rows ? begin : begin / kLine * kLine;
}

// run(i) for each part: part 0 in this thread, each other part in a new thread or, if the system cannot start one, in
// this thread as well.
template <class Run>
void in_threads(int64_t parts, Run run) {
  std::vector<std::jthread> threads;
  int64_t started = 1;
  try {
    for (; started < parts; ++started) threads.emplace_back(run, started);
  } catch (const std::system_error&) {
    for (int64_t i = started; i < parts; ++i) run(i);
  }
  run(0);
}

// Divides the sequences among threads.
void run_parts(ScanKernel kernel, const ScanTask& task, int64_t elements, int64_t parts) {
  in_threads(parts, [&](int64_t i) {
    const int64_t begin = part_begin(task, elements, i, parts), end = part_begin(task, elements, i + 1, parts);
    if (begin < end) kernel(task, begin, end);
  });
}

// The approximate number of steps until an earlier S no longer affects the result in float32: |w^n| < 2^-26. Infinite
// if that never happens.
double steps_to_forget(const ScanTask& task) {
  const double w = double{task.gamma} * double{task.lambda};
  return w < 1 ? 16 + (w > 0 ? std::ceil(-26 / std::log2(w)) : 0) : std::numeric_limits<double>::infinity();
}

// The number of parts to divide the steps into, or 1. Steps are divided if dividing the sequences would leave each
// thread too short a piece of every memory row.
int64_t step_parts(ScanRule rule, const ScanTask& task, int64_t threads) {
  constexpr int64_t kLeastRow = 2048, kLeastPart = 4;  // floats; multiples of the steps that are computed twice
  if (rule != ScanRule::gae || task.layout != Layout::time || !plain(rule, task)) return 1;
  if (task.sequences >= kLeastRow * threads) return 1;
  const double most = static_cast<double>(task.steps) / (kLeastPart * steps_to_forget(task));
  return most < 2 ? 1 : std::min(threads, static_cast<int64_t>(most));
}

// The steps [begin, end) of a plain task with layout time.
ScanTask steps_of(const ScanTask& task, int64_t begin, int64_t end) {
  ScanTask part = task;
  part.steps = end - begin;
  const auto row = [](const FloatView& view, int64_t t) {
    return static_cast<const float*>(view.data) + t * view.stride;
  };
  part.reward.data = row(task.reward, begin);
  part.value.data = row(task.value, begin);
  part.first.data += begin * task.first.stride;
  part.second.data += begin * task.second.stride;
  if (end < task.steps) part.bootstrap = {row(task.value, end), static_cast<std::size_t>(task.sequences)};
  return part;
}

// Divides the steps of GAE. Each part except the last is computed as if S were 0 after it. Then the steps before each
// cut are computed again from the correct S, until one equals its earlier result: all steps before it are then equal
// too, bit by bit.
void run_step_parts(ScanKernel kernel, const ScanTask& task, int64_t elements, int64_t parts) {
  const auto cut = [&](int64_t i) { return task.steps * i / parts; };
  in_threads(parts, [&](int64_t i) { kernel(steps_of(task, cut(i), cut(i + 1)), 0, task.sequences); });
  const auto again = static_cast<int64_t>(steps_to_forget(task));
  const auto width = static_cast<std::size_t>(task.sequences);
  const auto sums = [&](int64_t t) { return std::span<const float>(task.first.data + t * task.first.stride, width); };
  std::vector<float> before(width);
  for (int64_t i = parts - 1; i > 0; --i)
    for (int64_t end = cut(i); end > cut(i - 1);) {
      const int64_t begin = std::max(cut(i - 1), end - (end == cut(i) ? again : (again + 3) / 4));
      std::ranges::copy(sums(begin), before.begin());
      ScanTask part = steps_of(task, begin, end);
      part.later_sum = sums(end);
      run_parts(kernel, part, elements, std::min(parts, (task.sequences + kLine - 1) / kLine));
      if (std::memcmp(before.data(), sums(begin).data(), width * sizeof(float)) == 0) break;
      end = begin;
    }
}

}  // namespace

const ScanKernels& scan_kernels() {
  switch (current_isa()) {
    case Isa::avx512: return *scan_kernels_avx512();
    case Isa::avx2: return *scan_kernels_avx2();
    case Isa::sse2: break;
  }
  return *scan_kernels_sse2();
}

int64_t check_scan(ScanRule rule, ScanTask& task) {
  const int64_t elements = check_shape(task);
  check_arrays(rule, task, elements);
  TROUPE_CHECK(task.gamma >= 0 && task.gamma <= 1 && task.lambda >= 0 && task.lambda <= 1, "gamma", task.gamma,
               "lambda", task.lambda, "want both in [0, 1]");
  TROUPE_CHECK(task.threads >= 1, "threads", task.threads);
  return elements;
}

void run_scan(ScanRule rule, ScanTask task) {
  const int64_t elements = check_scan(rule, task);
  if (elements == 0) return;
  task.stream = streams(rule, task, elements);
  const ScanKernel kernel =
      scan_kernels().scan[static_cast<int>(rule)][static_cast<int>(task.layout)][plain(rule, task)][task.stream];
  const int64_t units = task.layout == Layout::rows ? task.sequences : (task.sequences + kLine - 1) / kLine;
  const int64_t parts = std::min({int64_t{task.threads}, units, elements / kLeastElementsPerThread});
  const int64_t by_steps = step_parts(rule, task, std::min<int64_t>(task.threads, elements / kLeastElementsPerThread));
  if (by_steps > 1) {
    run_step_parts(kernel, task, elements, by_steps);
  } else if (parts <= 1) {
    kernel(task, 0, task.sequences);
  } else {
    run_parts(kernel, task, elements, parts);
  }
}

}  // namespace troupe
