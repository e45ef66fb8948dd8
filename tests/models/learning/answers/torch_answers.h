#pragma once
// Log-probabilities of answers in float64. Include it after tests/support/torch_test.h.

#include <map>
#include <string>
#include <vector>

#include "models/learning/answers/answer_batch.h"
#include "tests/models/decoder/torch_decoder.h"

namespace troupe::test {

// Weights by name, in float64 and with gradients.
inline Parameters parameters_of(const std::map<std::string, Array>& weights) {
  Parameters result;
  for (const auto& [name, tensor] : weights) {
    if (tensor.dtype() != DType::f32) continue;
    const std::span<const float> values = tensor.view<float>();
    const std::vector<int64_t> sizes(tensor.shape().begin(), tensor.shape().end());
    result[name] = torch::tensor(std::vector<float>(values.begin(), values.end())).to(torch::kDouble).reshape(sizes);
    result[name].requires_grad_();
  }
  return result;
}

// [T] of the tokens of an answer to a prompt.
inline torch::Tensor answer_log_probs(const LmShape& shape, const Parameters& p, const std::vector<int32_t>& prompt,
                                      const std::vector<int32_t>& answer, double temperature = 1) {
  std::vector<int32_t> ids = prompt;
  ids.insert(ids.end(), answer.begin(), answer.end());
  const torch::Tensor hidden = reference_hidden(shape, p, ids).slice(0, static_cast<int64_t>(prompt.size()) - 1, -1);
  const torch::Tensor& output = p.at(shape.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
  const torch::Tensor all = torch::log_softmax(torch::matmul(hidden, output.t()) / temperature, -1);
  const torch::Tensor labels = torch::tensor(std::vector<int64_t>(answer.begin(), answer.end())).unsqueeze(1);
  return all.gather(1, labels).squeeze(1);
}

// Of all tokens of a batch, in its order.
inline std::vector<double> batch_log_probs(const LmShape& shape, const Parameters& p, const AnswerBatch& batch,
                                           double temperature = 1) {
  std::vector<double> result;
  for (int64_t g = 0; g < batch.groups(); ++g) {
    const auto at = [](int64_t i) { return static_cast<size_t>(i); };
    const std::vector<int32_t> prompt(batch.prompts.begin() + batch.prompt_offsets[at(g)],
                                      batch.prompts.begin() + batch.prompt_offsets[at(g + 1)]);
    for (int64_t a = batch.group_offsets[at(g)]; a < batch.group_offsets[at(g + 1)]; ++a) {
      const std::vector<int32_t> answer(batch.tokens.begin() + batch.offsets[at(a)],
                                        batch.tokens.begin() + batch.offsets[at(a + 1)]);
      const torch::Tensor log_probs = answer_log_probs(shape, p, prompt, answer, temperature).detach();
      for (int64_t t = 0; t < log_probs.size(0); ++t) result.push_back(log_probs[t].item<double>());
    }
  }
  return result;
}

}  // namespace troupe::test
