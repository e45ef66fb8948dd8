#pragma once
// inspect() of messages with a body of one of several kinds: a std::variant of structs, each of which calls a function
// with its fields (`fields`).

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include <caf/error.hpp>
#include <caf/sec.hpp>

namespace troupe {

// Makes `body` an empty one of the kind with this index; false if there is none.
template <size_t Kind = 0, class Body>
bool make_body(Body& body, size_t kind) {
  if constexpr (Kind == std::variant_size_v<Body>) {
    return false;
  } else {
    if (kind != Kind) return make_body<Kind + 1>(body, kind);
    body.template emplace<Kind>();
    return true;
  }
}

// Calls `head` with the index of the kind, which inspects it after what comes before the body, and then inspects the
// fields of the body.
template <class Inspector, class Body, class Head>
typename Inspector::result_type inspect_kinds(Inspector& f, Body& body, const Head& head) {
  using Result = typename Inspector::result_type;
  auto kind = static_cast<uint8_t>(body.index());
  const auto all = [&f](auto&... fields) -> Result {
    if constexpr (sizeof...(fields) == 0)
      return Result();
    else
      return f(fields...);
  };
  const auto rest = [&]() -> Result { return std::visit([&](auto& each) { return each.fields(each, all); }, body); };
  if constexpr (std::is_void_v<Result>) {
    head(kind);
    rest();
  } else {
    if (auto error = head(kind)) return error;
    if constexpr (Inspector::writes_state)
      if (!make_body(body, kind)) return caf::make_error(caf::sec::invalid_argument, "no such kind of body");
    return rest();
  }
}

}  // namespace troupe
