#pragma once
// The check that a file which a flag names may be written. Plain functions; any thread.

#include <functional>
#include <string>
#include <string_view>

namespace troupe {

// What a flag writes, and how such a file is recognized.
struct OutputKind {
  std::string what;                                   // "an answers file of troupe eval"
  std::function<bool(std::string_view line)> begins;  // whether the first line is one of such a file
};

// Throws ConfigError, beginning with the flag, if `file` has contents of another kind, is a link, a device or a pipe,
// or leads to a name that runs use in the folder of a run. Says nothing about whether the file can be opened.
void require_replaceable(const std::string& flag, const std::string& file, const OutputKind& kind);

// Writes the file, or leaves the old one. Throws ConfigError, beginning with the flag, that names the file.
void write_output(const std::string& flag, const std::string& file, std::string_view bytes);

// Takes the next part of a text.
using TextSink = std::function<void(std::string_view)>;
// The same for a text that `write` makes in parts: they go into a file of another name, which replaces the old one when
// `write` returns. If it throws, the old one stays.
void write_output_in_parts(const std::string& flag, const std::string& file,
                           const std::function<void(const TextSink&)>& write);

// The lines of `troupe eval --answers-file`, which are those of answers.jsonl; the pictures of `troupe bench --plot`.
OutputKind answers_output();
OutputKind picture_output();

}  // namespace troupe
