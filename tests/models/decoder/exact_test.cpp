// The same token after the same tokens gives the same bits, however it is computed.

#include <algorithm>
#include <cmath>
#include <vector>

#include "algorithms/common/cpu.h"
#include "models/decoder/token_log_probs.h"
#include "tests/support/test.h"

#include "tests/models/decoder/tiny_models.h"

using namespace troupe;
using namespace troupe::test;

namespace {

class ForcedIsa {
 public:
  explicit ForcedIsa(Isa isa) { force_isa(isa); }
  ~ForcedIsa() { force_isa(std::nullopt); }
  ForcedIsa(const ForcedIsa&) = delete;
  ForcedIsa& operator=(const ForcedIsa&) = delete;
};

// A decoder with its own threads and weights.
struct Loaded {
  ParallelFor parallel;
  Decoder decoder;

  explicit Loaded(const TinyModel& model, int threads = 1) : parallel(threads), decoder(model.shape, parallel) {
    decoder.load(model.weights());
  }
  std::vector<float> run(const std::vector<int32_t>& ids, const std::vector<LmSequence>& sequences, KvStore& store) {
    std::vector<float> hidden(ids.size() * static_cast<size_t>(decoder.shape().hidden));
    decoder.forward({ids, sequences}, store, hidden);
    return hidden;
  }
  std::vector<float> train(const std::vector<int32_t>& ids, const std::vector<LmSequence>& sequences,
                           Activations& activations) {
    std::vector<float> hidden(ids.size() * static_cast<size_t>(decoder.shape().hidden));
    decoder.forward_training({ids, sequences}, activations, hidden);
    return hidden;
  }
  // Every token by a pass of its own.
  std::vector<float> decode(const std::vector<int32_t>& ids) {
    KvStore store(decoder.shape(), static_cast<int64_t>(ids.size()));
    std::vector<float> result;
    for (size_t i = 0; i < ids.size(); ++i)
      append(result, run({ids[i]}, {{.tokens = 1, .own_before = static_cast<int64_t>(i)}}, store));
    return result;
  }
  static void append(std::vector<float>& to, const std::vector<float>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
};

// Shapes with an inner dimension above one block of k, so that a row alone is computed in other blocks than in a batch.
LmShape exact_shape(LmFamily family, uint64_t seed) {
  LmShape shape = tiny_shape(family, seed);
  shape.intermediate += 280;
  shape.layers = 2;
  return shape;
}

std::vector<float> rows_of(const std::vector<float>& hidden, int64_t first, int64_t count, int64_t width) {
  return {hidden.begin() + first * width, hidden.begin() + (first + count) * width};
}

std::vector<int32_t> joined(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  std::vector<int32_t> result = a;
  result.insert(result.end(), b.begin(), b.end());
  return result;
}

struct Random {
  Rng rng;
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng.below(static_cast<uint64_t>(high - low + 1)));
  }
};

}  // namespace

TEST_CASE("decoder: a prompt at once, in random parts, and token by token gives the same bits") {
  for (const LmFamily family : kFamilies)
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const TinyModel model(exact_shape(family, seed), seed);
      const std::vector<int32_t> ids = random_ids(model.shape, 75, seed);
      Loaded loaded(model);
      const std::vector<float> expected = loaded.decode(ids);
      KvStore store(model.shape, 75);
      CHECK(same_bits(loaded.run(ids, {{.tokens = 75}}, store), expected));

      Random random{Rng(derive_key(seed, "parts"))};
      std::vector<float> parts;
      for (int64_t done = 0; done < 75;) {
        const int64_t count = std::min<int64_t>(75 - done, random.between(1, 30));
        const std::vector<int32_t> part(ids.begin() + done, ids.begin() + done + count);
        Loaded::append(parts, loaded.run(part, {{.tokens = count, .own_before = done}}, store));
        done += count;
      }
      CHECK(same_bits(parts, expected));
    }
}

TEST_CASE("decoder: random parts on random threads and instruction sets give the bits of one thread, token by token") {
  for (const LmFamily family : kFamilies)
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const TinyModel model(exact_shape(family, seed), seed);
      const int64_t tokens = 200;
      const std::vector<int32_t> ids = random_ids(model.shape, tokens, seed);
      const std::vector<float> expected = Loaded(model).decode(ids);
      Random random{Rng(derive_key(seed, "threads"))};
      for (const int threads : {1, 2, 3, 4}) {
        Loaded loaded(model, threads);
        KvStore store(model.shape, tokens);
        std::vector<float> parts;
        for (int64_t done = 0; done < tokens;) {
          const ForcedIsa forced(available_isas()[random.rng.below(static_cast<uint64_t>(available_isas().size()))]);
          const int64_t count = std::min(tokens - done, random.between(1, 150));
          const std::vector<int32_t> part(ids.begin() + done, ids.begin() + done + count);
          Loaded::append(parts, loaded.run(part, {{.tokens = count, .own_before = done}}, store));
          done += count;
        }
        CHECK(same_bits(parts, expected));
      }
    }
}

