#include "models/learning/answers/answer_trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "models/lm/lm_weights.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

// With an advantage of 1 for every token: maximum likelihood.
AlgorithmChoice likelihood() {
  AlgorithmConfig config;
  config.surrogate = "reinforce";
  return choose_algorithm(config);
}

}  // namespace

AnswerTrainer::AnswerTrainer(const LmModel& model, const TrainerConfig& trainer, const AlgorithmChoice& choice,
                             const AnswerTrainerOptions& options)
    : model_(model),
      shape_(model.shape),
      options_(options),
      choice_(choice),
      weights_(lm_signature(model)),
      optimizer_(trainer, weights_, model.critic == CriticKind::separate ? ClipNorm::by_group : ClipNorm::joint),
      gradients_(weights_, frees_gradients(trainer)),
      shards_(trainer.shards),
      sum_(static_cast<size_t>(trainer.shards), weights_.trained().size(), piece_elements(trainer)),
      parallel_(options.threads),
      decoder_(model.shape, parallel_),
      critic_(model_, weights_, parallel_),
      token_log_probs_(decoder_, parallel_, kLogitRows, model.tokens),
      pass_(decoder_, token_log_probs_, options.temperature),
      loss_(choice, static_cast<double>(options.answer_tokens), options.reference_kl),
      likelihood_(likelihood(), static_cast<double>(options.answer_tokens)),
      cost_(answer_cost(model.shape)),
      start_tokens_(choice_.corrects_each_step() ? &choice_ : nullptr),
      exact_kl_(options.reference && options.reference_kl.kind == KlKind::full) {
  activations_.recompute_above = options.recompute_above;
  begin_lm_weights(model, derive_key(options.seed, "model"), weights_);
  if (model.lora.used()) decoder_.load(packed_frozen(model_, parallel_));
  use_weights();
  if (!options.reference) return;
  reference_.emplace(*weights_.published());
  hold_reference();
}

void AnswerTrainer::use_policy(const WeightBlock& weights) {
  if (model_.lora.used())
    decoder_.load_adapters(adapter_weights(model_, weights));
  else
    decoder_.load(decoder_weights(model_, weights));
}

void AnswerTrainer::use_weights() {
  use_policy(weights_);
  critic_.use_weights();
}

void AnswerTrainer::hold_reference() {
  if (!reference_) return;
  reference_->adopt(*weights_.share({}));
  pack_reference();
}

void AnswerTrainer::load_reference(const std::map<std::string, Array>& weights) {
  reference_->detach();
  reference_->load(weights);
  pack_reference();
}

void AnswerTrainer::pack_reference() {
  if (!exact_kl_ || model_.lora.used()) return;
  const DecoderWeights weights = decoder_weights(model_, *reference_);
  reference_output_.pack({&weights.output, 1}, shape_.hidden, parallel_);
}

void AnswerTrainer::load_weights(const std::map<std::string, Array>& model) {
  weights_.detach();
  weights_.load(model);
  use_weights();
}

void AnswerTrainer::begin_critic() {
  weights_.detach();
  troupe::begin_critic(model_, weights_);
  use_weights();
}

namespace {

// Those of these groups, which all have a token that is kept, whose answers add to the gradient: without a critic, a
// group whose answers were all scored alike has no advantages, and is left out, unless the surrogate compares all
// tokens of the minibatch. Its tokens still divide the loss; other means in the report are over the groups that are
// used. At least one is used, and each that holds a number that is not finite, so that the step is found to be invalid.
std::vector<int64_t> groups_with_gradient(const AnswerBatch& batch, const AnswerTargets& targets,
                                          std::vector<int64_t> groups, const LossSettings& settings,
                                          SurrogateNeeds surrogate) {
  if (!targets.values.empty() || surrogate == SurrogateNeeds::batch) return groups;
  const std::vector<float>& advantages = targets.advantages;
  std::vector<int64_t> result;
  for (const int64_t g : groups) {
    const auto first = static_cast<size_t>(batch.first_token(g));
    const size_t end = first + static_cast<size_t>(batch.answer_tokens(g));
    bool used = settings.entropy_coef != 0.0 || settings.kl_coef != 0.0 || targets.reference_coef != 0.0;
    for (size_t t = first; t < end && !used; ++t)
      used = (advantages[t] != 0.0f && targets.is_kept(t)) || (batch.is_kept(t) && !std::isfinite(batch.log_probs[t]));
    if (used) result.push_back(g);
  }
  if (result.empty() && !groups.empty()) result.push_back(groups.front());
  return result;
}

}  // namespace

