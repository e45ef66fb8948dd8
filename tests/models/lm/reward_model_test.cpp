// Scores of reward models: those of the decoder and its head; folders that are refused.

#include "models/lm/reward_model.h"

#include <algorithm>

#include "models/decoder/value_head.h"
#include "runtime/base/errors.h"
#include "tests/models/lm/reward_models.h"
#include "tests/support/config_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr float kNoBias = 0;

// Of one text, computed alone.
float score_alone(const TinyRewardModel& model, std::vector<int32_t> ids, const std::vector<int32_t>& answer) {
  ids.insert(ids.end(), answer.begin(), answer.end());
  ParallelFor parallel(1);
  Decoder decoder(model.decoder.shape, parallel);
  decoder.load(model.decoder.weights());
  const auto tokens = static_cast<int64_t>(ids.size());
  KvStore store(model.decoder.shape, tokens);
  std::vector<float> hidden(static_cast<size_t>(tokens * model.decoder.shape.hidden));
  const std::vector<LmSequence> sequences = {{.tokens = tokens}};
  decoder.forward({ids, sequences}, store, hidden);
  const std::vector<int64_t> rows = {tokens - 1};
  std::vector<float> score(1);
  head_values(hidden, rows, {model.head, {&kNoBias, 1}}, score, parallel);
  return score[0];
}

std::string refusal(const std::string& folder) {
  return config_error_of([&] { RewardModel(posix_disk(), folder, 1); });
}

struct Fixture {
  TempFolder folder;
  TinyRewardModel model{tiny_shape(LmFamily::llama, 4), 3};
  std::string config = "reward_model.path: " + (folder / "config.json") + ": ";
  std::string file = "reward_model.path: " + (folder / "model.safetensors") + ": ";

  std::string refused() {
    model.write(folder.path());
    return refusal(folder.path());
  }
  std::string refused(const std::map<std::string, Array>& tensors) {
    model.write(folder.path(), tensors);
    return refusal(folder.path());
  }
};

}  // namespace

TEST_CASE("reward_model: a score has the bits of the decoder and its head, beside any other answers") {
  for (const LmFamily family : kFamilies)
    for (const int threads : {1, 2}) {
      const TempFolder folder;
      const TinyRewardModel tiny(tiny_shape(family, 2), 7);
      tiny.write(folder.path());
      RewardModel model(posix_disk(), folder.path(), threads);
      const LmShape& shape = tiny.decoder.shape;
      const std::vector<int32_t> prompt = random_ids(shape, 11, 1);
      std::vector<std::vector<int32_t>> answers;  // more than are computed in one pass
      for (const int64_t tokens : {1, 5, 300, 9, 1100, 40, 700, 2})
        answers.push_back(random_ids(shape, tokens % 490, static_cast<uint64_t>(tokens)));
      for (int i = 0; i < 4; ++i) answers.push_back(random_ids(shape, 480, static_cast<uint64_t>(i)));
      const std::vector<float> scores = model.score(prompt, answers);
      REQUIRE(scores.size() == answers.size());
      std::vector<float> alone;
      for (const std::vector<int32_t>& answer : answers) alone.push_back(score_alone(tiny, prompt, answer));
      CHECK(same_bits(scores, alone));
      CHECK(same_bits(model.score(prompt, {&answers[3], 1}), {alone[3]}));
      CHECK(alone[0] != alone[1]);
    }
}

TEST_CASE("reward_model: the hash is that of the weights") {
  Fixture f;
  f.model.write(f.folder.path());
  const std::string first = RewardModel(posix_disk(), f.folder.path(), 1).hash();
  CHECK(first.size() == 16);
  CHECK(RewardModel(posix_disk(), f.folder.path(), 2).hash() == first);
  for (float& weight : f.model.head) weight = -weight;
  f.model.write(f.folder.path());
  CHECK(RewardModel(posix_disk(), f.folder.path(), 1).hash() != first);
}

TEST_CASE("reward_model: another architecture is refused by name") {
  Fixture f;
  f.model.extra = R"({"id2label": {"0": "score"}})";
  CHECK(f.refused() ==
        f.config + R"(architectures: ["LlamaForCausalLM"], expected ["LlamaForSequenceClassification"], a model that )"
                   "gives a text a score");
  f.model.extra = R"({"architectures": null, "id2label": {"0": "score"}})";
  CHECK(f.refused().starts_with(f.config + "architectures: is missing, expected [\"Llama"));
  f.model.extra = R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"]})";
  CHECK(f.refused() == f.config + "model_type: bert, supported are llama, qwen2 and qwen3");
}

TEST_CASE("reward_model: another number of labels is refused by name") {
  Fixture f;
  const std::string begin = R"({"architectures": ["LlamaForSequenceClassification"])";
  f.model.extra = begin + R"(, "id2label": {"0": "bad", "1": "good"}})";
  CHECK(f.refused() == f.config + "id2label: 2 labels, expected 1, the score");
  f.model.extra = begin + R"(, "id2label": ["a"]})";
  CHECK(f.refused() == f.config + "id2label: [\"a\"], expected an object with one label");
  f.model.extra = begin + R"(, "num_labels": 3})";
  CHECK(f.refused() == f.config + "num_labels: 3 labels, expected 1, the score");
  f.model.extra = begin + '}';
  CHECK(f.refused() == f.config + "num_labels: 2 labels, the default of transformers, expected 1, the score");
  f.model.extra = begin + R"(, "num_labels": 1})";
  CHECK(f.refused() == "no error");
}

TEST_CASE("reward_model: a head of another shape, with a bias or without weights is refused") {
  Fixture f;
  const std::string hidden = std::to_string(f.model.decoder.shape.hidden);
  auto tensors = f.model.tensors();
  tensors["score.bias"] = Array::of(std::vector<float>{1});
  CHECK(f.refused(tensors).starts_with(f.file + "tensor score.bias float32 [1] is not one of the model"));
  tensors.erase("score.bias");
  tensors["score.weight"] =
      Array::of<float>({2, f.model.decoder.shape.hidden}, random_floats(2 * f.model.decoder.shape.hidden, 1));
  CHECK(f.refused(tensors).starts_with(f.file + "tensor score.weight is float32 [2, " + hidden +
                                       "], expected the shape [1, " + hidden + "]"));
  tensors.erase("score.weight");
  CHECK(f.refused(tensors) == "reward_model.path: " + f.folder.path() +
                                  ": tensor score.weight is missing, config.json expects it with the shape [1, " +
                                  hidden + "]");
  CHECK(refusal("/nowhere") ==
        "reward_model.path: /nowhere: there is no such folder, expected one with config.json and model.safetensors");
  CHECK(refusal("/nowhere/rlhf_reward")
            .ends_with("; `python -m troupe.reward_model --example` makes that of "
                       "configs/tokens/rlhf.json"));
}

TEST_CASE("reward_model: an output layer is ignored") {
  Fixture f;
  auto tensors = f.model.tensors();
  tensors["lm_head.weight"] = Array::of(std::vector<float>{1, 2, 3});
  CHECK(f.refused(tensors) == "no error");
}
