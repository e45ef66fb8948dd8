// text_ids encode TOKENIZER_JSON < TEXTS: the ids of each text, one line for each.
// text_ids decode TOKENIZER_JSON < LINES: the text of each line of ids.
// text_ids char ALPHABET FOLDER < TEXTS: like encode with a CharTokenizer, whose files it writes into the folder.
// Texts are separated by the character U+001E. tests/python/peers_tokenizers_test.py compares the results with those of
// the package `tokenizers`.

#include <exception>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "text/make_tokenizer.h"
#include "text/write_tokenizer.h"

using namespace troupe;

namespace {

constexpr char kSeparator = '\x1e';

std::vector<std::string> parts_of_input(char separator) {
  std::vector<std::string> parts;
  for (std::string part; std::getline(std::cin, part, separator);) parts.push_back(std::move(part));
  return parts;
}

void encode(const Tokenizer& tokenizer) {
  for (const std::string& text : parts_of_input(kSeparator)) {
    std::string line;
    for (const int32_t id : tokenizer.encode(text)) line += (line.empty() ? "" : " ") + std::to_string(id);
    std::cout << line << '\n';
  }
}

void decode(const Tokenizer& tokenizer) {
  for (const std::string& line : parts_of_input('\n')) {
    std::istringstream numbers(line);
    const std::vector<int32_t> ids{std::istream_iterator<int32_t>(numbers), {}};
    std::cout << tokenizer.decode(ids) << kSeparator;
  }
}

void run(const std::vector<std::string>& arguments) {
  const std::string mode = arguments.empty() ? "" : arguments[0];
  if (mode == "char" && arguments.size() == 3) {
    const CharTokenizer tokenizer(arguments[1]);
    write_tokenizer_json(tokenizer, posix_disk(), arguments[2]);
    return encode(tokenizer);
  }
  if ((mode != "encode" && mode != "decode") || arguments.size() != 2)
    throw std::runtime_error("expected encode FILE, decode FILE or char ALPHABET FOLDER");
  TokenizerConfig config;
  config.kind = "bpe";
  config.path = arguments[1];
  const auto tokenizer = make_tokenizer(config);
  return mode == "encode" ? encode(*tokenizer) : decode(*tokenizer);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    std::ios::sync_with_stdio(false);
    run({arguments + 1, arguments + count});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
