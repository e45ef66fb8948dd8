#pragma once
// The format of Batched<Row>::save(): a header (magic, identity, N), then for each row four numbers and the row's
// state. Also contains rarely executed code of Batched<>, which does not need to be in the template.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct SlotNumbers {
  uint64_t key = 0;       // key of the row's random stream
  uint64_t position = 0;  // number of words drawn from it
  int32_t elapsed = 0;    // environment steps in the current episode
  int32_t phase = 0;      // 0..5
};

struct SavedSlot {
  SlotNumbers numbers;
  std::string_view state;  // a view of the bytes given to read_slots()
};

void write_header(std::string& bytes, std::string_view identity, int64_t rows);
void write_slot(std::string& bytes, const SlotNumbers& numbers);
void write_text(std::string& bytes, std::string_view text);

// The rows from the bytes of save(). Throws std::runtime_error with both values when identity or N differ, and when
// there are too few or too many bytes.
std::vector<SavedSlot> read_slots(std::string_view bytes, std::string_view identity, int64_t rows);
void require_state_size(const SavedSlot& slot, size_t bytes);

[[noreturn]] void throw_bad_choice(size_t dimension, int32_t choice, int32_t bins);
[[noreturn]] void throw_masked_choice(size_t dimension, int32_t choice);
[[noreturn]] void throw_not_finite_action(size_t dimension, float value);
[[noreturn]] void throw_not_finite_reward(float value);

}  // namespace troupe
