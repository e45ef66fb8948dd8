#include "models/learning/answers/answer_pass.h"

namespace troupe {

void scatter(std::span<const float> from, std::span<const int64_t> places, std::span<float> to) {
  if (to.empty()) return;
  for (size_t i = 0; i < places.size(); ++i) to[static_cast<size_t>(places[i])] = from[i];
}

KvStore& AnswerPass::store(const PackedAnswers& packed) {
  const auto inputs = static_cast<int64_t>(packed.ids.size());
  if (!store_ || store_->layers.front().cells() < inputs) store_.emplace(decoder_.shape(), inputs);
  return *store_;
}

void AnswerPass::forward(const PackedAnswers& packed, FloatBuffer& hidden) {
  hidden.resize(static_cast<int64_t>(packed.ids.size()) * decoder_.shape().hidden);
  decoder_.forward(packed.inputs(), store(packed), hidden.span());
}

void AnswerPass::log_probs(const PackedAnswers& packed, std::span<const float> hidden, std::span<float> log_probs,
                           std::span<float> squared) {
  log_probs_.resize(packed.rows.size());
  squared_.resize(squared.empty() ? 0 : packed.rows.size());
  token_log_probs_.forward(hidden, {packed.rows, packed.labels, temperature_}, log_probs_, {}, squared_);
  scatter(log_probs_, packed.places, log_probs);
  scatter(squared_, packed.places, squared);
}

}  // namespace troupe
