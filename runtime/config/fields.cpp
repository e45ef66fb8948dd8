#include "runtime/config/fields.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string_view Field::section() const { return section_of(path); }

void Section::put(FieldValue value, std::string_view key, Setting setting, std::string_view help,
                  const More& more) const {
  using Kind = Setting::Kind;
  constexpr Kind kKinds[] = {Kind::boolean, Kind::integer,  Kind::unsigned_integer, Kind::number,       Kind::number,
                             Kind::text,    Kind::integers, Kind::milliseconds,     Kind::microseconds, Kind::object};
  static_assert(std::size(kKinds) == std::variant_size_v<FieldValue>);
  setting.key = key;
  setting.kind = kKinds[value.index()];
  setting.help = help;
  setting.unset = more.unset;
  setting.elsewhere = more.elsewhere;
  setting.owner = owner_;
  setting.change = more.change.value_or(change_);
  std::vector<Need> needs = needs_;
  needs.insert(needs.end(), more.needs.begin(), more.needs.end());
  const std::string path = std::string(name_) + (name_.empty() ? "" : ".") + std::string(key);
  fields_.push_back({path, setting, value, std::move(needs)});
}

const Field* find_field(const Fields& fields, std::string_view path) {
  const auto it = std::ranges::find(fields, path, &Field::path);
  return it == fields.end() ? nullptr : &*it;
}

double highest_of(const Fields& fields, std::string_view path) {
  const Field* field = find_field(fields, path);
  TROUPE_CHECK(field != nullptr, path);
  return field->setting.high;
}

bool is_section(const Fields& fields, std::string_view name) {
  return !name.empty() && std::ranges::any_of(fields, [&](const Field& field) { return field.section() == name; });
}

std::string keys_of(const Fields& fields, std::string_view section) {
  std::string text;
  std::string_view last;
  for (const Field& field : fields) {
    if (!section.empty() && field.section() != section) continue;
    const std::string_view name = section.empty() && !field.section().empty() ? field.section() : field.key();
    if (name != last) text.append(text.empty() ? "" : ", ").append(name);
    last = name;
  }
  return text;
}

Change change_of(const Fields& fields, std::string_view path) {
  for (const Field& field : fields) {
    const bool inside = field.setting.kind == Setting::Kind::object && path.starts_with(field.path + '.');
    if (inside || field.path == path) return field.setting.change;
  }
  return Change::never;
}

}  // namespace troupe
