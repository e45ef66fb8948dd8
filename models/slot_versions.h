#pragma once
// SlotVersions: which weights made the keys and values in the slots of a generator. Plain values; one thread.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/generator.h"
#include "runtime/base/version.h"

namespace troupe {

class SlotVersions {
 public:
  SlotVersions(int64_t prompt_slots, int64_t answer_slots)
      : prompts_(static_cast<size_t>(prompt_slots)), answers_(static_cast<size_t>(answer_slots)) {}

  // Notes that weights of this version have computed a part, and returns the versions of all cells from which the token
  // after it is drawn: those of the prompt, and of the answer's tokens.
  CellVersions note(const GeneratorPart& part, PolicyVersion version) {
    CellVersions& prompt = prompts_.at(static_cast<size_t>(part.prompt));
    CellVersions& own = part.answer < 0 ? prompt : answers_.at(static_cast<size_t>(part.answer));
    const CellVersions made{version, version};
    own = part.before == 0 ? made : both(own, made);
    return part.answer < 0 ? own : both(prompt, own);
  }

 private:
  static CellVersions both(const CellVersions& a, const CellVersions& b) {
    return {std::min(a.oldest, b.oldest), std::max(a.newest, b.newest)};
  }

  std::vector<CellVersions> prompts_, answers_;
};

}  // namespace troupe
