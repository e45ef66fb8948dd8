#include "runtime/config/config_names.h"

#include <algorithm>

#include "runtime/base/suggest.h"

namespace troupe {
namespace {

std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string_view key_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

// Slips between two paths: over the whole, or over the key alone plus one for another section.
size_t slips(std::string_view wrong, std::string_view right) {
  const size_t elsewhere = section_of(wrong) == section_of(right) ? 0 : 1;
  if (key_of(right).starts_with(std::string(key_of(wrong)) + '_')) return 1 + elsewhere;  // "timeout" for "timeout_us"
  return std::min(edit_distance(wrong, right), edit_distance(key_of(wrong), key_of(right)) + elsewhere);
}

// The fields that another library calls `key`: "trainer.policy_lr and trainer.value_lr"; empty when none does.
std::string named_elsewhere(std::string_view key) {
  std::string paths;
  for (const Alias& alias : field_aliases())
    if (alias.name == key) paths.append(paths.empty() ? "" : " and ").append(alias.path);
  return paths;
}

// The field or section that was probably meant, or empty. A name from elsewhere goes before a slip of the hand.
std::string meant_by(const std::vector<Field>& fields, std::string_view path) {
  constexpr size_t kLongestPath = 100;  // the distance is quadratic in it
  if (path.size() > kLongestPath) return "";
  std::string best = named_elsewhere(key_of(path));
  if (!best.empty()) return best;
  size_t least = std::max<size_t>(1, key_of(path).size() / 3) + 1;
  const auto consider = [&](std::string_view candidate, size_t distance) {
    if (candidate.empty() || distance >= least) return;
    best = candidate;
    least = distance;
  };
  for (const Field& field : fields) {
    consider(field.path, slips(path, field.path));
    consider(field.section(), edit_distance(path, field.section()));
  }
  return best;
}

}  // namespace

const std::vector<Alias>& field_aliases() {
  static const std::vector<Alias> aliases = {
      {"env_id", "env.id"},
      {"num_envs", "env.rows"},
      {"frame_skip", "env.chunk"},
      {"num_workers", "workers.count"},
      {"num_steps", "rollout.length"},
      {"n_steps", "rollout.length"},
      {"horizon", "rollout.length"},
      {"buffer_size", "replay.capacity"},
      {"max_staleness", "replay.max_policy_lag"},
      {"discount", "algorithm.gamma"},
      {"gae_lambda", "algorithm.lambda"},
      {"lam", "algorithm.lambda"},
      {"adv_estimator", "algorithm.advantage"},
      {"clip_mode", "algorithm.surrogate"},
      {"policy_loss", "algorithm.surrogate"},
      {"loss_agg_mode", "algorithm.aggregation"},
      {"kl_penalty", "algorithm.kl"},
      {"clip_coef", "algorithm.clip_low"},
      {"clip_coef", "algorithm.clip_high"},
      {"clip_range", "algorithm.clip_low"},
      {"clip_range", "algorithm.clip_high"},
      {"clip_eps", "algorithm.clip_low"},
      {"clip_eps", "algorithm.clip_high"},
      {"vf_coef", "algorithm.value_coef"},
      {"ent_coef", "algorithm.entropy_coef"},
      {"learning_rate", "trainer.policy_lr"},
      {"learning_rate", "trainer.value_lr"},
      {"lr", "trainer.policy_lr"},
      {"lr", "trainer.value_lr"},
      {"anneal_lr", "trainer.lr_schedule"},
      {"num_minibatches", "trainer.minibatches"},
      {"update_epochs", "trainer.epochs"},
      {"n_epochs", "trainer.epochs"},
      {"total_timesteps", "stop.env_steps"},
      {"total_steps", "stop.env_steps"},
  };
  return aliases;
}

const Field* find_field(const std::vector<Field>& fields, std::string_view path) {
  const auto it = std::ranges::find(fields, path, &Field::path);
  return it == fields.end() ? nullptr : &*it;
}

bool is_section(const std::vector<Field>& fields, std::string_view name) {
  return !name.empty() && std::ranges::any_of(fields, [&](const Field& field) { return field.section() == name; });
}

std::string keys_of(const std::vector<Field>& fields, std::string_view section) {
  std::string text;
  std::string_view last;
  for (const Field& field : fields) {
    if (!section.empty() && field.section() != section) continue;
    const std::string_view name = section.empty() && !field.section().empty() ? field.section() : field.key();
    if (name != last) text.append(text.empty() ? "" : ", ").append(name);
    last = name;
  }
  return text;
}

std::string unknown_key(const std::vector<Field>& fields, const std::string& path) {
  const std::string start = printable(path, 100) + ": unknown key, ";
  const std::string meant = meant_by(fields, path);
  if (!meant.empty()) return start + "did you mean " + meant + '?';
  const std::string section(section_of(path));
  return start + (is_section(fields, section) ? section + " has: " + keys_of(fields, section)
                                              : "there are: " + keys_of(fields, ""));
}

}  // namespace troupe
