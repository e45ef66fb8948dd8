#pragma once
// A small tokenizer.json with all 256 bytes and a few merges, as a tree that tests change.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/bpe_tokenizer.h"
#include "text/byte_alphabet.h"

namespace troupe::test {

using Tree = nlohmann::ordered_json;

// Ids: 0 to 255 are the bytes, then the merged tokens in the order of `merges`, then "<|im_start|>", "<|im_end|>".
inline Tree small_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges = {
                                {"l", "o"}, {"lo", "w"}, {"e", "r"}, {" ", "low"}, {"low", "er"}}) {
  Tree vocabulary = Tree::object(), list = Tree::array();
  for (int byte = 0; byte < 256; ++byte) vocabulary[spelling_of_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  for (const auto& [left, right] : merges) {
    vocabulary[spelling_of_bytes(left + right)] = vocabulary.size();
    list.push_back({spelling_of_bytes(left), spelling_of_bytes(right)});
  }
  const int first = static_cast<int>(vocabulary.size());
  const auto added = [](int id, const char* content) {
    return Tree{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {added(first, "<|im_start|>"), added(first + 1, "<|im_end|>")}},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocabulary},
            {"merges", list}}}};
}

inline BpeTokenizer tokenizer_of(const Tree& tree) { return BpeTokenizer(read_tokenizer_json(tree.dump(), "t.json")); }

// The text of each id.
inline std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> pieces;
  for (const int32_t id : tokenizer.encode(text)) pieces.push_back(tokenizer.decode(std::vector<int32_t>{id}));
  return pieces;
}

}  // namespace troupe::test
