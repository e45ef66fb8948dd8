// Scores of a task and of a reward model together, reward models that do not fit a run, and what a run was made of.

#include "actors/experience/answers/reward_grader.h"

#include <array>

#include "actors/experience/answers/reward_model_check.h"
#include "actors/experience/answers/task_grader.h"
#include "actors/experience/kinds.h"
#include "actors/memory_estimate.h"
#include "actors/run_context.h"
#include "actors/spec_fields.h"
#include "tests/models/lm/reward_models.h"
#include "tests/support/config_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"
#include "text/char_tokenizer.h"
#include "text/write_tokenizer.h"

using namespace troupe;
using namespace troupe::test;

namespace {

LmShape shape_for(int64_t vocabulary) {
  LmShape shape = tiny_shape(LmFamily::llama, 4);
  shape.vocabulary = vocabulary;
  return shape;
}

std::vector<AnswerDetails> details_of(const std::vector<std::vector<int32_t>>& ids) {
  std::vector<AnswerDetails> details;
  for (const std::vector<int32_t>& of : ids) details.push_back({of});
  return details;
}

// A token run with a reward model in a folder.
struct Fixture {
  TempFolder folder;
  RunConfig config = token_config();
  std::shared_ptr<const TokenRun> tokens = make_token_run(config);
  TinyRewardModel tiny{shape_for(tokens->tokenizer->vocabulary_size()), 3};
  Prompt prompt{.text = "123>", .truth = "321", .demonstration = "321"};
  std::array<std::string, 2> texts{"321", "12"};
  std::vector<std::vector<int32_t>> ids;

  Fixture() {
    config.reward_model.path = folder.path();
    tiny.write(folder.path());
    write_tokenizer_json(dynamic_cast<const CharTokenizer&>(*tokens->tokenizer), posix_disk(), folder.path());
    for (const std::string& text : texts) {
      ids.push_back(tokens->tokenizer->encode(text));
      ids.back().push_back(tokens->end_tokens.front());
    }
  }
  std::shared_ptr<RewardModel> model() const { return std::make_shared<RewardModel>(posix_disk(), folder.path(), 1); }
  RunContext context() const {
    RunContext result;
    result.config = config;
    result.tokens = tokens;
    result.reward_model = model();
    return result;
  }
  std::vector<Score> scores() const {
    const RunContext run = context();
    return kind_of(run).make_graders(run).at(0)->score_detailed(prompt, texts, details_of(ids));
  }
  std::string refusal() const {
    return config_error_of([&] { check_reward_model(config, *tokens); });
  }
};

}  // namespace

TEST_CASE("reward_grader: the reward is the weighted sum of both scores, which are its parts") {
  Fixture f;
  f.config.task.weight = 0.5;
  f.config.reward_model.weight = -2;
  const std::vector<float> of_model = f.model()->score(f.tokens->encode(f.prompt), f.ids);
  const std::vector<Score> scores = f.scores();
  REQUIRE(scores.size() == 2);
  CHECK(of_model[0] != of_model[1]);
  CHECK(scores[0].right);
  CHECK(scores[0].reward == 0.5 - 2.0 * of_model[0]);
  CHECK(scores[0].parts == std::vector<std::pair<std::string, double>>{{"task", 1}, {"reward_model", of_model[0]}});
  CHECK_FALSE(scores[1].right);
  CHECK(scores[1].reward == -2.0 * of_model[1]);
  CHECK(scores[1].parts == std::vector<std::pair<std::string, double>>{{"task", 0}, {"reward_model", of_model[1]}});
}

TEST_CASE("reward_grader: a weight of 0 leaves a score in the parts alone") {
  Fixture f;
  f.config.task.weight = 0;
  CHECK(f.scores()[0].reward == f.scores()[0].parts[1].second);
  CHECK(f.scores()[0].right);
  f.config.task.weight = 1;
  f.config.reward_model.weight = 0;
  CHECK(f.scores()[0].reward == 1);
  CHECK(f.scores()[0].parts[1].first == "reward_model");
}

