// The task dataset: prompts and truths of a file.

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/weights/weights.h"
#include "tasks/answer_match.h"
#include "tasks/dataset.h"
#include "tasks/dataset_file.h"
#include "tasks/task_table.h"

namespace troupe {

namespace {

using Kind = Setting::Kind;

constexpr size_t kLongestAnswer = size_t{1} << 20;  // bytes

enum class Match : uint8_t { exact, number, last_number };

Match match_of(std::string_view name) {
  if (name == "number") return Match::number;
  return name == "last_number" ? Match::last_number : Match::exact;
}

std::optional<std::string> truth_number(Match match, std::string_view truth) {
  return match == Match::number ? number_in(truth) : last_number_in(truth);
}

bool matches(Match match, std::string_view truth, std::string_view answer) {
  truth = trimmed(truth);
  if (match == Match::exact) return answer == truth;
  const auto number = match == Match::number ? number_in(answer) : last_number_in(answer);
  return number && number == truth_number(match, truth);
}

// The characters of UTF-8 texts, each once, sorted.
class Characters {
 public:
  void add(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      size_t end = at + 1;
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
      seen_.emplace(text.substr(at, end - at));
      at = end;
    }
  }
  std::string text() const {
    std::string all;
    for (const std::string& character : seen_) all += character;
    return all;
  }

 private:
  std::set<std::string, std::less<>> seen_;
};

class DatasetTask : public Task {
 public:
  // Without a match, a verifier scores the answers.
  DatasetTask(std::vector<DatasetPrompt> train, std::vector<DatasetPrompt> held_out, std::optional<Match> match,
              bool replies = false)
      : train_(std::move(train)), held_out_(std::move(held_out)), match_(match), replies_(replies) {
    Characters characters;
    for (const auto* prompts : {&train_, &held_out_})
      for (const auto& [prompt, file, line] : *prompts) {
        if (prompt.messages.empty()) characters.add(prompt.text);
        for (const auto& [role, content] : prompt.messages) characters.add(content);
        characters.add(prompt.demonstration);
        longest_prompt_ = std::max(longest_prompt_, prompt.text.size());
        longest_demonstration_ = std::max(longest_demonstration_, prompt.demonstration.size());
      }
    alphabet_ = characters.text();
  }

