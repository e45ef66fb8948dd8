#include "text/same_tokenizer.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/weights/weights.h"
#include "text/make_tokenizer.h"
#include "text/write_tokenizer.h"

namespace troupe {

namespace {

constexpr uint64_t kMostBytes = 64 << 20;  // as for tokenizer.path

std::string read(const Disk& disk, const std::string& path, const std::string& setting) {
  try {
    return disk.read(path, kMostBytes);
  } catch (const IoError& error) {
    throw ConfigError(setting + ": " + error.what() + "; it must be the tokenizer of the policy");
  }
}

// What a tokenizer.json says of ids, keys sorted.
nlohmann::json parts_of(const std::string& text, const std::string& source) {
  const nlohmann::json file = parse_strict(text, source);
  nlohmann::json parts;
  for (const char* key : {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model"})
    parts[key] = file.is_object() ? file.value(key, nlohmann::json()) : nlohmann::json();
  return parts;
}

// "93 tokens (hash 0123456789abcdef)"
std::string summary_of(const nlohmann::json& parts) {
  std::set<std::string> tokens;
  if (parts["model"].is_object() && parts["model"].contains("vocab") && parts["model"]["vocab"].is_object())
    for (const auto& [token, id] : parts["model"]["vocab"].items()) tokens.insert(token);
  if (parts["added_tokens"].is_array())
    for (const nlohmann::json& token : parts["added_tokens"])
      if (token.is_object() && token.contains("content") && token["content"].is_string())
        tokens.insert(token["content"].get<std::string>());
  const std::string text = parts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return std::to_string(tokens.size()) + " tokens (hash " + format_hash(checksum_of(text.data(), text.size())) + ')';
}

}  // namespace

std::optional<std::string> tokenizer_difference(const Disk& disk, const Tokenizer& tokenizer,
                                                const TokenizerConfig& config, const std::string& folder,
                                                const std::string& setting) {
  const std::string path = folder + "/tokenizer.json";
  const nlohmann::json other = parts_of(read(disk, path, setting), setting + ": " + printable(path, 200));
  std::vector<std::string> own;  // in each way in which it may be written
  if (const auto* chars = dynamic_cast<const CharTokenizer*>(&tokenizer))
    own = {tokenizer_json(*chars), tokenizer_json(*chars, CharacterTokens::added)};
  else
    own = {read(disk, tokenizer_files(config).front(), "tokenizer.path")};
  std::string wanted;
  for (const std::string& text : own) {
    const nlohmann::json parts = parts_of(text, "tokenizer.path");
    if (parts == other) return std::nullopt;
    if (wanted.empty()) wanted = summary_of(parts);
  }
  return printable(path, 200) + " has " + summary_of(other) + ", the tokenizer of the policy " + wanted;
}

}  // namespace troupe
