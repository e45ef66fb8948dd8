#include "text/tokenizer_json.h"

#include <charconv>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/config/setting_json.h"
#include "runtime/weights/weights.h"
#include "text/byte_alphabet.h"
#include "text/json_node.h"
#include "text/normalizer.h"

namespace troupe {

namespace {

// The pattern of GPT-2, which a ByteLevel with use_regex applies.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

using Ids = std::unordered_map<std::string, int32_t>;

// --- model ---

std::vector<std::string> read_vocabulary(const JsonNode& node, Ids& ids) {
  const Json& json = node.object();
  std::vector<std::string> tokens(json.size());
  std::vector<bool> taken(json.size());
  ids.reserve(json.size());
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer() || id < 0 || id >= json.size())
      node.refuse('"' + printable(token) + "\" has the id " + shown_json(id) + ", expected a whole number below the " +
                  std::to_string(json.size()) + " tokens");
    const auto index = id.get<size_t>();
    if (taken[index])
      node.refuse('"' + printable(token) + "\" has the id " + std::to_string(index) + " of another token");
    taken[index] = true;
    tokens[index] = token;
    ids.emplace(token, static_cast<int32_t>(index));
  }
  return tokens;
}

// Both halves of a merge: "Ġ t" or ["Ġ", "t"].
std::pair<std::string, std::string> halves_of(const JsonNode& merge) {
  if (merge.json().is_array() && merge.json().size() == 2) return {merge.at(0).text(), merge.at(1).text()};
  if (merge.json().is_string()) {
    const std::string text = merge.text();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  merge.refuse(shown_json(merge.json()) + " is not a merge, expected \"left right\" or [\"left\", \"right\"]");
}

void read_merges(const JsonNode& node, const Ids& ids, BytePairMerges& merges) {
  const auto id_of = [&](const JsonNode& merge, const std::string& token) {
    const auto found = ids.find(token);
    if (found == ids.end())
      merge.refuse("needs the token \"" + printable(token) + "\", which model.vocab does not have");
    return found->second;
  };
  for (size_t i = 0; i < node.array().size(); ++i) {
    const JsonNode merge = node.at(i);
    const auto [left, right] = halves_of(merge);
    merges.add(id_of(merge, left), id_of(merge, right), id_of(merge, left + right));
  }
}

bool has_every_byte(const Ids& ids) {
  for (int byte = 0; byte < 256; ++byte)
    if (!ids.contains(spelling_of_bytes(std::string(1, static_cast<char>(byte))))) return false;
  return true;
}

void read_model(const JsonNode& model, Ids& ids, BpeDescription& out) {
  if (model.has("type")) model.require_type("BPE");  // the files of GPT-2 have none
  model.require_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                      "byte_fallback", "ignore_merges", "vocab", "merges"});
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.has(key) && !model.at(key).text().empty()) model.at(key).refuse_value("null");
  if (model.has("dropout") && model.at("dropout").json() != 0.0) model.at("dropout").refuse_value("null");
  for (const char* key : {"fuse_unk", "byte_fallback"}) model.require_flag(key, false);
  out.ignore_merges = model.flag("ignore_merges", false);
  out.vocabulary = read_vocabulary(model.at("vocab"), ids);
  read_merges(model.at("merges"), ids, out.merges);
  if (!model.has("unk_token")) return;
  const std::string unknown = model.at("unk_token").text();
  const auto found = ids.find(unknown);
  if (found != ids.end()) {
    out.unknown = found->second;
  } else if (!unknown.empty() || !has_every_byte(ids)) {  // GPT-2 has "", which never occurs
    model.at("unk_token").refuse_value("a token of model.vocab, or null");
  }
}

// --- normalizer, pre-tokenizer, post-processor, decoder ---

void read_normalizer(const JsonNode& root, BpeDescription& out) {
  if (!root.has("normalizer")) return;
  root.at("normalizer").require_type("NFC");
  out.nfc = true;
}

// ByteLevel ends the splitting.
void read_byte_level(const JsonNode& node, BpeDescription& out) {
  node.require_type("ByteLevel");
  node.require_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (node.flag("add_prefix_space", true)) node.refuse_key("add_prefix_space", "false");
  if (node.flag("use_regex", true)) out.patterns.emplace_back(kByteLevelPattern, node.path());
}