TEST_CASE("decoder: layers of the size of SmolLM2-135M give the same bits in generation and training") {
  LmShape shape = tiny_shape(LmFamily::llama, 1);
  shape.hidden = 576, shape.heads = 9, shape.kv_heads = 3, shape.head_dim = 64, shape.intermediate = 1536;
  shape.layers = 1;
  const TinyModel model(shape, 1);
  const std::vector<int32_t> ids = random_ids(shape, 150, 1);
  Loaded loaded(model, 2);
  Activations activations;
  CHECK(same_bits(loaded.train(ids, {{.tokens = 150}}, activations), loaded.decode(ids)));
}

TEST_CASE("decoder: the forward pass of training gives the bits of decoding, whatever is packed beside") {
  for (const LmFamily family : kFamilies)
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const TinyModel model(exact_shape(family, seed), seed);
      Random random{Rng(derive_key(seed, "lengths"))};
      std::vector<std::vector<int32_t>> each;
      std::vector<int32_t> ids;
      std::vector<LmSequence> sequences;
      for (uint64_t i = 0; i < 5; ++i) {
        each.push_back(random_ids(model.shape, random.between(1, 60), 10 * seed + i));
        sequences.push_back(
            {.tokens = static_cast<int64_t>(each.back().size()), .own_begin = static_cast<int64_t>(ids.size())});
        ids = joined(ids, each.back());
      }
      Loaded loaded(model);
      std::vector<float> expected;
      for (const std::vector<int32_t>& sequence : each) Loaded::append(expected, loaded.decode(sequence));
      Activations kept, recomputed{.recompute_above = 0};
      CHECK(same_bits(loaded.train(ids, sequences, kept), expected));
      CHECK(same_bits(loaded.train(ids, sequences, recomputed), expected));
    }
}

TEST_CASE("decoder: the bits depend neither on the batch, nor on the cells and the prefix of a sequence") {
  for (const LmFamily family : kFamilies) {
    const TinyModel model(exact_shape(family, 7), 7);
    const int64_t width = model.shape.hidden;
    Loaded loaded(model);
    Random random{Rng(derive_key(7, "slots"))};
    const int64_t slots = 6, slot = 37;
    // Every second sequence has the cells behind the slots as a prefix.
    const std::vector<int32_t> prompt = random_ids(model.shape, 19, 99);
    const int64_t prefix_begin = slots * slot, prefix_end = prefix_begin + 19;
    const auto prefix_of = [&](size_t i) { return i % 2 == 1 ? 19 : 0; };
    KvStore store(model.shape, prefix_end);
    loaded.run(prompt, {{.tokens = 19, .own_begin = prefix_begin}}, store);
    std::vector<std::vector<int32_t>> ids;
    std::vector<std::vector<float>> expected;
    std::vector<int64_t> done(static_cast<size_t>(slots), 0);
    for (int64_t i = 0; i < slots; ++i) {
      ids.push_back(random_ids(model.shape, random.between(20, slot), static_cast<uint64_t>(i)));
      const std::vector<float> whole = loaded.decode(i % 2 == 1 ? joined(prompt, ids.back()) : ids.back());
      expected.push_back(
          rows_of(whole, prefix_of(static_cast<size_t>(i)), static_cast<int64_t>(ids.back().size()), width));
    }
    const auto unfinished = [&] {
      for (size_t i = 0; i < ids.size(); ++i)
        if (done[i] < static_cast<int64_t>(ids[i].size())) return true;
      return false;
    };
    while (unfinished()) {
      // Some of the sequences go on by some tokens.
      std::vector<int32_t> batch;
      std::vector<LmSequence> sequences;
      std::vector<std::vector<float>> wanted;
      for (size_t i = 0; i < ids.size(); ++i) {
        const int64_t left = static_cast<int64_t>(ids[i].size()) - done[i];
        const int64_t count = std::min(left, random.between(0, 4));
        if (count == 0) continue;
        sequences.push_back({.tokens = count,
                             .prefix_begin = prefix_begin,
                             .prefix_end = prefix_begin + prefix_of(i),
                             .own_begin = static_cast<int64_t>(i) * slot,
                             .own_before = done[i]});
        batch.insert(batch.end(), ids[i].begin() + done[i], ids[i].begin() + done[i] + count);
        wanted.push_back(rows_of(expected[i], done[i], count, width));
        done[i] += count;
      }
      if (batch.empty()) continue;
      const std::vector<float> hidden = loaded.run(batch, sequences, store);
      int64_t row = 0;
      for (const std::vector<float>& each : wanted) {
        CHECK(same_bits(rows_of(hidden, row, static_cast<int64_t>(each.size()) / width, width), each));
        row += static_cast<int64_t>(each.size()) / width;
      }
    }
  }
}

