// The CUDA kernels, executed on the host thread by thread (emulated_grid.h): the same code that nvcc compiles, except
// for DeviceThread. Compared with a plain loop in float64 and with the CPU's kernels.

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "algorithms/cuda/choose_kernel.h"
#include "algorithms/cuda/scan_columns.h"
#include "algorithms/cuda/scan_rows.h"
#include "algorithms/scan/scan.h"
#include "runtime/base/errors.h"
#include "tests/algorithms/scan/emulated_grid.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using cuda::ScanKind;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kUntouched = -12345.5f;

// An array whose end is the end of an allocation, so that AddressSanitizer detects reads beyond it. There is space
// before it, because a kernel reads whole aligned blocks of 16 bytes.
template <class T>
class Placed {
 public:
  Placed(std::size_t count, std::size_t misplaced, T fill)
      : memory_(new(std::align_val_t{64}) unsigned char[64 + (misplaced + count) * sizeof(T)]), count_(count) {
    data_ = reinterpret_cast<T*>(memory_.get() + 64 + misplaced * sizeof(T));
    std::uninitialized_fill_n(data_, count, fill);
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }

 private:
  struct Free {
    void operator()(unsigned char* p) const { operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<unsigned char[], Free> memory_;
  std::size_t count_;
  T* data_;
};

// The parameters of a case; everything else is random.
struct Shape {
  ScanRule rule = ScanRule::gae;
  ScanKind kind = ScanKind::warp_rows;
  int64_t steps = 0;
  int64_t sequences = 0;
  bool packed = false;
  bool plain = false;        // only required inputs
  std::optional<bool> half;  // whether all arrays of numbers are bfloat16; empty = at random
  bool aligned = false;      // every array at a multiple of 64 bytes, without gaps
  float ends = 0.02f;        // fraction of steps that end an episode
  float holes = 0.2f;        // fraction of masked steps
  float gamma = 0.99f, lambda = 0.95f;
  int resident = 3;  // blocks that run at the same time
};

// A task with random arrays.
class Case {
 public:
  Case(const Shape& shape, uint64_t seed) : shape_(shape), random_(seed) {
    const bool rows = shape.kind != ScanKind::columns && shape.kind != ScanKind::column_tiles;
    task.layout = rows ? Layout::rows : Layout::time;
    task.sequences = shape.sequences;
    if (shape.packed) {
      offsets_.push_back(0);
      for (int64_t b = 0; b < shape.sequences; ++b)
        offsets_.push_back(offsets_.back() + static_cast<int64_t>(random_() % static_cast<uint64_t>(shape.steps + 1)));
      if (offsets_.back() == 0) offsets_.back() = 1;
      task.offsets = offsets_;
      row_length_ = elements_ = offsets_.back();
      row_count_ = 1;
    } else {
      task.steps = shape.steps;
      row_length_ = rows ? shape.steps : shape.sequences;
      row_count_ = rows ? shape.sequences : shape.steps;
      elements_ = row_length_ * row_count_;
    }
    task.gamma = shape.gamma;
    task.lambda = shape.lambda;
    const bool values = shape.rule != ScanRule::reward_to_go, vtrace = shape.rule == ScanRule::vtrace;
    task.reward = numbers(1);
    if (values) task.value = numbers(1);
    if (vtrace) {
      task.log_rho = numbers(0.5f);
      task.next_at_ends = true;
      task.rho_bar = chance(0.3f) ? std::numeric_limits<float>::infinity() : 1.1f;
      task.c_bar = 0.9f;
      task.pg_rho_bar = 1.2f;
      task.multiply_pg_rho = chance(0.5f);
      task.rlax_mix = chance(0.5f);
    }
    if (chance(0.7f)) {
      for (int64_t b = 0; b < shape.sequences; ++b) bootstrap_.push_back(normal());
      task.bootstrap = bootstrap_;
    }
    if (!shape.plain) add_options(values, vtrace);
    outputs_.reserve(4);
    if (shape.rule == ScanRule::gae || vtrace) task.first = output();
    task.second = output();
    plant_nan();
  }

