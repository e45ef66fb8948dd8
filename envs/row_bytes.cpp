#include "envs/row_bytes.h"

#include <cstring>
#include <stdexcept>

namespace troupe {

namespace {

constexpr std::string_view kMagic = "troupe-env-1";

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::string_view take(uint64_t count) {
    if (count > rest_.size())
      throw std::runtime_error("the saved environment state is too short: " + std::to_string(count) +
                               " bytes needed, " + std::to_string(rest_.size()) + " left");
    const std::string_view part = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return part;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string_view text() { return take(number<uint64_t>()); }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

}  // namespace

void write_text(std::string& bytes, std::string_view text) {
  append(bytes, static_cast<uint64_t>(text.size()));
  bytes.append(text);
}

void write_header(std::string& bytes, std::string_view identity, int64_t rows) {
  bytes.append(kMagic);
  write_text(bytes, identity);
  append(bytes, rows);
}

void write_slot(std::string& bytes, const SlotNumbers& numbers) {
  append(bytes, numbers.key);
  append(bytes, numbers.position);
  append(bytes, numbers.elapsed);
  append(bytes, numbers.phase);
}

std::vector<SavedSlot> read_slots(std::string_view bytes, std::string_view identity, int64_t rows) {
  Reader reader(bytes);
  if (bytes.substr(0, kMagic.size()) != kMagic) throw std::runtime_error("not a saved environment state");
  reader.take(kMagic.size());
  const std::string_view saved_identity = reader.text();
  if (saved_identity != identity)
    throw std::runtime_error("the saved state belongs to " + std::string(saved_identity) + ", this environment is " +
                             std::string(identity));
  const int64_t saved_rows = reader.number<int64_t>();
  if (saved_rows != rows)
    throw std::runtime_error("the saved state has " + std::to_string(saved_rows) + " rows, this environment has " +
                             std::to_string(rows));
  std::vector<SavedSlot> slots(static_cast<size_t>(rows));
  for (SavedSlot& slot : slots) {
    slot.numbers.key = reader.number<uint64_t>();
    slot.numbers.position = reader.number<uint64_t>();
    slot.numbers.elapsed = reader.number<int32_t>();
    slot.numbers.phase = reader.number<int32_t>();
    if (slot.numbers.elapsed < 0 || slot.numbers.phase < 0 || slot.numbers.phase > 5)
      throw std::runtime_error("the saved environment state is damaged");
    slot.state = reader.text();
  }
  if (reader.left() > 0)
    throw std::runtime_error("the saved environment state has " + std::to_string(reader.left()) + " extra bytes");
  return slots;
}

void require_state_size(const SavedSlot& slot, size_t bytes) {
  if (slot.state.size() != bytes)
    throw std::runtime_error("the saved state of a row has " + std::to_string(slot.state.size()) +
                             " bytes, but this program expects " + std::to_string(bytes));
}

void throw_bad_choice(size_t dimension, int32_t choice, int32_t bins) {
  throw std::runtime_error("action " + std::to_string(choice) + " in dimension " + std::to_string(dimension) +
                           " is not in 0.." + std::to_string(bins - 1));
}

void throw_masked_choice(size_t dimension, int32_t choice) {
  throw std::runtime_error("action " + std::to_string(choice) + " in dimension " + std::to_string(dimension) +
                           " is masked out in this state");
}

void throw_not_finite_action(size_t dimension, float value) {
  throw std::runtime_error("action " + std::to_string(value) + " in dimension " + std::to_string(dimension) +
                           " is not finite");
}

void throw_not_finite_reward(float value) {
  throw std::runtime_error("reward " + std::to_string(value) + " is not finite");
}

}  // namespace troupe
