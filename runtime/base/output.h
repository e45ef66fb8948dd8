#pragma once
// stdout and stderr of a process that must go on when nobody reads them: a full pipe, a terminal stopped by Ctrl-S, a
// closed descriptor. Any thread. Commands whose output is their result write to std::cout, which waits for its reader.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// Texts to one descriptor, each written whole or not at all. The descriptor's flags are shared with other processes, as
// the user's shell, and stay as they are.
class Output {
 public:
  explicit Output(int descriptor);  // which the caller owns
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Whether `text` is written. If the descriptor takes nothing, it waits for kPatience, but not while the text before
  // was dropped. Then `text` is dropped. Its lines are counted, and the next text that is written follows a line with
  // their number.
  bool write(std::string_view text);
  // The same for a picture that the next one replaces: nothing is counted.
  bool draw(std::string_view text);
  // Why texts are dropped, once for each time that it begins; empty otherwise.
  std::string new_trouble();

  static constexpr std::chrono::milliseconds kPatience{100};
  static constexpr std::chrono::milliseconds kClosingPatience{2000};

 private:
  using Clock = std::chrono::steady_clock;

  bool put(std::string_view text, bool counted);
  bool begin(std::string_view text, bool counted);
  bool flush();
  size_t write_some(std::string_view text);
  Clock::time_point deadline() const;
  void follow();
  void reopen(mode_t mode);

  const int descriptor_;
  dev_t device_ = 0;  // of the file that it referred to
  ino_t inode_ = 0;
  int unblocking_ = -1;       // the same pipe or terminal, opened again so that it does not block; -1 if it cannot be
  size_t largest_piece_ = 0;  // that a descriptor which blocks takes at once when it is ready
  std::string rest_;          // of a text that is written in part
  uint64_t dropped_ = 0;      // lines
  bool dropping_ = false;     // the last text was
  int error_ = 0;             // of the last write
  std::string trouble_;
};

// Those of this process.
Output& standard_output();
Output& standard_error();

// One line on stdout or stderr, with its control characters escaped: names and paths come from outside.
void print_line(std::string_view line, Output& console = standard_output());
void print_error(std::string_view line);
// A picture on stdout, as it is. Whether it is drawn, see Output.
bool draw(std::string_view picture, Output& console = standard_output());
// On stderr, as it is.
void write_error(std::string_view text);

// The lines from now on are the last ones of this process: they wait for their reader, all of them together at most
// kClosingPatience.
void begin_closing_lines();

// Makes standard descriptors that are closed refuse to be written, so that no file of ours gets their numbers. For the
// start of main.
void hold_standard_descriptors();

}  // namespace troupe
