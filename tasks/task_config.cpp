#include "tasks/task_config.h"

namespace troupe {
namespace {

constexpr Need kSeveralTurns = {.condition = is_at_least("task.turns", 2)};
constexpr std::string_view kSetVerifier = "set task.verifier to py:MODULE:CALLABLE";
constexpr Need kWithVerifier = {.condition = is_given("task.verifier"), .instead = kSetVerifier};
// Functions that reply are called like verifiers.
constexpr Need kWithFunction = {
    .condition = is_given("task.verifier"), .other = is_given("task.reply"), .instead = kSetVerifier};

}  // namespace

void describe(TaskConfig& c, Fields& fields) {
  const Section s(fields, "task", "tasks", Change::never, {kOnlyTokenRuns});
  s.add(c.name, "name", matching("^[A-Za-z0-9_./:-]{1,100}$", "the name of a task like reverse, or py:MODULE:CALLABLE"),
        "the source of prompts, which also scores the answers; py:MODULE:CALLABLE or py:FILE.py:CALLABLE = a task in "
        "Python, which the callable makes of task.params");
  s.add_object(c.params, "params", "the task's own parameters");
  s.add(c.weight, "weight", between(-1e6, 1e6),
        "weight of the score of the task or its verifier in the reward; 0 = it is only "
        "reported",
        {.needs = {{.condition = is_given("reward_model.path"),
                    .instead = "set reward_model.path to the folder of a reward model"}}});
  s.add(c.sampling, "sampling", one_of(kWords<"permutation", "failure_weighted">),
        "how a worker draws prompts of a list: permutation = each once per pass; failure_weighted = those that were "
        "answered wrong more often come more often");
  s.add(
      c.turns, "turns", between(1, 64),
      "most answers to a prompt in one conversation: after each of them but the last the task may give a message; 1 = "
      "one answer",
      {.elsewhere = kWords<"max_turns", "max_assistant_turns", "max_tool_calling_iterations">});
  s.add(c.message_tokens, "message_tokens", between(0, 65536),
        "most tokens of the text of a message, which is cut there; 0 = as many as the longest "
        "message of the task has bytes",
        {.elsewhere = kWords<"max_tool_response_length">, .needs = {kSeveralTurns}});
  const auto function = matching(R"(^(py:[^\x00-\x1f\x7f]{1,900}:[^\x00-\x1f\x7f:]{1,100})?$)",
                                 "py:MODULE:CALLABLE, py:FILE.py:CALLABLE or an empty text");
  s.add(c.reply, "reply", function,
        "a function in Python that gives the messages after answers, py:MODULE:CALLABLE or "
        "py:FILE.py:CALLABLE; empty = the task gives them",
        {.elsewhere = kWords<"tools", "agent_func_path", "interaction_config_path">, .needs = {kSeveralTurns}});
  s.add(c.verifier, "verifier", function,
        "a function in Python that scores the answers, py:MODULE:CALLABLE or py:FILE.py:CALLABLE; empty = the task "
        "scores them",
        {.elsewhere = kWords<"reward_funcs", "custom_reward_function">});
  s.add(
      c.python, "python", anything(),
      "interpreter of the verifier: a name in PATH, or a path; in runs from Python the interpreter of that program is "
      "the default",
      {.change = Change::at_resume, .needs = {kWithFunction}});
  s.add(c.verifier_timeout, "verifier_timeout_ms", between(1, 86'400'000),
        "longest time for one call of the verifier; a process that takes longer is killed and started again",
        {.change = Change::at_resume, .needs = {kWithFunction}});
  s.add(c.verifier_start_timeout, "verifier_start_timeout_ms", between(1, 86'400'000),
        "longest time for the start of a process of the verifier, with its imports",
        {.change = Change::at_resume, .needs = {kWithFunction}});
  s.add(
      c.verifier_batch, "verifier_batch", between(1, 4096),
      "most answers that one call of the verifier gets, if they are to several prompts; all answers to one prompt are "
      "scored in one call",
      {.change = Change::at_resume, .needs = {kWithFunction}});
  s.add(c.verifier_processes, "verifier_processes", between(1, 64),
        "processes of the verifier in each worker, which score different prompts at the same time",
        {.change = Change::at_resume, .needs = {kWithVerifier}});
}

}  // namespace troupe
