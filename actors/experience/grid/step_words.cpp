#include "actors/experience/grid/step_words.h"

#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"

namespace troupe {

std::string failed_episodes_text(uint64_t failed, uint64_t ended, const std::string& last_error) {
  return format_count(failed) + " of " + format_counted(ended, "episode") +
         " failed, also when played again, because the environment failed. The return leaves them out, so it may be "
         "too good or too bad; they count as no successes. The last error: " +
         printable(last_error, 300);
}

}  // namespace troupe
