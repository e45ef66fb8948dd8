#include "models/learning/answers/answer_parts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "algorithms/balance/karmarkar_karp.h"
#include "algorithms/balance/micro_batches.h"
#include "models/learning/minibatch.h"

namespace troupe {
namespace {

// What is put into a micro-batch as a whole: answers to one prompt.
struct Piece {
  MicroBatch answers;
  int64_t tokens = 0;  // with the prompt
  double cost = 0;
};

Piece piece_of(const AnswerBatch& batch, const AnswerCost& cost, int64_t group, MicroBatch answers) {
  const int64_t prompt = batch.prompt_tokens(group);
  Piece piece{std::move(answers), prompt, cost.of_prompt(prompt)};
  for (const int64_t a : piece.answers) {
    piece.tokens += batch.read_tokens_of(a);
    piece.cost += cost.of_answer(batch.read_tokens_of(a), prompt);
  }
  return piece;
}

// `count` numbers from `first` on.
std::vector<int64_t> numbers(int64_t first, int64_t count) {
  std::vector<int64_t> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), first);
  return result;
}

MicroBatch answers_to(const AnswerBatch& batch, int64_t group) {
  return numbers(batch.group_offsets[static_cast<size_t>(group)], batch.answers_of(group));
}

// Tokens of the prompt and all answers to it.
int64_t group_tokens(const AnswerBatch& batch, int64_t group) {
  int64_t sum = batch.prompt_tokens(group);
  for (const int64_t a : answers_to(batch, group)) sum += batch.read_tokens_of(a);
  return sum;
}

// The costs as whole numbers, in parts of 2^40 of all together.
std::vector<int64_t> whole_numbers(std::span<const double> costs) {
  constexpr double kAll = 1099511627776.0;
  const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::vector<int64_t> result;
  for (const double cost : costs) result.push_back(static_cast<int64_t>(std::llround(cost / sum * kAll)));
  return result;
}

std::vector<MicroBatch> joined(std::span<const Piece> pieces, const Partition& parts) {
  std::vector<MicroBatch> result;
  for (const std::vector<int64_t>& part : parts) {
    MicroBatch& answers = result.emplace_back();
    for (const int64_t i : part) {
      const MicroBatch& more = pieces[static_cast<size_t>(i)].answers;
      answers.insert(answers.end(), more.begin(), more.end());
    }
    std::ranges::sort(answers);
  }
  return result;
}

// The group as a whole, or in as few pieces as there can be.
void add_pieces(const AnswerBatch& batch, const AnswerCost& cost, int64_t group, int64_t most_tokens,
                std::vector<Piece>& to) {
  Piece whole = piece_of(batch, cost, group, answers_to(batch, group));
  if (whole.tokens <= most_tokens) return to.push_back(std::move(whole));
  std::vector<int64_t> lengths;
  for (const int64_t a : whole.answers) lengths.push_back(batch.read_tokens_of(a));
  for (const std::vector<int64_t>& part :
       micro_batches(lengths, {.max_tokens = most_tokens - batch.prompt_tokens(group), .sort = false})) {
    MicroBatch answers;
    for (const int64_t i : part) answers.push_back(whole.answers[static_cast<size_t>(i)]);
    to.push_back(piece_of(batch, cost, group, std::move(answers)));
  }
}

// Whole groups, as far as these fit, balanced by their costs.
std::vector<MicroBatch> cut_between_groups(const AnswerBatch& batch, std::span<const int64_t> groups,
                                           const AnswerCut& cut) {
  std::vector<Piece> pieces;
  for (const int64_t g : groups) add_pieces(batch, cut.cost, g, cut.most_tokens, pieces);
  std::vector<int64_t> tokens;
  std::vector<double> costs;
  for (const Piece& piece : pieces) {
    tokens.push_back(piece.tokens);
    costs.push_back(piece.cost);
  }
  const std::vector<int64_t> whole = whole_numbers(costs);
  return joined(pieces,
                micro_batches(tokens, {.max_tokens = cut.most_tokens, .divided_by = cut.shards, .work = whole}));
}