TEST_CASE("reward_grader: answers to different prompts get the scores that they get alone") {
  const Fixture f;
  const RunContext run = f.context();
  const std::shared_ptr<Grader> grader = kind_of(run).make_graders(run).at(0);
  const std::array<Prompt, 2> prompts{f.prompt, Prompt{.text = "987>", .truth = "12", .demonstration = "12"}};
  const std::vector<AnswerDetails> details = details_of(f.ids);
  const std::vector<Score> scores = grader->score_detailed_each(std::array{&prompts[0], &prompts[1]}, f.texts, details);
  REQUIRE(scores.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<Score> alone =
        grader->score_detailed(prompts[i], std::span(f.texts).subspan(i, 1), std::span(details).subspan(i, 1));
    CHECK(scores[i].reward == alone.at(0).reward);
    CHECK(scores[i].right);
  }
  // Those to one prompt, of which the model reads it once, among others.
  const Prompt equal = f.prompt;
  const std::array<const Prompt*, 3> mixed{&f.prompt, &equal, &prompts[1]};
  const std::array<std::string, 3> texts{f.texts[0], f.texts[1], f.texts[1]};
  const std::vector<std::vector<int32_t>> ids{f.ids[0], f.ids[1], f.ids[1]};
  const std::vector<Score> of_mixed = grader->score_detailed_each(mixed, texts, details_of(ids));
  const std::vector<Score> of_group = grader->score_detailed(f.prompt, f.texts, details_of(f.ids));
  REQUIRE(of_mixed.size() == 3);
  CHECK(of_mixed[0].reward == of_group.at(0).reward);
  CHECK(of_mixed[1].reward == of_group.at(1).reward);
  CHECK(of_mixed[2].reward == scores[1].reward);
}

TEST_CASE("reward_grader: a score that is no number has failed, and is never 0") {
  Fixture f;
  std::ranges::fill(f.tiny.head, 3e38f);
  f.tiny.write(f.folder.path());
  for (const Score& score : f.scores()) {
    CHECK(score.scored == Scored::failed);
    CHECK(score.problem.starts_with("the reward model gave the score "));
    CHECK(score.problem.size() < 110);  // no number with all its digits
    CHECK(score.problem.ends_with(", expected a number of at most 1000000 in magnitude"));
  }
}

TEST_CASE("reward_grader: a part of a verifier that has the name of a part of the run has failed") {
  struct Named final : Grader {
    std::string name;
    std::vector<Score> score(const Prompt&, std::span<const std::string> answers) override {
      return std::vector<Score>(answers.size(), Score{.reward = 1, .parts = {{"length", 2}, {name, 5}}});
    }
  };
  const Fixture f;
  const auto named = std::make_shared<Named>();
  RewardGrader grader(f.config, f.tokens, named, f.model());
  for (const std::string name : {kTaskPart, kRewardModelPart}) {
    named->name = name;
    const Score score = grader.score_detailed(f.prompt, f.texts, details_of(f.ids)).at(0);
    CHECK(score.scored == Scored::failed);
    CHECK(score.problem == "the verifier names a part of its score \"" + name +
                               "\", as the run does with a reward model; give it another name");
  }
  named->name = "own";
  const Score score = grader.score_detailed(f.prompt, f.texts, details_of(f.ids)).at(0);
  CHECK(score.scored == Scored::yes);
  CHECK(score.parts.size() == 4);
}

TEST_CASE("reward_grader: an answer that the task does not score stays without a score") {
  struct Planned final : Grader {
    std::vector<Score> score(const Prompt&, std::span<const std::string>) override {
      return {{.scored = Scored::none}, {.scored = Scored::failed, .problem = "planned"}};
    }
    VerifierFigures figures() const override { return {.calls = 7}; }
  };
  const Fixture f;
  RewardGrader grader(f.config, f.tokens, std::make_shared<Planned>(), f.model());
  const std::vector<Score> scores = grader.score_detailed(f.prompt, f.texts, details_of(f.ids));
  CHECK(scores.at(0).scored == Scored::none);
  CHECK(scores.at(1).problem == "planned");
  CHECK(grader.figures().calls == 7);
}

