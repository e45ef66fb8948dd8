#include "text/make_tokenizer.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "runtime/config/effects.h"
#include "text/bpe_tokenizer.h"
#include "text/char_tokenizer.h"
#include "text/chat_template.h"
#include "text/tokenizer_json.h"

namespace troupe {

namespace {

// The files of known vocabularies have up to 20 MB.
constexpr uint64_t kMaxFileBytes = 64 << 20;

std::string read_file(const std::string& path) {
  try {
    return posix_disk().read(path, kMaxFileBytes);
  } catch (const IoError& error) {
    throw ConfigError(std::string("tokenizer.path: ") + error.what());
  }
}

// Refuses settings that tokenizer.kind switches off.
void check_effects(TokenizerConfig config) {
  TokenizerConfig defaults;
  Fields fields, of_defaults;
  describe(config, fields);
  describe(defaults, of_defaults);
  require_effects(fields, of_defaults);
}

std::unique_ptr<Tokenizer> make_char(const TokenizerConfig& config) {
  check_effects(config);
  return std::make_unique<CharTokenizer>(config.alphabet);
}

// The id of a special token: the one the config names, else the one the file beside tokenizer.json names, else
// `otherwise`.
std::optional<int32_t> special_id(const BpeTokenizer& tokenizer, const std::string& setting, const std::string& name,
                                  const std::string& file, std::optional<int32_t> otherwise) {
  const bool given = !setting.empty();
  std::optional<std::string> token;
  if (given)
    token = setting;
  else if (posix_disk().exists(file))
    token = special_token_of(read_file(file), file, name + "_token");
  if (!token) return otherwise;
  const auto id = tokenizer.id_of(*token);
  const std::string path = given ? "tokenizer." + name : file + ": " + name + "_token";
  if (!id) throw ConfigError(path + ": \"" + printable(*token) + "\" is not a token of the vocabulary");
  if (otherwise && *id != *otherwise)
    throw ConfigError(path + ": \"" + printable(*token) + "\" has the id " + std::to_string(*id) +
                      ", but the post_processor of tokenizer.json puts the id " + std::to_string(*otherwise) +
                      " before a prompt, expected the same token");
  return id;
}

std::unique_ptr<Tokenizer> make_bpe(const TokenizerConfig& config) {
  check_effects(config);
  if (config.path.empty()) throw ConfigError("tokenizer.path: \"\" is empty, expected the path of a tokenizer.json");
  const std::vector<std::string> files = tokenizer_files(config);
  const std::string &file = files.front(), &beside = files.back();
  BpeDescription description = read_tokenizer_json(read_file(file), file);
  const std::vector<AddedToken> added = description.added;
  auto tokenizer = std::make_unique<BpeTokenizer>(std::move(description));
  tokenizer->set_special({.bos = special_id(*tokenizer, config.bos, "bos", beside, tokenizer->bos()),
                          .eos = special_id(*tokenizer, config.eos, "eos", beside, std::nullopt),
                          .pad = special_id(*tokenizer, config.pad, "pad", beside, std::nullopt)});
  if (posix_disk().exists(beside)) check_tokenizer_config(read_file(beside), beside, added);
  return tokenizer;
}

}  // namespace

std::vector<std::string> tokenizer_files(const TokenizerConfig& config) {
  if (config.kind == "char") return {};
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(config.path, ignored);
  const std::filesystem::path given(config.path), file = folder ? given / "tokenizer.json" : given;
  return {file.string(), (file.parent_path() / "tokenizer_config.json").string()};
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerConfig& config) {
  struct Entry {
    const char* kind;
    std::unique_ptr<Tokenizer> (*make)(const TokenizerConfig& config);
  };
  static constexpr Entry kTable[] = {{"char", make_char}, {"bpe", make_bpe}};
  for (const Entry& entry : kTable) {
    if (config.kind != entry.kind) continue;
    std::unique_ptr<Tokenizer> tokenizer = entry.make(config);
    if (chat_template_of(config.chat_template) == ChatTemplate::chatml)
      for (const char* token : {"<|im_start|>", "<|im_end|>"})
        if (!tokenizer->id_of(token))
          throw ConfigError("tokenizer.chat_template: chatml needs the token \"" + std::string(token) +
                            "\", which the vocabulary does not have, expected none");
    return tokenizer;
  }
  throw ConfigError("tokenizer.kind: \"" + printable(config.kind) + "\" is unknown, expected one of: char, bpe");
}

}  // namespace troupe
