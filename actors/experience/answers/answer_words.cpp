#include "actors/experience/answers/answer_words.h"

#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"

namespace troupe {

std::string unscored_answers_text(uint64_t unscored, uint64_t ended, const std::string& last_error) {
  return format_count(unscored) + " of " + format_counted(ended, "answer") + (unscored == 1 ? " has" : " have") +
         " no score from the verifier and " + (unscored == 1 ? "does" : "do") + " not count" +
         (last_error.empty() ? "" : "; the last error: " + printable(last_error, 300));
}

}  // namespace troupe
