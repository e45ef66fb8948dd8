#pragma once
// stdout and stderr of a process that must continue when nobody reads them: a full pipe, a terminal stopped by Ctrl-S,
// a closed descriptor. Any thread. Commands whose output is their result write to std::cout, which waits for its
// reader.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// Writes texts to one descriptor, each completely or not at all. Does not change the flags of the descriptor, because
// other processes, such as the user's shell, share them.
class Output {
 public:
  explicit Output(int descriptor);  // the caller owns it
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Writes `text`, or drops it if the descriptor accepts nothing for kPatience, or at once if the text before was
  // dropped. Returns whether it was written. Dropped lines are counted, and a line with their number precedes the next
  // text that is written.
  bool write(std::string_view text);
  // The same for a picture that the next one replaces: its lines are not counted.
  bool draw(std::string_view text);
  // Why texts are dropped, once each time that this begins; empty otherwise.
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
  int unblocking_ = -1;       // the same pipe or terminal, opened again without blocking; -1 if that fails
  size_t largest_piece_ = 0;  // number of bytes that a blocking descriptor accepts at once when it is ready
  std::string rest_;          // of a text of which a part is written
  uint64_t dropped_ = 0;      // lines
  bool dropping_ = false;     // whether the last text was dropped
  int error_ = 0;             // of the last write
  std::string trouble_;
};

// stdout and stderr of this process.
Output& standard_output();
Output& standard_error();

// Prints one line on stdout or stderr, with control characters escaped, since it may contain names and paths.
void print_line(std::string_view line, Output& console = standard_output());
void print_error(std::string_view line);
// Draws a picture on stdout, without escaping. Whether it was drawn, see Output.
bool draw(std::string_view picture, Output& console = standard_output());
// Writes to stderr, without escaping.
void write_error(std::string_view text);

// The following lines are the last ones of this process: they wait for their reader, together for at most
// kClosingPatience.
void begin_closing_lines();

// Opens standard descriptors that are closed, in a way that writing to them fails, so that no other file gets their
// numbers. Call it at the start of main.
void hold_standard_descriptors();

}  // namespace troupe