TEST_CASE("decoder: answers that share their prompt's cells get the bits of answers that do not") {
  for (const LmFamily family : kFamilies)
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const TinyModel model(exact_shape(family, seed), seed);
      const int64_t width = model.shape.hidden;
      const std::vector<int32_t> prompt = random_ids(model.shape, 21 + 6 * static_cast<int64_t>(seed), seed);
      const std::vector<int64_t> lengths = {17, 1, 40, 8};
      Loaded loaded(model);
      std::vector<int32_t> ids = prompt;
      std::vector<float> expected = loaded.decode(prompt);
      std::vector<std::vector<int32_t>> answers;
      for (size_t i = 0; i < lengths.size(); ++i) {
        answers.push_back(random_ids(model.shape, lengths[i], 100 + i));
        const std::vector<float> whole = loaded.decode(joined(prompt, answers.back()));
        Loaded::append(expected, rows_of(whole, static_cast<int64_t>(prompt.size()), lengths[i], width));
        ids = joined(ids, answers.back());
      }
      Activations activations;
      const auto prompt_size = static_cast<int64_t>(prompt.size());
      CHECK(same_bits(loaded.train(ids, group_sequences(prompt_size, lengths), activations), expected));

      // Generation: the prompt in one place, each answer token by token in another.
      KvStore store(model.shape, 300);
      loaded.run(prompt, {{.tokens = prompt_size, .own_begin = 101}}, store);
      int64_t row = prompt_size;
      for (size_t i = 0; i < answers.size(); ++i)
        for (int64_t t = 0; t < lengths[i]; ++t, ++row)
          CHECK(same_bits(loaded.run({answers[i][static_cast<size_t>(t)]},
                                     {{.tokens = 1,
                                       .prefix_begin = 101,
                                       .prefix_end = 101 + prompt_size,
                                       .own_begin = 3,
                                       .own_before = t}},
                                     store),
                          rows_of(expected, row, 1, width)));
    }
}

TEST_CASE("decoder: hidden rows, log-probabilities and gradients have the same bits on all threads and processors") {
  for (const LmFamily family : kFamilies) {
    TinyModel model(exact_shape(family, 3), 3);
    const int64_t width = model.shape.hidden, prompt = 40;
    const std::vector<LmSequence> sequences = group_sequences(prompt, {50, 3, 80, 60});
    const std::vector<int32_t> ids = random_ids(model.shape, 233, 3);
    const std::vector<float> d_log_probs = random_floats(193, 4), d_entropy = random_floats(193, 5);
    std::vector<int64_t> rows, labels;
    int64_t first = prompt;
    for (size_t s = 1; s < sequences.size(); ++s) {
      for (int64_t t = 0; t < sequences[s].tokens; ++t) {
        rows.push_back(t == 0 ? prompt - 1 : first + t - 1);
        labels.push_back(ids[static_cast<size_t>(first + t)]);
      }
      first += sequences[s].tokens;
    }
    const auto results = [&](int threads, int64_t recompute_above, int64_t chunk) {
      Loaded loaded(model, threads);
      Activations activations{.recompute_above = recompute_above};
      std::vector<float> hidden = loaded.train(ids, sequences, activations),
                         d_hidden(ids.size() * static_cast<size_t>(width));
      std::vector<float> log_probs(rows.size()), entropy(rows.size());
      TokenLogProbs tokens(loaded.decoder, loaded.parallel, chunk);
      tokens.forward(hidden, {rows, labels, 0.8}, log_probs, entropy);
      model.clear_gradients();
      tokens.backward(hidden, {rows, labels, 0.8}, d_log_probs, d_entropy, d_hidden, model.gradient_views());
      loaded.decoder.backward({ids, sequences}, activations, d_hidden, model.gradient_views());
      std::vector<float> all = hidden;
      for (const std::vector<float>& part : {log_probs, entropy, d_hidden}) Loaded::append(all, part);
      for (const auto& [name, gradient] : model.gradients) Loaded::append(all, gradient);
      return all;
    };
    const std::vector<float> expected = results(1, INT64_MAX, 64);
    CHECK(std::ranges::any_of(expected, [](float x) { return x != 0; }));
    CHECK(std::ranges::all_of(expected, [](float x) { return std::isfinite(x); }));
    for (const int threads : {2, 3, 5}) CHECK(same_bits(results(threads, INT64_MAX, 64), expected));
    CHECK(same_bits(results(1, 0, 64), expected));   // every layer computed again
    CHECK(same_bits(results(2, 232, 1), expected));  // the same, with one row of logits at a time
    for (const Isa isa : available_isas()) {
      const ForcedIsa forced(isa);
      CAPTURE(name_of(isa));
      CHECK(same_bits(results(2, INT64_MAX, 500), expected));
    }
  }
}

TEST_CASE("decoder: a batch that does not fit is refused") {
  const TinyModel model(tiny_shape(LmFamily::llama, 1), 1);
  Loaded loaded(model);
  KvStore store(model.shape, 16);
  Activations activations;
  CHECK_THROWS_AS(loaded.run({static_cast<int32_t>(model.shape.vocabulary)}, {{.tokens = 1}}, store), InvariantError);
  CHECK_THROWS_AS(loaded.run({1, 2}, {{.tokens = 1}}, store), InvariantError);
  CHECK_THROWS_AS(loaded.run({1}, {{.tokens = 1, .own_begin = 16}}, store), InvariantError);
  CHECK_THROWS_AS(loaded.train({1}, {{.tokens = 1, .own_begin = 3}}, activations), InvariantError);
}
