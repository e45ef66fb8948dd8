#pragma once
// Tokens that are found in a text before anything else splits it: special tokens such as "<|im_end|>", and other added
// tokens of a tokenizer.json. Constant after construction; any thread.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct AddedToken {
  std::string content;  // not empty
  int32_t id = 0;
  bool special = false;     // left out by decode() with SpecialTokens::skip
  bool normalized = false;  // looked for after the text was normalised
};

// A part of a text: a token, or text between tokens.
struct TextPart {
  std::string_view text;
  int32_t id = -1;  // -1: text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  // The parts of the text in order, none empty. Where several tokens match, the first in the text counts, and of those
  // at one place the longest.
  std::vector<TextPart> split(std::string_view text) const;

 private:
  struct Entry {
    std::string content;
    int32_t id;
  };
  // The longest token at this place, or nullptr.
  const Entry* match(std::string_view rest) const;

  std::array<std::vector<Entry>, 256> by_first_byte_;  // longest first
};

}  // namespace troupe
