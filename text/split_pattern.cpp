#include "text/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <new>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

// Of one match; by default PCRE2 takes up to 20 GB.
constexpr uint32_t kMaxHeapKilobytes = 256 << 10;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct MatchData {
  pcre2_match_data* data;
  explicit MatchData(const pcre2_code* code) : data(pcre2_match_data_create_from_pattern(code, nullptr)) {
    if (data == nullptr) throw std::bad_alloc();
  }
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  ~MatchData() { pcre2_match_data_free(data); }
};

}  // namespace

struct SplitPattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = pcre2_match_context_create(nullptr);
  Code() {
    if (limits == nullptr) throw std::bad_alloc();
    pcre2_set_heap_limit(limits, kMaxHeapKilobytes);
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }

  // PCRE2's result for the first match from byte `begin`.
  int match(std::string_view text, size_t begin, pcre2_match_data* data) const {
    // The caller has checked that the text is UTF-8; checking it again for each match would take quadratic time.
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const auto run = [&](uint32_t options) {
      return pcre2_match(code, subject, text.size(), begin, PCRE2_NO_UTF_CHECK | options, data, limits);
    };
    const int found = run(0);
    return found == PCRE2_ERROR_JIT_STACKLIMIT ? run(PCRE2_NO_JIT) : found;
  }
};

SplitPattern::SplitPattern(std::string_view regex, const std::string& path) : code_(std::make_unique<Code>()) {
  const std::string pattern = portable_pattern(regex, path);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                              &error, &at, nullptr);
  if (code_->code == nullptr)
    throw ConfigError(path + ": \"" + printable(regex, 200) + "\" is not a regular expression: " + message_of(error));
  uint32_t matches_empty = 0;
  pcre2_pattern_info(code_->code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0)
    throw ConfigError(path + ": \"" + printable(regex, 200) + "\" matches an empty text, expected one that does not");
  // Without the compiler for this machine, PCRE2 interprets the pattern: slower, the same matches.
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);
}

SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

void SplitPattern::split(std::string_view text, std::vector<std::string_view>& words) const {
  const MatchData match(code_->code);
  size_t begin = 0;  // of what no word contains yet
  while (begin < text.size()) {
    const int found = code_->match(text, begin, match.data);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      throw ConfigError("text: " + std::to_string(text.size()) + " bytes from \"" + printable(text) +
                        "\" cannot be split into words: " + message_of(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.data);
    if (range[0] > begin) words.push_back(text.substr(begin, range[0] - begin));
    words.push_back(text.substr(range[0], range[1] - range[0]));
    begin = range[1];
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
}

}  // namespace troupe
