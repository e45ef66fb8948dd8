#pragma once
// Tokenizer: texts to token ids and back. Tokenizers are created by make_tokenizer() (text/make_tokenizer.h). They
// never change after that, so that one tokenizer can serve all threads of a process.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Whether decode() writes special tokens, such as the end of a sequence, or leaves them out.
enum class SpecialTokens : uint8_t { keep, skip };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of a text in UTF-8, without a token before or after it. Special tokens that are written out in the text
  // become their ids. Throws ConfigError "text: ..." for a text that is not UTF-8 or that the tokenizer cannot
  // represent.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // The text of the ids, always UTF-8: bytes that are not become U+FFFD. An id without a token gives nothing, because
  // the vocabulary of a model can be larger than that of its tokenizer.
  virtual std::string decode(std::span<const int32_t> ids, SpecialTokens special = SpecialTokens::keep) const = 0;

  // The largest id plus one.
  virtual int32_t vocabulary_size() const = 0;

  // The id of exactly this token. For the tokens of a byte-level vocabulary, `token` is their text ("the", " the").
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;

  // The tokens that begin a text, end an answer and fill a batch; nullopt if there is no such token.
  virtual std::optional<int32_t> bos() const = 0;
  virtual std::optional<int32_t> eos() const = 0;
  virtual std::optional<int32_t> pad() const = 0;

  // Whether a prompt begins with bos(), according to the tokenizer's file.
  virtual bool prompts_begin_with_bos() const = 0;

  // XXH3 of what makes the ids of a text: the alphabet, or the tokenizer.json. Equal on every machine.
  virtual uint64_t hash() const = 0;

  // The ids of a whole prompt: encode(), after bos() if prompts_begin_with_bos(). Throws like encode().
  std::vector<int32_t> encode_prompt(std::string_view text) const;
};

}  // namespace troupe
