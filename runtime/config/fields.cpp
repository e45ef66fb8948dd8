#include "runtime/config/fields.h"

#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string_view key_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

// Slips between two paths: over the whole, or over the key alone plus one for another section.
size_t slips(std::string_view wrong, std::string_view right) {
  const size_t elsewhere = section_of(wrong) == section_of(right) ? 0 : 1;
  if (key_of(right).starts_with(std::string(key_of(wrong)) + '_')) return 1 + elsewhere;  // "timeout" for "timeout_us"
  return std::min(edit_distance(wrong, right), edit_distance(key_of(wrong), key_of(right)) + elsewhere);
}

// The fields that another library calls `key`: "trainer.policy_lr and trainer.value_lr"; empty when none does.
std::string named_elsewhere(const Fields& fields, std::string_view key) {
  std::string paths;
  for (const Field& field : fields)
    if (std::ranges::find(field.setting.elsewhere, key) != field.setting.elsewhere.end())
      paths.append(paths.empty() ? "" : " and ").append(field.path);
  return paths;
}

// The field or section that was probably meant, or empty. A name from elsewhere goes before a slip of the hand.
std::string meant_by(const Fields& fields, std::string_view path) {
  constexpr size_t kLongestPath = 100;  // the distance is quadratic in it
  if (path.size() > kLongestPath) return "";
  std::string best = named_elsewhere(fields, key_of(path));
  if (!best.empty()) return best;
  size_t least = std::max<size_t>(1, key_of(path).size() / 3) + 1;
  const auto consider = [&](std::string_view candidate, size_t distance) {
    if (candidate.empty() || distance >= least) return;
    best = candidate;
    least = distance;
  };
  for (const Field& field : fields) {
    consider(field.path, slips(path, field.path));
    consider(field.section(), edit_distance(path, field.section()));
  }
  return best;
}

}  // namespace

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
  setting.change = more.change == Change::never ? change_ : more.change;
  fields_.push_back({std::string(name_) + (name_.empty() ? "" : ".") + std::string(key), setting, value});
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

std::string unknown_key(const Fields& fields, const std::string& path) {
  const std::string start = printable(path, 100) + ": unknown key, ";
  const std::string meant = meant_by(fields, path);
  if (!meant.empty()) return start + "did you mean " + meant + '?';
  const std::string section(section_of(path));
  return start + (is_section(fields, section) ? section + " has: " + keys_of(fields, section)
                                              : "there are: " + keys_of(fields, ""));
}

Change change_of(const Fields& fields, std::string_view path) {
  for (const Field& field : fields) {
    const bool inside = field.setting.kind == Setting::Kind::object && path.starts_with(field.path + '.');
    if (inside || field.path == path) return field.setting.change;
  }
  return Change::never;
}

}  // namespace troupe
