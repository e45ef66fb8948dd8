#include "sim/fake_slices.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::sim {

namespace {

// After n updates the first moment of element i is (i + 1) * (1 + 2 + ... + n), the second one (i + 1) * n, and the
// parameter is the sum of the first moments after 1, 2, ... n updates. With few updates and elements they are exact.
float factor(size_t element) { return static_cast<float>(element + 1); }

template <class Value>
Array array_of(ElementRange elements, Value value) {
  std::vector<float> values;
  for (size_t i = elements.begin; i < elements.end; ++i) values.push_back(value(i));
  return Array::of(values);
}

Array sum_of(const Array& a, const Array& b) {
  Array result = a.clone();
  const auto values = result.mutable_view<float>();
  std::ranges::transform(values, b.view<float>(), values.begin(), [](float x, float y) { return x + y; });
  return result;
}

}  // namespace

AdamMoments moments_after(uint64_t updates, ElementRange elements) {
  const auto n = static_cast<float>(updates), sum = n * (n + 1) / 2;
  return {elements, array_of(elements, [&](size_t i) { return factor(i) * sum; }),
          array_of(elements, [&](size_t i) { return factor(i) * n; })};
}

Array parameters_after(uint64_t updates, ElementRange elements) {
  const uint64_t whole = updates * (updates + 1) * (updates + 2) / 6;  // without remainder
  const auto sum = static_cast<float>(whole);
  return array_of(elements, [&](size_t i) { return factor(i) * sum; });
}

bool same_values(const Array& a, const Array& b) { return std::ranges::equal(a.view<float>(), b.view<float>()); }

bool are_after(const AdamMoments& moments, uint64_t updates) {
  const AdamMoments expected = moments_after(updates, moments.elements);
  return same_values(moments.first, expected.first) && same_values(moments.second, expected.second);
}

FakeSlices::FakeSlices(size_t elements, size_t each)
    : each_(each),
      slices_(elements),
      parameters_(parameters_after(0, {0, elements})),
      moments_(moments_after(0, {0, elements})) {}

void FakeSlices::hold(size_t rank, size_t ranks) {
  TROUPE_CHECK(rank < ranks, rank, ranks);
  slices_ = ParameterSlices(elements(), ranks);
  rank_ = rank;
}

void FakeSlices::load(const Array& parameters, const AdamMoments& moments) {
  TROUPE_CHECK(moments.elements == own(), moments.elements.begin, moments.elements.end, own().begin, own().end);
  parameters_ = parameters;
  moments_ = moments;
}

void FakeSlices::step(uint64_t update) {
  const ElementRange mine = own();
  const auto n = static_cast<float>(update + 1);
  moments_.first = sum_of(moments_.first, array_of(mine, [&](size_t i) { return factor(i) * n; }));
  moments_.second = sum_of(moments_.second, array_of(mine, factor));
  parameters_ = parameters_.clone();
  const auto trained = parameters_.mutable_view<float>().subspan(mine.begin, mine.size());
  std::ranges::transform(trained, moments_.first.view<float>(), trained.begin(),
                         [](float parameter, float moment) { return parameter + moment; });
}

Array FakeSlices::squares_of(uint64_t update, size_t rank) const {
  std::vector<double> squares;
  for (size_t block = slices_.first_block(rank); block < slices_.first_block(rank + 1); ++block)
    squares.push_back(static_cast<double>(1000 * update + block));
  return Array::of(squares);
}

size_t FakeSlices::say_squares(uint64_t update, const Say& say) const {
  say(rank_, squares_of(update, rank_));
  return slices_.ranks() - 1;
}

std::string FakeSlices::take_squares(uint64_t update, size_t rank, const Array& squares) const {
  if (rank >= slices_.ranks() || rank == rank_) return "has the squares of rank " + std::to_string(rank);
  const Array expected = squares_of(update, rank);
  if (squares.size() != expected.size()) return "has the squares of another slice";
  return std::ranges::equal(squares.view<double>(), expected.view<double>()) ? "" : "has the squares of another update";
}

size_t FakeSlices::say_parameters(const Say& say) const {
  const std::vector<ParameterSlices::Piece> pieces = slices_.pieces(each_);
  size_t others = 0;
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    const ElementRange elements = pieces[piece].elements;
    if (pieces[piece].rank != rank_)
      ++others;
    else
      say(piece, parameters_.slice(static_cast<int64_t>(elements.begin), static_cast<int64_t>(elements.end)).clone());
  }
  return others;
}

std::string FakeSlices::take_parameters(uint64_t update, size_t piece, const Array& values) {
  const std::vector<ParameterSlices::Piece> pieces = slices_.pieces(each_);
  if (piece >= pieces.size() || pieces[piece].rank == rank_) return "has parameters that nobody says";
  const ElementRange elements = pieces[piece].elements;
  if (values.size() != static_cast<int64_t>(elements.size())) return "has the parameters of another slice";
  if (!same_values(values, parameters_after(update + 1, elements))) return "has parameters after another update";
  parameters_ = parameters_.clone();
  std::ranges::copy(values.view<float>(), parameters_.mutable_view<float>().subspan(elements.begin).begin());
  return "";
}

}  // namespace troupe::sim