  int64_t length(int64_t b) const {
    return shape_.packed ? offsets_[static_cast<std::size_t>(b) + 1] - offsets_[static_cast<std::size_t>(b)]
                         : task.steps;
  }
  // The index of step t of sequence b in an array with this stride.
  int64_t place(int64_t stride, int64_t b, int64_t t) const {
    if (shape_.packed) return offsets_[static_cast<std::size_t>(b)] + t;
    if (stride == kDense) stride = row_length_;
    return task.layout == Layout::rows ? b * stride + t : t * stride + b;
  }
  int64_t elements() const { return elements_; }
  OutputView output() {
    const int64_t gap = shape_.aligned ? 0 : static_cast<int64_t>(random_() % 3);
    outputs_.push_back(std::make_unique<Placed<float>>(size(gap), misplaced(), kUntouched));
    return {outputs_.back()->data(), static_cast<std::size_t>(elements_), row_length_ + gap};
  }
  // The number of elements of the outputs that are not `kUntouched`.
  int64_t touched() const {
    int64_t count = 0;
    for (const auto& out : outputs_)
      for (std::size_t i = 0; i < out->size(); ++i) count += (*out)[static_cast<int64_t>(i)] != kUntouched;
    return count;
  }

  ScanTask task;

 private:
  bool chance(float p) { return std::uniform_real_distribution<float>()(random_) < p; }
  float normal() { return std::normal_distribution<float>()(random_); }
  std::size_t misplaced() { return shape_.aligned ? 0 : random_() % 17; }
  std::size_t size(int64_t gap) const {
    return row_count_ == 0 ? 0 : static_cast<std::size_t>((row_count_ - 1) * (row_length_ + gap) + row_length_);
  }

  // make(): one number for the array.
  template <class Make>
  FloatView array(bool half, Make make) {
    const int64_t gap = shape_.aligned ? 0 : static_cast<int64_t>(random_() % 4);
    const std::size_t count = size(gap);
    const auto stride = row_length_ + gap;
    if (half) {
      halves_.push_back(std::make_unique<Placed<uint16_t>>(count, misplaced(), uint16_t{0}));
      for (std::size_t i = 0; i < count; ++i) (*halves_.back())[static_cast<int64_t>(i)] = half_of(make());
      return {halves_.back()->data(), Element::bfloat16, static_cast<std::size_t>(elements_), stride};
    }
    floats_.push_back(std::make_unique<Placed<float>>(count, misplaced(), 0.0f));
    for (std::size_t i = 0; i < count; ++i) (*floats_.back())[static_cast<int64_t>(i)] = make();
    return {floats_.back()->data(), Element::float32, static_cast<std::size_t>(elements_), stride};
  }
  bool half() { return shape_.half.value_or(chance(0.3f)); }
  FloatView numbers(float scale) {
    return array(half(), [&] { return scale * normal(); });
  }
  // Numbers in [0, 1], including ones and zeros.
  FloatView factors() {
    return array(half(), [&] {
      return chance(0.2f) ? 1.0f : chance(0.02f) ? 0.0f : 1 - 0.2f * std::fabs(normal()) / 5;
    });
  }
  FlagView flags(float share) {
    const int64_t gap = shape_.aligned ? 0 : static_cast<int64_t>(random_() % 4);
    flags_.push_back(std::make_unique<Placed<uint8_t>>(size(gap), misplaced(), uint8_t{0}));
    auto& flag = *flags_.back();
    for (std::size_t i = 0; i < flag.size(); ++i)
      flag[static_cast<int64_t>(i)] = chance(share) ? 1 + random_() % 255 : 0;
    return {flag.data(), static_cast<std::size_t>(elements_), row_length_ + gap};
  }

  void add_options(bool values, bool vtrace) {
    if (chance(0.5f)) task.terminated = flags(shape_.ends);
    if (chance(0.5f)) task.truncated = flags(shape_.ends);
    if (chance(0.6f)) task.mask = flags(1 - shape_.holes);
    if (task.mask.data && chance(0.5f)) blank();
    if (values && (vtrace || chance(0.4f))) task.next = numbers(1);
    if (chance(0.4f)) task.gammas = factors();
    if (values && chance(0.4f)) task.lambdas = factors();
    task.cut_is_end = chance(0.3f);
    if (!vtrace) {
      task.skip = chance(0.6f);
      task.carry_outside = task.mask.data && chance(0.4f);
    }
  }
  // Masks long runs of steps: whole tiles, and the ends of sequences.
  void blank() {
    for (int64_t b = 0; b < task.sequences; ++b) {
      const int64_t n = length(b);
      if (n == 0) continue;
      const auto from = static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
      const int64_t to =
          chance(0.4f) ? n : std::min(n, from + static_cast<int64_t>(random_() % static_cast<uint64_t>(n)));
      for (int64_t t = from; t < to; ++t) const_cast<uint8_t*>(task.mask.data)[place(task.mask.stride, b, t)] = 0;
    }
  }

