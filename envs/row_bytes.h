#pragma once
// The bytes of Batched<Row>::save(): a header (magic, identity, N), then per row four numbers and the row's own
// state. Also the cold paths of Batched<>, kept out of the template.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct SlotNumbers {
  uint64_t key = 0;       // of the row's random stream
  uint64_t position = 0;  // words drawn from it
  int32_t elapsed = 0;    // environment steps of the episode under way
  int32_t phase = 0;      // 0..2
};

struct SavedSlot {
  SlotNumbers numbers;
  std::string_view state;  // into the bytes given to read_slots
};

void write_header(std::string& bytes, std::string_view identity, int64_t rows);
void write_slot(std::string& bytes, const SlotNumbers& numbers);
void write_text(std::string& bytes, std::string_view text);

// All rows of what save() wrote. Throws std::runtime_error naming both sides when identity or N differ, and when the
// bytes are cut short or too many.
std::vector<SavedSlot> read_slots(std::string_view bytes, std::string_view identity, int64_t rows);
void require_state_size(const SavedSlot& slot, size_t bytes);

[[noreturn]] void throw_bad_choice(size_t dimension, int32_t choice, int32_t bins);
[[noreturn]] void throw_masked_choice(size_t dimension, int32_t choice);
[[noreturn]] void throw_not_finite_action(size_t dimension, float value);
[[noreturn]] void throw_not_finite_reward(float value);

}  // namespace troupe