std::vector<size_t> AnswerTrainer::begin_step(const AnswerBatch& batch, const AnswerTargets& targets,
                                              std::span<const int64_t> groups, const UpdateSettings& settings) {
  step_ = {.batch = &batch,
           .targets = &targets,
           .settings = &settings,
           .of = &loss_,
           .corrects = choice_.corrects_each_step()};
  std::vector<int64_t> with_tokens;
  for (const int64_t g : groups) {
    const double tokens = counts_of(batch, batch.kept, g).tokens;
    if (tokens > 0) with_tokens.push_back(g);
    step_.tokens += tokens;
    step_.totals += counts_of(batch, targets.kept, g);
  }
  gradients_.clear();
  const std::vector<int64_t> used =
      groups_with_gradient(batch, targets, std::move(with_tokens), settings.loss, choice_.surrogate.entry->needs);
  cut_step(used);
  if (settings.loss.policy_figures) {
    std::vector<MicroBatch> parts;
    for (const std::vector<MicroBatch>& of_shard : step_.parts)
      parts.insert(parts.end(), of_shard.begin(), of_shard.end());
    balance_.merge(balance_of(batch, used, parts));
  }
  return step_.leaves.of_micro_batches;
}

void AnswerTrainer::cut_step(std::span<const int64_t> groups) {
  std::vector<std::vector<MicroBatch>> parts =
      cut_answers(*step_.batch, groups, {.most_tokens = options_.micro_batch_tokens, .shards = shards_, .cost = cost_});
  for (std::vector<MicroBatch>& of_shard : parts)
    std::erase_if(of_shard, [](const MicroBatch& part) { return part.empty(); });
  begin_parts(std::move(parts));
  if (exact_kl_ && !sum_.holds_all() && step_.targets->reference_coef != 0.0 && step_.settings->loss.train_policy)
    compute_reference_rows();
}

void AnswerTrainer::begin_parts(std::vector<std::vector<MicroBatch>> parts) {
  std::vector<size_t> counts;
  for (const std::vector<MicroBatch>& of_shard : parts) counts.push_back(of_shard.size());
  const ShardRange& mine = sum_.mine();
  step_.leaves = sum_.begin(std::span(counts).subspan(mine.first, mine.count), std::ranges::max(counts));
  step_.parts = std::move(parts);
  step_.losses.assign(mine.count, {});
  step_.start.assign(mine.count, {});
}

void AnswerTrainer::use_parts(std::vector<MicroBatch> parts) {
  TROUPE_CHECK(shards_ == 1, shards_);
  begin_parts({std::move(parts)});
}

void AnswerTrainer::backward(size_t part, StageClock* clock) {
  step_.clock = clock;
  sum_.go_to(step_.leaves.leaves[part], gradients_);
  step_.losses[sum_.held()].merge(accumulate(step_.parts[sum_.mine().first + sum_.held()][sum_.micro_batch()]));
}

RankPart AnswerTrainer::say_losses() {
  RankPart result = {sum_.mine(), {}, {}};
  for (const LossReport& loss : step_.losses) put(result.numbers.emplace_back(), loss);
  if (start_tokens_.is_open())
    for (const std::vector<float>& log_probs : step_.start) result.data.push_back(Array::of(log_probs));
  return result;
}

void AnswerTrainer::end_micro_batch(const RoundResult& losses) {
  sum_.end_micro_batch(gradients_);
  for (size_t shard = 0; shard < losses.data.size(); ++shard)
    start_tokens_.add(*step_.batch, step_.parts[shard], losses.data[shard].view<float>());
}

StepReport AnswerTrainer::apply(std::span<const ShardNumbers> all, const GradientSquares* squares) {
  if (sum_.holds_all() && start_tokens_.is_open())
    for (size_t shard = 0; shard < step_.start.size(); ++shard)
      start_tokens_.add(*step_.batch, step_.parts[shard], step_.start[shard]);
  start_tokens_.close();
  std::vector<LossReport> said;
  for (const ShardNumbers& numbers : all) {
    NumberReader reader(numbers);
    said.push_back(reader.take<LossReport>());
    reader.end();
  }
  LossReport loss = merged(sum_.holds_all() ? step_.losses : said);
  // A loss that is not finite must not change the weights, even if all gradients are.
  GradientSquares all_squares = squares != nullptr ? *squares : optimizer_.squares(gradients_.floats(), 0);
  if (!std::isfinite(loss.loss)) all_squares.value = std::numeric_limits<double>::quiet_NaN();
  const double used = loss.count / step_.tokens;  // below 1 only if the surrogate is the whole loss
  loss.policy_loss *= used;
  loss.loss *= used;
  // A snapshot may have the memory of the weights, so these are written elsewhere: over the gradients, or where those
  // were freed, to a copy of the weights if there is such a snapshot.
  const LearningRates rates = step_.settings->rates;
  const bool train_policy = step_.settings->loss.train_policy;
  if (!gradients_.is_paged())
    return {loss, optimizer_.step_exchanging(gradients_.memory(), rates, train_policy, all_squares)};
  if (std::isfinite(GradientNorms(all_squares, train_policy).all)) weights_.detach();
  return {loss, optimizer_.step(gradients_.floats(), rates, train_policy, all_squares)};
}

Array AnswerTrainer::parameters(ElementRange elements) {
  return Array::of({static_cast<int64_t>(elements.size())},
                   std::span<const float>(weights_.parameters().subspan(elements.begin, elements.size())));
}