  static uint16_t half_of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return static_cast<uint16_t>(bits >> 16);
  }
  void put(const FloatView& view, int64_t at, float x) {
    if (view.data == nullptr) return;
    if (view.element == Element::float32) {
      static_cast<float*>(const_cast<void*>(view.data))[at] = x;
    } else {
      static_cast<uint16_t*>(const_cast<void*>(view.data))[at] = half_of(x);
    }
  }
  // Writes NaN where nothing may be read: at masked steps, and to the next value of a terminal one.
  void plant_nan() {
    if (shape_.plain || task.carry_outside) return;
    for (int64_t b = 0; b < task.sequences; ++b)
      for (int64_t t = 0; t < length(b); ++t) {
        const bool masked = task.mask.data && !task.mask.data[place(task.mask.stride, b, t)];
        if (masked)
          for (const FloatView* view : {&task.reward, &task.value, &task.gammas, &task.lambdas, &task.log_rho})
            put(*view, place(view->stride, b, t), kNaN);
        const bool terminal = task.terminated.data && task.terminated.data[place(task.terminated.stride, b, t)];
        if ((masked || terminal) && t + 1 < length(b)) put(task.next, place(task.next.stride, b, t), kNaN);
      }
  }

  Shape shape_;
  std::mt19937_64 random_;
  int64_t row_length_ = 0, row_count_ = 0, elements_ = 0;
  std::vector<int64_t> offsets_;
  std::vector<float> bootstrap_;
  std::vector<std::unique_ptr<Placed<float>>> floats_, outputs_;
  std::vector<std::unique_ptr<Placed<uint16_t>>> halves_;
  std::vector<std::unique_ptr<Placed<uint8_t>>> flags_;
};

double number_at(const FloatView& view, int64_t at) {
  if (view.element == Element::float32) return static_cast<const float*>(view.data)[at];
  return cuda::float_of_bfloat16(static_cast<const uint16_t*>(view.data)[at]);
}

struct Results {
  std::vector<double> first, second;
  double largest = 0;
};

// One sequence by the equations, from its last step to its first. Derived from
// docs/algorithms/advantages.md, not from the kernels.
void oracle(const Case& c, ScanRule rule, int64_t b, Results& out) {
  const ScanTask& k = c.task;
  const bool values = rule != ScanRule::reward_to_go, vtrace = rule == ScanRule::vtrace;
  const int64_t n = c.length(b);
  const auto number = [&](const FloatView& view, int64_t t, double otherwise) {
    return view.data ? number_at(view, c.place(view.stride, b, t)) : otherwise;
  };
  const auto flag = [&](const FlagView& view, int64_t t) { return view.data && view.data[c.place(view.stride, b, t)]; };
  if (n == 0) return;
  double beyond = k.bootstrap.empty() ? 0 : k.bootstrap[static_cast<std::size_t>(b)];
  if (k.bootstrap.empty() && vtrace) beyond = number(k.next, n - 1, 0);
  double sum = values ? 0 : beyond, value = beyond;  // S of the step after, V of the next unmasked step
  bool later_live = true;
  std::vector<double> first(static_cast<std::size_t>(n)), second(first);
  for (int64_t t = n - 1; t >= 0; --t) {
    const auto i = static_cast<std::size_t>(t);
    const bool live = !k.mask.data || flag(k.mask, t);
    const double r = number(k.reward, t, 0), v = number(k.value, t, 0);
    const double gamma = number(k.gammas, t, k.gamma), lambda = number(k.lambdas, t, k.lambda);
    const bool cut = flag(k.truncated, t);
    const bool end = flag(k.terminated, t) || (cut && k.cut_is_end) || gamma == 0;
    double next = value;
    if (k.next.data && (!vtrace || cut || flag(k.terminated, t) || !later_live)) next = number(k.next, t, 0);
    if (end) next = 0;
    const double after = end || cut ? 0 : sum;
    double s = 0, a = 0, g = 0;
    if (vtrace) {
      const double rho = std::exp(std::min(20.0, std::max(-20.0, number(k.log_rho, t, 0))));
      const double delta = std::min<double>(k.rho_bar, rho) * (r + gamma * next - v);
      s = delta + gamma * lambda * std::min<double>(k.c_bar, rho) * after;
      a = r + gamma * (next + (k.rlax_mix ? lambda : 1) * after) - v;
      if (k.multiply_pg_rho) a *= std::min<double>(k.pg_rho_bar, rho);
      g = a;
      a = v + s;
    } else if (values) {
      s = r + gamma * next - v + gamma * lambda * after;
      a = s;
      g = s + v;
    } else {
      s = r + gamma * after;
      g = s;
    }
    if (!live) {
      const double carried = k.skip ? sum : 0;
      a = k.carry_outside ? carried : 0;
      g = !k.carry_outside ? 0 : values ? carried + v : k.skip ? carried : s;
      s = carried;
    }
    first[i] = a;
    second[i] = g;
    sum = s;
    if (live) value = v;
    if (!live && !k.skip) value = 0;
    later_live = live;
    out.largest = std::max({out.largest, std::fabs(a), std::fabs(g)});
  }
  out.first.insert(out.first.end(), first.begin(), first.end());
  out.second.insert(out.second.end(), second.begin(), second.end());
}

// Runs the planned kernel in the emulation.
void emulate(ScanRule rule, const cuda::ScanPlan& plan, const cuda::DeviceScan& k, uint64_t seed, int resident) {
  const auto kernel =
      cuda::choose_kernel(rule, plan.mode, [&]<class Rule, cuda::StepMode kMode>() -> test::EmulatedKernel {
        if constexpr (!cuda::kSkips<kMode>) {
          if (plan.kind == ScanKind::warp_rows)
            return [&k](EmulatedThread& t, unsigned char*) { cuda::scan_warp_row<Rule, kMode>(t, k); };
          if (plan.kind == ScanKind::columns)
            return [&k](EmulatedThread& t, unsigned char*) { cuda::scan_column<Rule, kMode>(t, k); };
        }
        if (plan.kind == ScanKind::row_tiles)
          return [&k](EmulatedThread& t, unsigned char* shared) { cuda::scan_row_tile<Rule, kMode>(t, k, shared); };
        return [&k](EmulatedThread& t, unsigned char* shared) { cuda::scan_column_tile<Rule, kMode>(t, k, shared); };
      });
  test::EmulatedGrid(plan.threads, plan.shared_bytes, seed).run(kernel, plan.blocks, resident);
}

// The complete run_scan_on_gpu(), with the emulation instead of CUDA.
cuda::ScanPlan run_emulated(const Shape& shape, ScanTask task, uint64_t seed) {
  REQUIRE(check_scan(shape.rule, task) > 0);
  const cuda::ScanPlan plan = cuda::plan_scan(shape.rule, task, shape.kind);
  std::vector<unsigned char> memory(static_cast<std::size_t>(plan.workspace_bytes) + 16, 0xa5);
  unsigned char* workspace = memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16;
  std::memset(workspace, 0, static_cast<std::size_t>(plan.cleared_bytes));
  if (!task.offsets.empty()) std::memcpy(workspace + plan.offsets_at, task.offsets.data(), task.offsets.size_bytes());
  emulate(shape.rule, plan, cuda::device_scan(shape.rule, task, plan, workspace), seed, shape.resident);
  return plan;
}

// The largest difference between an output and the expected values; NaN counts as infinite.
double difference(const Case& c, const OutputView& out, const std::vector<double>& want) {
  double largest = 0;
  std::size_t i = 0;
  for (int64_t b = 0; b < c.task.sequences; ++b)
    for (int64_t t = 0; t < c.length(b); ++t, ++i) {
      const double d = std::fabs(out.data[c.place(out.stride, b, t)] - want[i]);
      largest = std::max(largest, d <= 1e30 ? d : std::numeric_limits<double>::infinity());
    }
  return largest;
}

// Runs one random case of this shape; returns its plan.
cuda::ScanPlan check_case(const Shape& shape, uint64_t seed) {
  CAPTURE(static_cast<int>(shape.rule));
  CAPTURE(static_cast<int>(shape.kind));
  CAPTURE(shape.steps);
  CAPTURE(shape.sequences);
  CAPTURE(shape.packed);
  CAPTURE(shape.plain);
  CAPTURE(seed);
  Case c(shape, seed);
  Results want;
  for (int64_t b = 0; b < c.task.sequences; ++b) oracle(c, shape.rule, b, want);
  const double tolerance = 1e-5 + 2e-5 * want.largest;

  const cuda::ScanPlan plan = run_emulated(shape, c.task, seed + 1);
  CAPTURE(static_cast<int>(plan.mode));
  const bool two = c.task.first.data != nullptr;
  if (two) CHECK(difference(c, c.task.first, want.first) <= tolerance);
  CHECK(difference(c, c.task.second, want.second) <= tolerance);
  CHECK(c.touched() <= (two ? 2 : 1) * c.elements());  // gaps between rows are unchanged

  ScanTask on_cpu = c.task;
  if (two) on_cpu.first = c.output();
  on_cpu.second = c.output();
  run_scan(shape.rule, on_cpu);
  if (two) CHECK(difference(c, on_cpu.first, want.first) <= tolerance);
  CHECK(difference(c, on_cpu.second, want.second) <= tolerance);
  return plan;
}

constexpr ScanRule kRules[] = {ScanRule::gae, ScanRule::lambda_return, ScanRule::vtrace, ScanRule::reward_to_go};

// Runs `cases` random cases of every rule, with sequences of at most `steps` steps.
void check_many(Shape shape, int64_t steps, int64_t sequences, int cases) {
  std::mt19937_64 random(static_cast<uint64_t>(shape.kind) * 7919 + shape.packed);
  for (const ScanRule rule : kRules)
    for (int i = 0; i < cases; ++i) {
      shape.rule = rule;
      shape.steps = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(steps));
      shape.sequences = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(sequences));
      shape.plain = i % 4 == 0;
      shape.aligned = i % 3 == 0;
      if (i % 6 == 0) shape.half = i % 12 == 0;
      if (i % 6 == 1) shape.half.reset();
      shape.ends = i % 5 == 0 ? 0 : 0.01f * static_cast<float>(random() % 10);
      shape.holes = 0.1f * static_cast<float>(random() % 10);
      shape.gamma = i % 7 == 0 ? 1 : 0.99f;
      shape.lambda = i % 7 == 0 ? 1 : i % 7 == 1 ? 0 : 0.95f;
      shape.resident = 1 + static_cast<int>(random() % 5);
      check_case(shape, random());
    }
}

}  // namespace