// Puts each answer where its prompt is already, else where there is most room, else into a new micro-batch. The largest
// groups come first, and of a group the longest answers.
std::vector<MicroBatch> fill(const AnswerBatch& batch, std::span<const int64_t> groups, int64_t most_tokens) {
  using Loads = std::set<std::pair<int64_t, size_t>>;  // tokens of micro-batches, and their indices
  std::vector<MicroBatch> parts;
  Loads without_prompt;
  for (const int64_t g : groups) {
    Loads with_prompt;
    MicroBatch answers = answers_to(batch, g);
    std::ranges::stable_sort(answers, std::greater<>(), [&](int64_t a) { return batch.read_tokens_of(a); });
    for (const int64_t a : answers) {
      const auto has_room = [&](const Loads& loads, int64_t more) {
        return !loads.empty() && loads.begin()->first + more <= most_tokens;
      };
      const int64_t tokens = batch.read_tokens_of(a), with_own = tokens + batch.prompt_tokens(g);
      std::pair<int64_t, size_t> load{0, parts.size()};
      int64_t added = with_own;
      if (has_room(with_prompt, tokens)) {
        load = with_prompt.extract(with_prompt.begin()).value();
        added = tokens;
      } else if (has_room(without_prompt, with_own)) {
        load = without_prompt.extract(without_prompt.begin()).value();
      } else {
        parts.emplace_back();
      }
      parts[load.second].push_back(a);
      with_prompt.emplace(load.first + added, load.second);
    }
    without_prompt.merge(with_prompt);
  }
  return parts;
}

// Divides groups freely. As few micro-batches as fill() finds, and then with a limit as small as these allow, so that
// they are even.
std::vector<MicroBatch> cut_inside_groups(const AnswerBatch& batch, std::span<const int64_t> groups,
                                          int64_t most_tokens, int64_t longest, int64_t shards) {
  std::vector<int64_t> order(groups.begin(), groups.end());
  std::ranges::stable_sort(order, std::greater<>(), [&](int64_t g) { return group_tokens(batch, g); });
  std::vector<MicroBatch> parts = fill(batch, order, most_tokens);
  const size_t count =
      (parts.size() + static_cast<size_t>(shards) - 1) / static_cast<size_t>(shards) * static_cast<size_t>(shards);
  for (int64_t low = longest, high = most_tokens; low < high;) {
    const int64_t middle = low + (high - low) / 2;
    std::vector<MicroBatch> even = fill(batch, order, middle);
    if (even.size() > count) {
      low = middle + 1;
    } else {
      parts = std::move(even);
      high = middle;
    }
  }
  for (MicroBatch& part : parts) std::ranges::sort(part);
  parts.resize(std::max(count, parts.size()));
  return parts;
}

// The fewest micro-batches that could hold the tokens.
int64_t fewest(const AnswerBatch& batch, std::span<const int64_t> groups, int64_t most_tokens) {
  int64_t tokens = 0;
  for (const int64_t g : groups) tokens += group_tokens(batch, g);
  return (tokens + most_tokens - 1) / most_tokens;
}

// of_prompt(tokens) for each prompt, and of_answer(tokens, prompt tokens) for each answer, added.
template <class Prompt, class Answer>
auto sum_over(const AnswerBatch& batch, std::span<const int64_t> answers, Prompt of_prompt, Answer of_answer) {
  decltype(of_prompt(0)) sum = 0;
  for (int64_t group = -1; const int64_t a : answers) {
    const int64_t of = batch.group_of(a), prompt = batch.prompt_tokens(of);
    if (std::exchange(group, of) != of) sum += of_prompt(prompt);
    sum += of_answer(batch.read_tokens_of(a), prompt);
  }
  return sum;
}

double cost_of(const AnswerBatch& batch, const AnswerCost& cost, const MicroBatch& answers) {
  return sum_over(
      batch, answers, [&](int64_t prompt) { return cost.of_prompt(prompt); },
      [&](int64_t tokens, int64_t prompt) { return cost.of_answer(tokens, prompt); });
}

}  // namespace

double AnswerCost::of_prompt(int64_t tokens) const {
  const auto n = static_cast<double>(tokens);
  return input * n + pair * n * (n + 1) / 2;
}

double AnswerCost::of_answer(int64_t tokens, int64_t prompt_tokens) const {
  const auto n = static_cast<double>(tokens);
  return (input + label) * n + pair * n * (static_cast<double>(prompt_tokens) + (n + 1) / 2);
}

