#include "actors/experience/answers/python_grader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "actors/experience/answers/conversation.h"
#include "actors/experience/answers/reward_grader.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/rng.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "tasks/python_task.h"

namespace troupe {

namespace {

VerifierItem item_of(const Prompt& prompt, const std::string& answer) {
  return {.prompt = prompt.text, .truth = prompt.truth, .answer = answer, .columns = prompt.columns};
}

// Throws ConfigError, with the line of a dataset, for a prompt that the verifier cannot score.
void check_prompts(const RunConfig& config, const Task& task, std::span<const VerifierNeed> needs) {
  if (needs.empty()) return;
  const std::string truth_setting = config.task.name == "dataset" ? "task.params.truth" : "";
  const auto check = [&](const Prompt& prompt) {
    if (const std::string problem = problem_of_prompt(prompt, needs, truth_setting); !problem.empty())
      throw ConfigError(problem);
  };
  if (task.for_each_prompt(check)) return;
  try {
    for (const Prompt& prompt : task.held_out(0, 1)) check(prompt);
  } catch (const ConfigError& error) {
    throw ConfigError("task.verifier: " + std::string(error.what()));
  }
}

// What replies to answers in Python.
struct Replying {
  std::string setting, function;
  VerifierTarget target;
};

std::optional<Replying> replying_of(const RunConfig& config, const Task& task) {
  TaskConfig own = config.task;
  if (own.turns == 1) return std::nullopt;
  if (!own.reply.empty()) return Replying{"task.reply", own.reply, reply_target(own)};
  if (!is_python_task(own) || !task.replies()) return std::nullopt;
  own.verifier = own.name;
  return Replying{"task.name", own.name, verifier_target(own)};
}

// The right answer to a held-out prompt, if that has one, and that to another, which is wrong here; else an empty one.
std::vector<VerifierItem> tried_answers(const RunConfig& config, const Task& task) {
  const std::vector<Prompt> prompts = task.held_out(derive_key(config.seed, "reply"), 2);
  std::vector<std::string> answers{prompts.at(0).demonstration};
  if (prompts.size() > 1 && prompts[1].demonstration != answers[0]) answers.push_back(prompts[1].demonstration);
  std::vector<VerifierItem> items;
  for (const std::string& answer : answers) {
    items.push_back(item_of(prompts[0], answer));
    items.back().earlier.emplace();
  }
  return items;
}

std::string refusal_of(const Replying& replying, const VerifierItem& item) {
  return replying.setting + ": \"" + printable(replying.function, 200) + "\" does not reply to the answer \"" +
         printable(item.answer) + "\" to the prompt \"" + printable(item.prompt) + "\": ";
}

// The same answers in the next turn of those conversations that go on. Throws ConfigError for a reply that failed, or
// whose message the model cannot read.
std::vector<VerifierItem> continued(const Replying& replying, const TokenRun& run,
                                    const std::vector<VerifierItem>& items, const std::vector<Reply>& replies) {
  std::vector<VerifierItem> next;
  for (size_t i = 0; i < items.size(); ++i) {
    const Reply& reply = replies.at(i);
    const bool has_message = reply.problem.empty() && reply.message.has_value();
    const std::string problem = has_message ? problem_of_message(run, reply) : reply.problem;
    if (!problem.empty()) throw ConfigError(refusal_of(replying, items[i]) + problem);
    if (!reply.message) continue;
    next.push_back(items[i]);
    next.back().earlier->push_back({items[i].answer, *reply.message, reply.role});
  }
  return next;
}

}  // namespace

void PythonGrader::publish_figures() {
  const MutexLock lock(mutex_);
  figures_ = verifier_.figures();
}

std::vector<VerifierItem> PythonGrader::items_of(PromptOfEach prompts, std::span<const std::string> answers,
                                                 DetailsOfEach details) const {
  TROUPE_CHECK(prompts.size() == answers.size(), prompts.size(), answers.size());
  std::vector<VerifierItem> items;
  for (size_t i = 0; i < answers.size(); ++i) {
    items.push_back(item_of(*prompts[i], answers[i]));
    if (turns_) items.back().earlier = details[i].earlier;
  }
  return items;
}

std::vector<Score> PythonGrader::score(const Prompt& prompt, std::span<const std::string> answers) {
  return score_detailed(prompt, answers, std::vector<AnswerDetails>(answers.size()));
}

std::vector<Score> PythonGrader::score_each(PromptOfEach prompts, std::span<const std::string> answers) {
  return score_detailed_each(prompts, answers, std::vector<AnswerDetails>(answers.size()));
}

std::vector<Score> PythonGrader::score_detailed(const Prompt& prompt, std::span<const std::string> answers,
                                                DetailsOfEach details) {
  const std::vector<const Prompt*> prompts(answers.size(), &prompt);
  std::vector<Score> scores = verifier_.score(items_of(prompts, answers, details));
  publish_figures();
  return scores;
}

std::vector<Score> PythonGrader::score_detailed_each(PromptOfEach prompts, std::span<const std::string> answers,
                                                     DetailsOfEach details) {
  std::vector<Score> scores = verifier_.score_together(items_of(prompts, answers, details));
  publish_figures();
  return scores;
}

std::vector<Reply> PythonGrader::reply(PromptOfEach prompts, std::span<const std::string> answers,
                                       DetailsOfEach details) {
  Verifier::MessageProblem problem_of;
  if (tokens_) problem_of = [this](const Reply& reply) { return problem_of_message(*tokens_, reply); };
  std::vector<Reply> replies = verifier_.reply(items_of(prompts, answers, details), problem_of);
  publish_figures();
  return replies;
}

VerifierFigures PythonGrader::figures() const {
  const MutexLock lock(mutex_);
  return figures_;
}

std::string problem_of_demonstrations(std::span<const VerifierItem> items, std::span<const Verdict> verdicts) {
  size_t wrong = 0, first = 0;
  for (size_t i = items.size(); i-- > 0;) {
    const Score& score = verdicts[i].score;
    if (score.scored != Scored::yes || score.right) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return "";
  return "the warm-up trains on demonstrations that are not right (" + std::to_string(wrong) + " of " +
         std::to_string(items.size()) + " that were tried); the first: \"" + printable(items[first].answer) +
         "\" to the prompt \"" + printable(items[first].prompt) + "\" has the score " +
         format_number(verdicts[first].score.reward, 3) + ", a right answer at least 1, or \"right\": true";
}

void try_reply(const RunConfig& config, const TokenRun& run) {
  const std::optional<Replying> replying = replying_of(config, *run.task);
  if (!replying) return;
  std::string what = replying->setting + ": ";
  try {
    VerifierProcess process(replying->target);
    process.start();
    std::vector<VerifierItem> items = tried_answers(config, *run.task);
    // A second turn sees what the first one has given.
    for (int64_t turn = 1; turn < std::min<int64_t>(config.task.turns, 3) && !items.empty(); ++turn) {
      what = refusal_of(*replying, items[0]);
      const std::vector<Reply> replies = process.reply(items);
      items = continued(*replying, run, items, replies);
    }
  } catch (const VerifierFailed& failed) {
    if (!failed.traceback.empty()) log_block(LogLevel::info, "reply", failed.traceback);
    throw ConfigError(what + failed.what());
  } catch (const IoError& missing) {
    throw ConfigError("task.python: " + std::string(missing.what()) + "; " + replying->setting + " needs it");
  }
}

void try_verifier(const RunConfig& config, const Task& task) {
  if (config.task.verifier.empty()) return;
  std::vector<VerifierItem> items;
  // Those of a whole task are by its own author.
  const int64_t tried = config.task.verifier == config.task.name ? 8 : 1;
  for (const Prompt& prompt : task.held_out(derive_key(config.seed, "verifier"), tried))
    if (!prompt.demonstration.empty()) items.push_back(item_of(prompt, prompt.demonstration));
  std::string what = "task.verifier: ";
  try {
    VerifierProcess process(verifier_target(config.task));
    process.start();
    check_prompts(config, task, process.needs());
    if (items.empty()) return;
    what += '"' + printable(config.task.verifier, 200) + "\" does not score the right answer \"" +
            printable(items[0].answer) + "\" to the prompt \"" + printable(items[0].prompt) + "\": ";
    const std::vector<Verdict> verdicts = process.score(items);
    const Verdict& verdict = verdicts.at(0);
    const std::string wrong = problem_of_demonstrations(items, verdicts);
    if (config.warmup.steps > 0 && !wrong.empty()) log_warn("task", wrong);
    if (verdict.score.scored == Scored::failed) throw VerifierFailed(verdict.score.problem, verdict.traceback);
    if (!config.reward_model.used()) return;
    if (const std::string problem = problem_of_parts(verdict.score); !problem.empty())
      throw ConfigError("task.verifier: \"" + printable(config.task.verifier, 200) + "\": " + problem);
  } catch (const VerifierFailed& failed) {
    if (!failed.traceback.empty()) log_block(LogLevel::info, "verifier", failed.traceback);
    throw ConfigError(what + failed.what());
  } catch (const IoError& missing) {
    throw ConfigError("task.python: " + std::string(missing.what()) + "; task.verifier needs it");
  }
}

}  // namespace troupe