TEST_CASE("cuda scan: one warp per row equals the plain loop, for all arrays and alignments") {
  check_many({.kind = ScanKind::warp_rows}, 600, 5, 60);
  check_many({.kind = ScanKind::warp_rows, .packed = true}, 300, 7, 30);
}

TEST_CASE("cuda scan: several short rows per warp equal the plain loop") {
  for (const int64_t steps : {1, 4, 8, 16, 32, 64}) check_many({.kind = ScanKind::warp_rows}, steps, 200, 24);
}

TEST_CASE("cuda scan: row tiles joined by look-back equal the plain loop") {
  check_many({.kind = ScanKind::row_tiles}, 20000, 2, 20);
  check_many({.kind = ScanKind::row_tiles, .packed = true}, 9000, 4, 8);
}

TEST_CASE("cuda scan: look-back over more row tiles than a warp visits at once") {
  // 41 tiles, none of them closed.
  for (const ScanRule rule : {ScanRule::gae, ScanRule::reward_to_go})
    check_case({.rule = rule,
                .kind = ScanKind::row_tiles,
                .steps = 41 * 4096 - 77,
                .sequences = 1,
                .plain = true,
                .gamma = 1,
                .lambda = 1,
                .resident = 40},
               5);
}

TEST_CASE("cuda scan: one thread per column equals the plain loop") {
  check_many({.kind = ScanKind::columns}, 100, 300, 60);
}

