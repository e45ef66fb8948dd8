// text_ids bpe TOKENIZER_JSON < TEXT: the ids of the text, one a line.
// text_ids char ALPHABET FOLDER < TEXT: the same with a CharTokenizer; writes its files into the folder.
// text_ids decode TOKENIZER_JSON < IDS: the text of the ids.
// tests/python/tokenizers_test.py compares the results with those of the package `tokenizers`.

#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "text/make_tokenizer.h"
#include "text/write_tokenizer.h"

using namespace troupe;

namespace {

std::string standard_input() { return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()}; }

void print_ids(const Tokenizer& tokenizer) {
  std::string lines;
  for (const int32_t id : tokenizer.encode(standard_input())) lines += std::to_string(id) + '\n';
  std::cout << lines;
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3 && arguments[0] == "char") {
    const CharTokenizer tokenizer(arguments[1]);
    write_tokenizer_json(tokenizer, posix_disk(), arguments[2]);
    return print_ids(tokenizer);
  }
  if (arguments.size() != 2) throw std::runtime_error("expected bpe FILE, decode FILE or char ALPHABET FOLDER");
  TokenizerConfig config;
  config.kind = "bpe";
  config.path = arguments[1];
  const auto tokenizer = make_tokenizer(config);
  if (arguments[0] == "bpe") return print_ids(*tokenizer);
  std::vector<int32_t> ids;
  for (int32_t id = 0; std::cin >> id;) ids.push_back(id);
  std::cout << tokenizer->decode(ids);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run({arguments + 1, arguments + count});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
