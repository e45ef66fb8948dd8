#include "tools/cli/this_command.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string_view>

namespace troupe {

std::string shell_line(const std::vector<std::string>& words) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_@%+=:,./-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && std::ranges::all_of(word, is_plain)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

std::string this_command() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return shell_line(words);
}

}  // namespace troupe