StepReport AnswerTrainer::imitate(const AnswerBatch& demonstrations, double learning_rate) {
  std::vector<int64_t> groups(static_cast<size_t>(demonstrations.groups()));
  std::iota(groups.begin(), groups.end(), 0);
  AnswerTargets ones;
  ones.advantages.assign(demonstrations.tokens.size(), 1.0f);
  const UpdateSettings settings{.rates = {.policy = learning_rate, .value = 0}, .loss = {}};
  const ShardRange mine = sum_.mine();
  sum_.hold({0, static_cast<size_t>(shards_)});
  begin_step(demonstrations, ones, groups, settings);
  step_.of = &likelihood_;
  step_.corrects = false;
  const StepReport report = finish_step();
  sum_.hold(mine);
  return report;
}

StepReport AnswerTrainer::step(const AnswerBatch& batch, const AnswerTargets& targets, std::span<const int64_t> groups,
                               const UpdateSettings& settings) {
  begin_step(batch, targets, groups, settings);
  return finish_step();
}

StepReport AnswerTrainer::finish_step() {
  size_t part = 0;
  for (const size_t parts : step_.leaves.of_micro_batches) {
    for (size_t i = 0; i < parts; ++i) backward(part++);
    end_micro_batch();
  }
  const StepReport report = apply();
  if (report.applied()) use_parameters();
  return report;
}

LossReport AnswerTrainer::accumulate(const MicroBatch& answers) {
  const AnswerTargets& targets = *step_.targets;
  LossSettings settings = step_.settings->loss;
  settings.key = shard_key(settings.key, sum_.mine().first + sum_.held());
  const PackedAnswers packed = pack_answers(*step_.batch, answers);
  const double tokens = gather_kept(packed);
  if (tokens == 0) return {};  // all of its answers are masked
  const bool exact = exact_kl_ && targets.reference_coef != 0.0 && settings.train_policy;
  if (!settings.policy_figures && critic_.separate()) {
    LossReport report;
    report.count = tokens;
    add_value_loss(packed, {}, report);
    return report;
  }
  for (auto* buffer : {&part_.log_probs, &part_.entropy, &part_.d_log_probs, &part_.d_entropy})
    buffer->resize(packed.rows.size());
  for (auto* buffer : {&part_.exact_kl, &part_.d_exact_kl}) buffer->resize(exact ? packed.rows.size() : 0);
  gather_part(packed);
  const auto inputs = static_cast<int64_t>(packed.ids.size());
  hidden_.resize(inputs * shape_.hidden);
  d_hidden_.resize(inputs * shape_.hidden);
  decoder_.forward_training(packed.inputs(), activations_, hidden_.span());
  const ChosenTokens chosen{packed.rows, packed.labels, options_.temperature};
  token_log_probs_.forward(hidden_.span(), chosen, part_.log_probs, part_.entropy);
  if (start_tokens_.is_open()) {
    std::vector<float>& start = step_.start[sum_.held()];
    start.insert(start.end(), part_.log_probs.begin(), part_.log_probs.end());
  }
  if (step_.corrects) correct_part(packed);
  const ReferenceRows reference = exact ? reference_rows(packed) : ReferenceRows();
  if (exact) token_log_probs_.divergence(hidden_.span(), chosen, reference, part_.exact_kl);
  LossReport report = step_.of->compute(
      {.count = tokens,
       .share = tokens / step_.tokens,
       .log_probs = part_.log_probs,
       .old_log_probs = part_.correction.old_log_probs.empty() ? part_.behaviour : part_.correction.old_log_probs,
       .behaviour = part_.behaviour,
       .advantages = part_.advantages,
       .rollout_weights = part_.correction.weights,
       .kept = part_.correction.kept,
       .offsets = packed.offsets,
       .lags = part_.lag_classes,
       .entropy = part_.entropy,
       .reference = part_.reference,
       .reference_kl = part_.exact_kl,
       .reference_coef = targets.reference_coef},
      step_.totals, settings,
      {.log_probs = part_.d_log_probs, .entropy = part_.d_entropy, .reference_kl = part_.d_exact_kl});
  if (step_.clock != nullptr) step_.clock->mark(&UpdateStages::forward);
  const bool values = !targets.values.empty(), shared = values && !critic_.separate();
  const DecoderGradients gradients = decoder_gradients(model_, weights_, gradients_.floats());
  const std::span<float> d_hidden = settings.train_policy ? d_hidden_.span() : std::span<float>();
  if (settings.train_policy)
    token_log_probs_.backward(hidden_.span(), chosen, part_.d_log_probs, part_.d_entropy, d_hidden, gradients,
                              reference, part_.d_exact_kl);
  if (shared) add_value_loss(packed, d_hidden, report);
  Decoder::LayerComplete complete;
  if (sum_.is_last_leaf())  // other ranks can have these gradients while those of the layers before are computed
    complete = [this](const LayerTensors<float>& layer) {
      layer.for_each([this](std::span<float> tensor) { sum_.complete(tensor, gradients_, say_); });
    };
  if (settings.train_policy) decoder_.backward(packed.inputs(), activations_, d_hidden, gradients, {}, complete);
  if (values && !shared) add_value_loss(packed, {}, report);
  return report;
}

}  // namespace troupe
