#include "models/shards/kept_moments.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

void KeptMoments::divide(std::optional<AdamMoments> next) {
  *this = {};
  next_ = std::move(next);
}

void KeptMoments::begin(AdamMoments own) {
  if (own_ || after_) TROUPE_CHECK(has_copy(), copied_, next_->elements.size());
  if (after_) next_ = std::move(after_);
  after_.reset();
  copied_ = 0;
  own_ = std::move(own);
}

void KeptMoments::add(const AdamMoments& piece) {
  TROUPE_CHECK(next_.has_value(), piece.elements.begin);
  const ElementRange all = next_->elements;
  TROUPE_CHECK(piece.elements.begin == all.begin + copied_ && piece.elements.end <= all.end, piece.elements.begin,
               piece.elements.end, copied_);
  const Shape shape{static_cast<int64_t>(all.size())};
  if (!after_) after_ = AdamMoments{all, Array(DType::f32, shape), Array(DType::f32, shape)};
  const auto copy = [&](const Array& from, Array& to) {
    const auto values = from.view<float>();
    TROUPE_CHECK(values.size() == piece.elements.size(), values.size(), piece.elements.size());
    std::ranges::copy(values, to.mutable_view<float>().subspan(copied_).begin());
  };
  copy(piece.first, after_->first);
  copy(piece.second, after_->second);
  copied_ += piece.elements.size();
}

std::vector<AdamMoments> KeptMoments::before() const {
  std::vector<AdamMoments> result = {own_.value()};
  if (next_) result.push_back(*next_);
  return result;
}

std::vector<AdamMoments> KeptMoments::after(AdamMoments own) const {
  std::vector<AdamMoments> result = {std::move(own)};
  if (after_ && has_copy())
    result.push_back(*after_);
  else if (next_ && !own_)
    result.push_back(*next_);
  return result;
}

void in_pieces(const AdamMoments& moments, size_t each, const std::function<void(AdamMoments piece)>& say) {
  const size_t count = moments.elements.size();
  for (size_t begin = 0; begin < count; begin += each) {
    const size_t end = std::min(begin + each, count);
    const auto part = [&](const Array& all) {
      return all.slice(static_cast<int64_t>(begin), static_cast<int64_t>(end));
    };
    say({{moments.elements.begin + begin, moments.elements.begin + end}, part(moments.first), part(moments.second)});
  }
}

}  // namespace troupe
