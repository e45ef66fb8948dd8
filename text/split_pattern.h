#pragma once
// SplitPattern: a regular expression that splits text into words before byte pair encoding. Hugging Face's tokenizers
// use Oniguruma for these expressions, here PCRE2 (https://www.pcre.org) does. Only the part of their syntax that means
// the same in both is accepted. Constant after construction; any thread.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// The expression as PCRE2 has to read it. `\s` becomes the list of the characters that Unicode calls white space,
// because PCRE2 adds one. Accepted are: literals, escaped punctuation, \r \n \t \s \S, \p{X} and \P{X} with a general
// category (Cn, C, Cs and Co excepted), character classes of these, groups, (?i: with literals only, (?: (?= (?! , |,
// and the quantifiers ? * + {m} {m,} {m,n}, the first three also possessive. Throws ConfigError "PATH: ..." for
// anything else.
std::string portable_pattern(std::string_view regex, const std::string& path);

class SplitPattern {
 public:
  // Throws ConfigError "PATH: ..." for an expression that portable_pattern() refuses, that is wrong, or that matches an
  // empty text.
  SplitPattern(std::string_view regex, const std::string& path);
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  // Appends the words of a text in UTF-8: each match, and each text between matches. Throws ConfigError "text: ..."
  // when a match takes more steps or memory than the limits of PCRE2, or more than 256 MB.
  void split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace troupe