void read_splitter(const JsonNode& node, BpeDescription& out) {
  const std::string type = node.type();
  if (type == "Digits") {
    node.require_keys({"type", "individual_digits"});
    out.patterns.emplace_back(node.flag("individual_digits", false) ? "\\p{N}" : "\\p{N}+", node.path());
    return;
  }
  if (type != "Split") node.at("type").refuse_value("Digits, Split or ByteLevel, and ByteLevel at the end");
  node.require_keys({"type", "pattern", "behavior", "invert"});
  const JsonNode pattern = node.at("pattern");
  pattern.require_keys({"Regex"});
  node.require_flag("invert", false);
  if (node.at("behavior").text() != "Isolated") node.at("behavior").refuse_value("Isolated");
  const JsonNode regex = pattern.at("Regex");
  out.patterns.emplace_back(regex.text(), regex.path());
}

void read_pre_tokenizer(const JsonNode& node, BpeDescription& out) {
  if (node.type() != "Sequence") return read_byte_level(node, out);
  node.require_keys({"type", "pretokenizers"});
  const JsonNode list = node.at("pretokenizers");
  const size_t count = list.array().size();
  if (count == 0) list.refuse_value("a list that ends with ByteLevel");
  for (size_t i = 0; i + 1 < count; ++i) read_splitter(list.at(i), out);
  read_byte_level(list.at(count - 1), out);
}

// The token that a template puts before the text; nullopt if it adds none.
std::optional<int32_t> read_template(const JsonNode& node) {
  node.require_keys({"type", "single", "pair", "special_tokens"});
  const JsonNode single = node.at("single");
  const size_t count = single.array().size();
  const Json& parts = single.json();
  if (count == 0 || count > 2 || !parts[count - 1].is_object() || !parts[count - 1].contains("Sequence"))
    single.refuse("expected the text alone, or one special token before the text");
  if (count == 1) return std::nullopt;
  const JsonNode special = single.at(0);
  special.require_keys({"SpecialToken"});
  const JsonNode token = node.at("special_tokens").at(special.at("SpecialToken").at("id").text());
  const JsonNode ids = token.at("ids");
  if (ids.array().size() != 1) ids.refuse_value("one id");
  return ids.at(0).id();
}

void read_post_processor(const JsonNode& node, BpeDescription& out) {
  const std::string type = node.type();
  if (type == "TemplateProcessing") {
    const auto bos = read_template(node);
    if (bos && out.prompt_bos) node.refuse("a second template, expected one");
    if (bos) out.prompt_bos = bos;
  } else if (type == "Sequence") {
    const JsonNode list = node.at("processors");
    for (size_t i = 0; i < list.array().size(); ++i) read_post_processor(list.at(i), out);
  } else if (type != "ByteLevel") {  // which moves offsets only
    node.at("type").refuse_value("ByteLevel, TemplateProcessing or a Sequence of these");
  }
}

// --- added tokens ---

// Returns the largest id of all tokens plus one.
int32_t read_added_tokens(const JsonNode& list, const Ids& ids, BpeDescription& out) {
  // The id that the library would give to a token that is not in the vocabulary.
  auto next = static_cast<int32_t>(out.vocabulary.size());
  std::unordered_set<std::string> contents;
  for (size_t i = 0; i < list.array().size(); ++i) {
    const JsonNode node = list.at(i);
    node.require_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    for (const char* key : {"single_word", "lstrip", "rstrip"}) node.require_flag(key, false);
    AddedToken token{.content = node.at("content").text(),
                     .id = node.at("id").id(),
                     .special = node.flag("special", false),
                     .normalized = node.flag("normalized", true)};
    if (token.content.empty()) node.at("content").refuse_value("a text");
    const auto known = ids.find(token.content);
    const int32_t right = known != ids.end() ? known->second : next;
    if (token.id != right) node.at("id").refuse_value(std::to_string(right));
    if (token.normalized && out.nfc && nfc(token.content) != token.content)
      node.at("content").refuse_value("a text in normalisation form C, or normalized: false");
    if (!contents.insert(token.content).second) node.at("content").refuse_value("each token once");
    next = std::max(next, token.id + 1);
    out.added.push_back(std::move(token));
  }
  return next;
}

}  // namespace