AnswerCost answer_cost(const LmShape& s) {
  const auto product = [](int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  const double layer = product(s.hidden, 2 * s.query_width() + 2 * s.kv_width() + 3 * s.intermediate);
  const auto layers = static_cast<double>(s.layers);
  return {.input = layers * layer,
          .label = product(s.hidden, s.vocabulary),
          .pair = layers * 2 * static_cast<double>(s.query_width())};
}

std::vector<std::vector<int64_t>> answer_minibatches(const AnswerBatch& batch, std::pair<int64_t, int64_t> groups,
                                                     int64_t parts, uint64_t key) {
  const std::vector<int64_t> all = numbers(groups.first, groups.second - groups.first);
  EpochOrder order{.indices = {}, .offsets = {0}};  // of answers, each by its group
  for (const int64_t g : shuffled(all, key).indices) {
    order.indices.insert(order.indices.end(), static_cast<size_t>(batch.answers_of(g)), g);
    order.offsets.push_back(static_cast<int64_t>(order.indices.size()));
  }
  std::vector<std::vector<int64_t>> result;
  for (const SampleRange& part : minibatches(order, parts)) {
    std::ranges::unique_copy(part.indices, std::back_inserter(result.emplace_back()));
  }
  return result;
}

std::vector<std::vector<int64_t>> answer_minibatches(const AnswerBatch& batch, int64_t parts, uint64_t key) {
  return answer_minibatches(batch, {0, batch.groups()}, parts, key);
}

int64_t tokens_of(const AnswerBatch& batch, std::span<const int64_t> answers) {
  return sum_over(
      batch, answers, [](int64_t prompt) { return prompt; }, [](int64_t tokens, int64_t) { return tokens; });
}

std::vector<std::vector<MicroBatch>> cut_answers(const AnswerBatch& batch, std::span<const int64_t> groups,
                                                 const AnswerCut& cut) {
  if (groups.empty()) return std::vector<std::vector<MicroBatch>>(static_cast<size_t>(cut.shards));
  int64_t longest = 0, all = 0;
  for (const int64_t g : groups) {
    for (const int64_t a : answers_to(batch, g))
      longest = std::max(longest, batch.prompt_tokens(g) + batch.read_tokens_of(a));
    all += group_tokens(batch, g);
  }
  AnswerCut with_limit = cut;
  with_limit.most_tokens = std::max(longest, cut.most_tokens > 0 ? cut.most_tokens : all);
  std::vector<MicroBatch> parts = cut_between_groups(batch, groups, with_limit);
  if (std::ssize(parts) > fewest(batch, groups, with_limit.most_tokens) + cut.shards) {
    std::vector<MicroBatch> divided = cut_inside_groups(batch, groups, with_limit.most_tokens, longest, cut.shards);
    if (divided.size() < parts.size()) parts = std::move(divided);
  }
  std::vector<double> costs;
  for (const MicroBatch& part : parts) costs.push_back(cost_of(batch, cut.cost, part));
  Partition of_shards = cut.shards == 1 ? Partition{numbers(0, std::ssize(parts))}
                                        : karmarkar_karp(whole_numbers(costs), cut.shards, /*equal_size=*/true);
  std::vector<std::vector<MicroBatch>> result;
  for (std::vector<int64_t>& of_shard : of_shards) {
    std::ranges::sort(of_shard, [&](int64_t a, int64_t b) {
      const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
      return std::pair(-costs[i], parts[i]) < std::pair(-costs[j], parts[j]);
    });
    std::vector<MicroBatch>& to = result.emplace_back();
    for (const int64_t i : of_shard) to.push_back(std::move(parts[static_cast<size_t>(i)]));
  }
  return result;
}

std::vector<MicroBatch> cut_answers(const AnswerBatch& batch, int64_t most_tokens, const AnswerCost& cost) {
  return cut_answers(batch, numbers(0, batch.groups()), {.most_tokens = most_tokens, .cost = cost}).front();
}

BalanceFigures balance_of(const AnswerBatch& batch, std::span<const int64_t> groups,
                          std::span<const MicroBatch> micro_batches) {
  BalanceFigures result;
  const auto add = [&](std::span<const int64_t> answers, double& least, double& most, bool first) {
    const auto tokens = static_cast<double>(tokens_of(batch, answers));
    least = first ? tokens : std::min(least, tokens);
    most = std::max(most, tokens);
    return tokens;
  };
  for (const MicroBatch& part : micro_batches) {
    if (part.empty()) continue;
    result.sum += add(part, result.least, result.most, result.count == 0);
    ++result.count;
  }
  MicroBatch all;
  for (const int64_t g : groups) {
    const MicroBatch answers = answers_to(batch, g);
    all.insert(all.end(), answers.begin(), answers.end());
  }
  const auto parts = static_cast<size_t>(result.count);
  for (size_t i = 0; i < parts; ++i) {
    const size_t begin = all.size() * i / parts, end = all.size() * (i + 1) / parts;
    add(std::span(all).subspan(begin, end - begin), result.least_by_answers, result.most_by_answers, i == 0);
  }
  return result;
}

}  // namespace troupe
