#include "algorithms/advantages/token_advantages.h"

#include "algorithms/advantages/gae.h"
#include "algorithms/common/moments.h"

namespace troupe {

namespace {

WhitenParams whitening(bool zero_masked) {
  WhitenParams params = find_whiten_variant("verl");  // github.com/volcengine/verl
  params.zero_masked = zero_masked;
  return params;
}

// return = reward + factor * carry at every unmasked token. Past a masked token the carry is unchanged, or 0 when
// `reset` is set. Masked rewards are not read. step(token, return) stores the result.
template <class Step>
void for_each_return(const AdvantageInput& in, double factor, bool reset, Step step) {
  for (int64_t sequence = 0; sequence < in.sequences.count(); ++sequence) {
    const auto [begin, end] = in.range(sequence);
    double carry = 0;
    for (std::size_t token = end; token-- > begin;) {
      const bool counts = in.counts(token);
      const double value = (counts ? double{in.rewards[token]} : 0.0) + factor * carry;
      step(sequence, token, counts, value);
      carry = counts || !reset ? value : 0.0;
    }
  }
}

}  // namespace

void gae_advantages(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  const bool zero = parameters.text("outside") == "zero";
  GaeInput task;
  task.layout = Layout::rows;
  task.offsets = in.sequences.offsets();
  task.sequences = in.sequences.count();
  task.steps = in.sequences.offsets().empty() ? in.sequences.longest() : 0;
  task.rewards = in.rewards;
  task.values = in.values;
  task.mask = in.mask;
  task.outside = zero ? Outside::zero : Outside::carry;
  task.gamma = static_cast<float>(parameters.number("gamma"));
  task.lambda = static_cast<float>(parameters.number("lam"));
  gae(task, out.advantages, out.returns);
  if (parameters.flag("whiten")) whiten(out.advantages, in.whitening_mask(), whitening(zero));
}

void reinforce_plus_plus(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  for_each_return(in, parameters.number("gamma"), parameters.flag("reset_at_mask"),
                  [&](int64_t, std::size_t token, bool counts, double value) {
                    out.returns[token] = static_cast<float>(value);
                    out.advantages[token] = static_cast<float>(counts ? value : 0.0);
                  });
  if (parameters.flag("whiten")) whiten(out.advantages, in.whitening_mask(), whitening(true));
}

void remax(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  const bool zero = parameters.text("outside") == "zero";
  for_each_return(in, 1.0, false, [&](int64_t sequence, std::size_t token, bool counts, double value) {
    const double baseline = in.baselines[static_cast<std::size_t>(sequence)];
    out.returns[token] = static_cast<float>(value);
    out.advantages[token] = static_cast<float>(counts ? value - baseline : zero ? 0.0 : value);
  });
}

}  // namespace troupe