  Prompt draw(Rng& rng, Split split) const override {
    const std::vector<DatasetPrompt>& prompts = of(split);
    return prompts[rng.below(prompts.size())].prompt;
  }
  Prompt prompt(uint64_t key, uint64_t n, Split split) const override {
    const std::vector<DatasetPrompt>& prompts = of(split);
    const uint64_t size = prompts.size();
    return prompts[permuted(derive_key(key, "pass", n / size), n % size, size)].prompt;
  }
  uint64_t listed(Split split) const override { return of(split).size(); }
  Prompt listed_prompt(uint64_t number, Split split) const override { return of(split).at(number).prompt; }
  Prompt propose(Rng& rng) const override {
    const uint64_t at = rng.below(train_.size() + held_out_.size());
    return (at < train_.size() ? train_[at] : held_out_[at - train_.size()]).prompt;
  }
  std::vector<Prompt> held_out(uint64_t key, int64_t most) const override {
    std::vector<size_t> order(held_out_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t count = std::min(order.size(), static_cast<size_t>(std::max<int64_t>(most, 0)));
    Rng rng(derive_key(key, "prompts"));
    std::vector<Prompt> prompts;
    for (size_t i = 0; i < count; ++i) {
      std::swap(order[i], order[i + rng.below(order.size() - i)]);
      prompts.push_back(held_out_[order[i]].prompt);
    }
    return prompts;
  }
  std::string short_answer(const Prompt& prompt) const override {
    if (!match_) return prompt.demonstration;
    const std::string_view truth = trimmed(prompt.truth);
    return match_ == Match::exact ? std::string(truth) : truth_number(*match_, truth).value_or("");
  }
  void check_answers(const AnswerProblem& problem) const override {
    for (const auto* prompts : {&train_, &held_out_})
      for (const auto& [prompt, file, line] : *prompts)
        if (const std::string why = problem(prompt, short_answer(prompt)); !why.empty())
          throw ConfigError(*file + ':' + std::to_string(line) + ": " + why);
  }
  bool for_each_prompt(const std::function<void(const Prompt&)>& visit) const override {
    for (const auto* prompts : {&train_, &held_out_})
      for (const auto& [prompt, file, line] : *prompts) try {
          visit(prompt);
        } catch (const ConfigError& error) {
          throw ConfigError(*file + ':' + std::to_string(line) + ": " + error.what());
        }
    return true;
  }
  std::vector<std::string> files() const override {
    std::vector<std::string> paths = {*train_.front().file};
    if (*held_out_.front().file != paths.front()) paths.push_back(*held_out_.front().file);
    return paths;
  }
  bool replies() const override { return replies_; }
  std::string alphabet() const override { return alphabet_; }
  size_t max_prompt_length() const override { return longest_prompt_; }
  size_t max_answer_length() const override { return longest_demonstration_; }
  size_t longest_scored_answer() const override { return kLongestAnswer; }
  uint64_t data_hash() const override {
    Checksum hash;
    for (const auto* prompts : {&train_, &held_out_}) {
      const uint64_t size = prompts->size();
      hash.update(&size, sizeof size);
      for (const DatasetPrompt& read : *prompts) add_prompt(hash, read.prompt);
    }
    return hash.value();
  }

 private:
  const std::vector<DatasetPrompt>& of(Split split) const { return split == Split::train ? train_ : held_out_; }
  bool is_right(const Prompt& prompt, std::string_view answer) const override {
    return match_ && matches(*match_, prompt.truth, answer);
  }

  std::vector<DatasetPrompt> train_, held_out_;
  std::optional<Match> match_;
  bool replies_;
  std::string alphabet_;
  size_t longest_prompt_ = 0, longest_demonstration_ = 0;
};

// Throws unless the truth can be compared, and the demonstration is right.
void check_prompt(const DatasetPrompt& read, const std::string& path, Match match) {
  const Prompt& prompt = read.prompt;
  const std::string place = path + ':' + std::to_string(read.line) + ": ";
  if (match != Match::exact && !truth_number(match, trimmed(prompt.truth)))
    throw ConfigError(place + "the truth \"" + printable(prompt.truth) + "\" is no number, which task.params.match \"" +
                      (match == Match::number ? "number" : "last_number") + "\" needs; use \"exact\"");
  if (!matches(match, prompt.truth, trimmed(prompt.demonstration)))
    throw ConfigError(place + "the demonstration \"" + printable(prompt.demonstration) +
                      "\" is not right for the truth \"" + printable(prompt.truth) + '"');
}

std::vector<DatasetPrompt> read_checked(const std::string& path, const DatasetKeys& keys, const std::string& setting,
                                        std::optional<Match> match) {
  std::vector<DatasetPrompt> prompts = read_dataset(path, keys, setting);
  if (match)
    for (const DatasetPrompt& prompt : prompts) check_prompt(prompt, path, *match);
  return prompts;
}

std::string key_of(const TaskParams& params, const char* name) {
  const std::string_view key = params.text(name);
  return std::string(key.empty() ? name : key);
}

void require_disjoint(const std::vector<DatasetPrompt>& train, const std::vector<DatasetPrompt>& held_out,
                      const std::string& path) {
  std::set<std::string_view> texts;
  for (const DatasetPrompt& read : train) texts.insert(read.prompt.text);
  for (const DatasetPrompt& read : held_out)
    if (texts.contains(read.prompt.text))
      throw ConfigError(path + ':' + std::to_string(read.line) + ": the prompt \"" + printable(read.prompt.text) +
                        "\" is also in task.params.path, expected other prompts");
}

// nullopt for answers that a verifier scores.
std::optional<Match> match_for(std::string_view name, bool verified) {
  if (!verified) return match_of(name);
  if (name != "exact")
    throw ConfigError("task.params.match: \"" + std::string(name) +
                      "\" has no effect with task.verifier; leave it out");
  return std::nullopt;
}

std::unique_ptr<Task> make_dataset(const TaskParams& params) {
  const std::string path(params.text("path")), held_out_path(params.text("held_out_path"));
  if (path.empty()) throw ConfigError("task.params.path: \"\" is empty, expected the path of a JSON Lines file");
  const DatasetKeys keys{key_of(params, "prompt"), key_of(params, "truth"), key_of(params, "demonstration"),
                         params.verified()};
  const std::optional<Match> match = match_for(params.text("match"), params.verified());
  std::vector<DatasetPrompt> train, held_out;
  for (DatasetPrompt& read : read_checked(path, keys, "task.params.path", match)) {
    const bool hold_out = held_out_path.empty() && split_of(read.prompt.text) == Split::held_out;
    (hold_out ? held_out : train).push_back(std::move(read));
  }
  if (!held_out_path.empty()) {
    std::vector<DatasetPrompt> second = read_checked(held_out_path, keys, "task.params.held_out_path", match);
    require_disjoint(train, second, held_out_path);
    for (DatasetPrompt& read : second) held_out.push_back(std::move(read));
  }
  if (train.empty() || held_out.empty())
    throw ConfigError("task.params.path: " + path + " gives " + std::to_string(train.size()) + " prompts for training" +
                      " and " + std::to_string(held_out.size()) + " held-out ones, expected at least 1 of each; add " +
                      "prompts or set task.params.held_out_path");
  return std::make_unique<DatasetTask>(std::move(train), std::move(held_out), match);
}

constexpr Setting text_setting(std::string_view key, std::string_view help) {
  return {.key = key, .kind = Kind::text, .default_value = 0, .help = help, .owner = "tasks"};
}

std::span<const Setting> dataset_settings() {
  static constexpr std::array kSettings = {
      text_setting("path", "a JSON Lines file with one object per prompt"),
      text_setting("held_out_path", "a second file with the held-out prompts; empty = about 1 of 8 prompts of path"),
      text_setting("prompt", "key of the prompt; empty = prompt"),
      text_setting("truth", "key of the truth; empty = truth"),
      text_setting("demonstration", "key of a right answer for supervised training; empty = demonstration"),
      Setting{.key = "match",
              .kind = Kind::text,
              .default_value = 0,
              .choices = kWords<"exact", "number", "last_number">,
              .help = "exact: same text; number: same value; last_number: same value of the last number in the text",
              .owner = "tasks"},
  };
  return kSettings;
}

}  // namespace

std::unique_ptr<Task> make_verified_task(std::vector<DatasetPrompt> prompts, bool replies) {
  const auto held_out = std::ranges::stable_partition(
      prompts, [](const DatasetPrompt& read) { return split_of(read.prompt.text) == Split::train; });
  std::vector<DatasetPrompt> second(std::move_iterator(held_out.begin()), std::move_iterator(held_out.end()));
  prompts.erase(held_out.begin(), held_out.end());
  TROUPE_CHECK(!prompts.empty() && !second.empty(), prompts.size(), second.size());
  return std::make_unique<DatasetTask>(std::move(prompts), std::move(second), std::nullopt, replies);
}

TaskEntry dataset_task() {
  return {"dataset", "prompts and truths of a file", dataset_settings, make_dataset, /*splits_checked=*/true};
}

}  // namespace troupe