TEST_CASE("cuda scan: column tiles joined by look-back equal the plain loop") {
  check_many({.kind = ScanKind::column_tiles}, 900, 70, 40);
}

TEST_CASE("cuda scan: look-back over more column tiles than a block visits at once") {
  check_case({.kind = ScanKind::column_tiles,
              .steps = 30 * 128 + 5,
              .sequences = 33,
              .plain = true,
              .gamma = 1,
              .lambda = 1,
              .resident = 12},
             6);
}

TEST_CASE("cuda scan: lengths around the sizes of quads, warps and tiles") {
  for (const int64_t steps : {1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256, 1023, 1024, 1025})
    for (uint64_t seed = 0; seed < 6; ++seed)
      check_case(
          {.kind = ScanKind::warp_rows, .steps = steps, .sequences = 5, .plain = seed < 2, .aligned = seed % 2 == 0},
          seed);
  for (const int64_t steps : {1, 5, 127, 1024, 2045, 2047, 2048, 2049, 4093, 4094, 4095, 4096, 4097, 8192, 8193})
    for (uint64_t seed = 0; seed < 4; ++seed)
      check_case(
          {.kind = ScanKind::row_tiles, .steps = steps, .sequences = 1, .plain = seed < 2, .aligned = seed % 2 == 0},
          seed);
  for (const int64_t steps : {1, 7, 8, 9, 15, 16, 17, 127, 128, 129, 256})
    for (const int64_t sequences : {1, 31, 32, 33})
      for (uint64_t seed = 0; seed < 2; ++seed) {
        check_case({.kind = ScanKind::columns, .steps = steps, .sequences = sequences, .plain = seed == 0}, seed);
        check_case({.kind = ScanKind::column_tiles, .steps = steps, .sequences = sequences, .plain = seed == 0}, seed);
      }
}