TEST_CASE("reward_grader: a reward model needs the tokenizer of the policy") {
  const Fixture f;
  const std::string file = "reward_model.path: " + (f.folder / "tokenizer.json");
  CHECK(f.refusal() == "no error");
  const auto& own = dynamic_cast<const CharTokenizer&>(*f.tokens->tokenizer);
  write_tokenizer_json(own, posix_disk(), f.folder.path(), CharacterTokens::added);
  CHECK(f.refusal() == "no error");
  std::string other = own.alphabet();
  std::swap(other[0], other[1]);
  write_tokenizer_json(CharTokenizer(other), posix_disk(), f.folder.path());
  const std::string refused = f.refusal();
  CHECK(refused.starts_with(file + " has 13 tokens (hash "));
  CHECK(refused.find("), the tokenizer of the policy 13 tokens (hash ") != std::string::npos);
  CHECK(refused.ends_with("); a reward model must have the same tokenizer"));
  write_tokenizer_json(CharTokenizer(own.alphabet() + "x"), posix_disk(), f.folder.path());
  CHECK(f.refusal().starts_with(file + " has 14 tokens (hash "));
  posix_disk().remove(f.folder / "tokenizer.json");
  CHECK(f.refusal().starts_with("reward_model.path: " + (f.folder / "tokenizer.json") + ": "));
  CHECK(f.refusal().ends_with("; it must be the tokenizer of the policy"));
}

TEST_CASE("reward_grader: a reward model needs the tokens and the positions of the run") {
  Fixture f;
  f.tiny = TinyRewardModel(shape_for(12), 3);
  f.tiny.write(f.folder.path());
  const std::string begin = "reward_model.path: " + f.folder.path() + ": config.json says ";
  CHECK(f.refusal() == begin + "vocab_size 12, but the tokenizer has 13 tokens");
  LmShape shape = shape_for(13);
  shape.max_positions = f.tokens->prompt_tokens + f.tokens->answer_tokens - 1;
  f.tiny = TinyRewardModel(shape, 3);
  f.tiny.write(f.folder.path());
  CHECK(f.refusal() == begin + "max_position_embeddings " + std::to_string(shape.max_positions) +
                           ", but a prompt and an answer may have " + std::to_string(shape.max_positions + 1) +
                           " tokens together");
}

TEST_CASE("reward_grader: a run is made of its reward model") {
  Fixture f;
  const SpecFields before = made_of(f.context()), of_run = spec_fields(f.context());
  std::ranges::reverse(f.tiny.head);
  f.tiny.write(f.folder.path());
  const SpecFields now = made_of(f.context());
  const std::vector<std::string> changes = made_of_changes(before, now);
  REQUIRE(changes.size() == 1);
  const std::string name = "reward_model (the hash of the weights in reward_model.path)";
  CHECK(changes[0].starts_with(name + " was "));
  const std::string difference = spec_difference(of_run, spec_fields(f.context())).value_or("");
  CHECK(difference.starts_with(name + " is "));
  CHECK(difference.ends_with("; give this process the files of the run"));
  // A list that somebody has taken it out of is not accepted either.
  SpecFields shortened = before;
  std::erase_if(shortened, [](const auto& field) { return field.first == kRewardModel; });
  REQUIRE(made_of_changes(shortened, now).size() == 1);
  CHECK(made_of_changes(shortened, now)[0].starts_with(name + " was missing and is now "));
  // Processes that do not score have none.
  RunContext without = f.context();
  without.reward_model = nullptr;
  CHECK(made_of_changes(before, made_of(without)).empty());
  CHECK_FALSE(spec_difference(of_run, spec_fields(without)));
}

TEST_CASE("reward_grader: the weights of a reward model and their packed form count as memory") {
  Fixture f;
  f.config.model.decoder = R"({"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                               "num_key_value_heads": 1, "intermediate_size": 32})";
  for (const MemoryNeed& need : memory_needs(f.config, {}))
    if (need.setting == "reward_model.path")
      CHECK(need.bytes > static_cast<double>(8 * lm_parameter_count(f.tiny.decoder.shape)));
}
