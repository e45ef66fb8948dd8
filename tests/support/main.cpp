// The main function of all test programs. A run without a test case fails: its filter names a file that is gone.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

namespace {

int cases_run = 0;

struct CountCases : doctest::IReporter {
  explicit CountCases(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    cases_run = static_cast<int>(stats.numTestCasesPassingFilters);
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("count_cases", 1, CountCases);

double seconds_of(const rusage& used) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Of this process and its children.
double processor_seconds() {
  rusage own{}, children{};
  getrusage(RUSAGE_SELF, &own);
  getrusage(RUSAGE_CHILDREN, &children);
  return seconds_of(own) + seconds_of(children);
}

}  // namespace

int main(int count, char** arguments) {
  constexpr double kLong = 5.0;  // seconds
  const auto begun = std::chrono::steady_clock::now();
  doctest::Context context(count, arguments);
  const int code = context.run();
  if (context.shouldExit()) return code;  // after a query such as --list-test-cases
  if (cases_run == 0) {
    std::fprintf(stderr, "no test case was run\n");
    return 1;
  }
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (wall > kLong) std::printf("wall %.1f s, processor %.1f s (children included)\n", wall, processor_seconds());
  return code;
}
