#include "actors/config/scorers_config.h"

namespace troupe {

void describe(ScorersConfig& c, Fields& fields) {
  const Section s(fields, "scorers", "actors", Change::at_resume_unless_deterministic,
                  {kOnlyTokenRuns,
                   {.condition = is("reference.computed_by", kWords<"scorers">),
                    .other = is("reward_model.computed_by", kWords<"scorers">)}});
  s.add(c.count, "count", between(0, 256),
        "scorers inside the trainer's process; 0 = all of them join over the network");
  s.add(c.batch_tokens, "batch_tokens", between(1, 1'000'000),
        "most tokens of one pass, unless a single answer with its prompt has more");
  s.add(c.threads, "threads", between(1, 1024), "CPU threads of one pass");
}

}  // namespace troupe