BpeDescription read_tokenizer_json(std::string_view json, const std::string& path) {
  const Json tree = parse_strict(json, path);
  const JsonNode root(tree, path, "");
  root.require_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                     "post_processor", "decoder", "model"});
  for (const char* key : {"truncation", "padding"})
    if (root.has(key)) root.at(key).refuse_value("null");
  if (root.has("version") && root.at("version").text() != "1.0") root.at("version").refuse_value("\"1.0\"");
  BpeDescription out;
  out.hash = checksum_of(json.data(), json.size());
  Ids ids;
  read_model(root.at("model"), ids, out);
  read_normalizer(root, out);
  read_pre_tokenizer(root.at("pre_tokenizer"), out);
  auto size = static_cast<int32_t>(out.vocabulary.size());
  if (root.has("added_tokens")) size = read_added_tokens(root.at("added_tokens"), ids, out);
  if (root.has("post_processor")) read_post_processor(root.at("post_processor"), out);
  root.at("decoder").require_type("ByteLevel");
  if (out.prompt_bos && *out.prompt_bos >= size)
    root.at("post_processor")
        .refuse("adds the id " + std::to_string(*out.prompt_bos) + ", expected an id below " + std::to_string(size));
  return out;
}

namespace {

// An added token as tokenizer_config.json writes it must be that of tokenizer.json.
void check_added(const JsonNode& node, int32_t id, const std::vector<AddedToken>& added) {
  const std::string content = node.at("content").text();
  const auto same = [&](const AddedToken& token) { return token.content == content && token.id == id; };
  const auto found = std::ranges::find_if(added, same);
  if (found == added.end())
    node.refuse("the token \"" + printable(content) + "\" with the id " + std::to_string(id) +
                " is not one of the added_tokens of tokenizer.json");
  for (const char* key : {"single_word", "lstrip", "rstrip"}) node.require_flag(key, false);
  for (const auto& [key, value] : {std::pair{"normalized", found->normalized}, std::pair{"special", found->special}})
    if (node.has(key)) node.require_flag(key, value);
}

// transformers adds a special token that tokenizer.json does not list, and finds it in texts then.
void check_special(const JsonNode& node, const std::vector<AddedToken>& added) {
  const std::string content = node.json().is_object() ? node.at("content").text() : node.text();
  if (std::ranges::find(added, content, &AddedToken::content) == added.end())
    node.refuse('"' + printable(content) + "\" is not one of the added_tokens of tokenizer.json");
}

}  // namespace

void check_tokenizer_config(std::string_view json, const std::string& path, const std::vector<AddedToken>& added) {
  const Json tree = parse_strict(json, path);
  const JsonNode root(tree, path, "");
  for (const char* key : {"add_prefix_space", "split_special_tokens"}) root.require_flag(key, false);
  if (root.has("added_tokens_decoder"))
    for (const auto& [id, token] : root.at("added_tokens_decoder").object().items()) {
      const JsonNode node = root.at("added_tokens_decoder").at(id);
      int32_t number = -1;
      const auto read = std::from_chars(id.data(), id.data() + id.size(), number);
      if (read.ec != std::errc() || read.ptr != id.data() + id.size()) node.refuse("the key is not an id");
      check_added(node, number, added);
    }
  for (const char* name : {"bos", "eos", "unk", "sep", "pad", "cls", "mask"})
    if (const std::string key = std::string(name) + "_token"; root.has(key)) check_special(root.at(key), added);
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!root.has(key)) continue;
    const JsonNode list = root.at(key);
    if (list.json().is_object())
      for (const auto& [name, token] : list.json().items()) check_special(list.at(name), added);
    else
      for (size_t i = 0; i < list.array().size(); ++i) check_special(list.at(i), added);
  }
}

std::optional<std::string> special_token_of(std::string_view json, const std::string& path, const std::string& key) {
  const Json tree = parse_strict(json, path);
  const JsonNode root(tree, path, "");
  if (!root.has(key)) return std::nullopt;
  const JsonNode token = root.at(key);
  return token.json().is_object() ? token.at("content").text() : token.text();
}

}  // namespace troupe
