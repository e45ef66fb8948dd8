// Decoders against the same network written with LibTorch in float64: hidden rows, log-probabilities and the gradient
// of every parameter.

#include <string>
#include <vector>

#include "models/decoder/token_log_probs.h"
#include "tests/support/torch_test.h"

#include "tests/models/decoder/torch_decoder.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// A group: a prompt and answers that share it.
struct Group {
  std::vector<int32_t> ids;  // [prompt][answer 1]...
  std::vector<LmSequence> sequences;
  std::vector<int64_t> rows, labels;

  Group(const LmShape& shape, int64_t prompt, const std::vector<int64_t>& answers, uint64_t seed)
      : sequences(group_sequences(prompt, answers)) {
    int64_t total = prompt;
    for (const int64_t tokens : answers) total += tokens;
    ids = random_ids(shape, total, seed);
    int64_t first = prompt;
    for (const int64_t tokens : answers) {
      for (int64_t t = 0; t < tokens; ++t) {
        rows.push_back(t == 0 ? prompt - 1 : first + t - 1);
        labels.push_back(ids[static_cast<size_t>(first + t)]);
      }
      first += tokens;
    }
  }
  int64_t prompt() const { return sequences.front().tokens; }
  // Prompt and answer `i`.
  std::vector<int32_t> whole(size_t i) const {
    const LmSequence& s = sequences[i + 1];
    std::vector<int32_t> result(ids.begin(), ids.begin() + prompt());
    result.insert(result.end(), ids.begin() + s.own_begin, ids.begin() + s.own_begin + s.tokens);
    return result;
  }
};

struct Reference {
  torch::Tensor log_probs, entropy;  // [N]
};

// Every answer behind its own copy of the prompt.
Reference reference_of(const LmShape& shape, const Parameters& p, const Group& group, double temperature) {
  std::vector<torch::Tensor> log_probs, entropy;
  const torch::Tensor output = p.at(shape.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
  for (size_t i = 0; i + 1 < group.sequences.size(); ++i) {
    const std::vector<int32_t> ids = group.whole(i);
    const int64_t tokens = group.sequences[i + 1].tokens;
    const torch::Tensor hidden = reference_hidden(shape, p, ids).slice(0, group.prompt() - 1, -1);
    const torch::Tensor all = torch::log_softmax(torch::matmul(hidden, output.t()) / temperature, -1);
    const torch::Tensor labels = torch::tensor(std::vector<int64_t>(ids.end() - tokens, ids.end())).unsqueeze(1);
    log_probs.push_back(all.gather(1, labels).squeeze(1));
    entropy.push_back(-(all.exp() * all).sum(-1));
  }
  return {torch::cat(log_probs), torch::cat(entropy)};
}

void check_group(const LmShape& shape, int64_t prompt, const std::vector<int64_t>& answers, uint64_t seed) {
  TinyModel model(shape, seed);
  const Group group(shape, prompt, answers, seed);
  const auto count = static_cast<int64_t>(group.rows.size());
  const double temperature = 0.9;
  const std::vector<float> a = random_floats(count, seed + 1), b = random_floats(count, seed + 2);

  ParallelFor parallel(2);
  Decoder decoder(shape, parallel);
  decoder.load(model.weights());
  Activations activations;
  std::vector<float> hidden(group.ids.size() * static_cast<size_t>(shape.hidden)), d_hidden(hidden.size());
  std::vector<float> log_probs(group.rows.size()), entropy(group.rows.size());
  decoder.forward_training({group.ids, group.sequences}, activations, hidden);
  TokenLogProbs tokens(decoder, parallel, 10);
  tokens.forward(hidden, {group.rows, group.labels, temperature}, log_probs, entropy);
  tokens.backward(hidden, {group.rows, group.labels, temperature}, a, b, d_hidden, model.gradient_views());
  decoder.backward({group.ids, group.sequences}, activations, d_hidden, model.gradient_views());

  const Parameters p = parameters_of(model);
  const Reference expected = reference_of(shape, p, group, temperature);
  ((expected.log_probs * torch::tensor(a)).sum() + (expected.entropy * torch::tensor(b)).sum()).backward();
  CHECK(difference(log_probs, expected.log_probs) < 1e-5);
  CHECK(difference(entropy, expected.entropy) < 1e-5);
  for (const auto& [name, parameter] : p) {
    CAPTURE(name);
    CHECK(parameter.grad().abs().max().item<double>() > 0);
    CHECK(difference(model.gradients.at(name), parameter.grad()) < 1e-5);
  }
}

}  // namespace

TEST_CASE("decoder: log-probabilities and the gradient of every parameter are those of LibTorch") {
  torch::set_num_threads(1);
  for (const LmFamily family : kFamilies)
    for (uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(name_of(family));
      CAPTURE(seed);
      check_group(tiny_shape(family, 20 + seed), 1 + 7 * static_cast<int64_t>(seed), {9, 1, 20, 13}, seed);
    }
}

TEST_CASE("decoder: many queries per block and inner dimensions of several blocks have LibTorch's gradients") {
  torch::set_num_threads(1);
  LmShape shape = tiny_shape(LmFamily::qwen3, 5);
  shape.hidden = 290;
  shape.intermediate = 300;
  shape.vocabulary = 600;
  check_group(shape, 70, {60, 100, 45}, 9);
}
