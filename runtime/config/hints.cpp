#include "runtime/config/hints.h"

#include <algorithm>

#include "runtime/base/suggest.h"

namespace troupe {
namespace {

std::string_view key_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

bool is_object_or_inside(const Fields& fields, std::string_view path) {
  return std::ranges::any_of(fields, [&](const Field& field) {
    return field.setting.kind == Setting::Kind::object && (path == field.path || path.starts_with(field.path + '.'));
  });
}

std::string joined(const std::vector<std::string>& paths, const char* between) {
  std::string text;
  for (const std::string& path : paths) text.append(text.empty() ? "" : between).append(path);
  return text;
}

// The setting in `section` that is nearest to `key`, and its distance, if it is near enough for a typing error.
struct Near {
  std::string path;
  size_t distance;
};

Near nearest_in(const Fields& fields, std::string_view section, std::string_view key) {
  Near near{"", std::max<size_t>(1, key.size() / 3) + 1};
  const auto consider = [&](std::string_view candidate, size_t distance) {
    if (!candidate.empty() && distance < near.distance) near = {std::string(candidate), distance};
  };
  for (const Field& field : fields) {
    if (section.empty()) consider(field.section(), edit_distance(key, field.section()));
    if (field.section() != section) continue;
    const bool without_end = field.key().starts_with(std::string(key) + '_');  // "timeout" for "timeout_us"
    consider(field.path, without_end ? 1 : edit_distance(key, field.key()));
  }
  return near;
}

// The settings of other sections with exactly this key. For a key inside a section, only if there is just one.
std::string same_key(const Fields& fields, std::string_view section, std::string_view key) {
  std::vector<std::string> paths;
  for (const Field& field : fields)
    if (field.key() == key) paths.push_back(field.path);
  return section.empty() || paths.size() == 1 ? joined(paths, " or ") : "";
}

// The setting that was probably meant by the misspelt `path`, or empty. It is looked for in the section that was
// written, or in the one with the nearest name.
std::string slip_of(const Fields& fields, std::string_view path) {
  std::string section(section_of(path));
  if (!section.empty() && !is_section(fields, section)) {
    const std::string near = nearest_in(fields, "", section).path;
    section = is_section(fields, near) ? near : section;
  }
  const Near near = nearest_in(fields, section, key_of(path));
  if (!near.path.empty() && near.distance <= 1) return near.path;
  const std::string same = same_key(fields, section, key_of(path));
  return same.empty() ? near.path : same;
}

// The setting that `name` means if it has "_" for a dot: stop_env_steps is stop.env_steps, env_params_size
// env.params.size. Empty if there is none.
std::string with_dot(const Fields& fields, std::string_view name) {
  if (name.find('.') != name.npos) return "";
  for (size_t at = name.find('_'); at != name.npos; at = name.find('_', at + 1)) {
    const std::string_view section = name.substr(0, at), key = name.substr(at + 1);
    if (!is_section(fields, section)) continue;
    for (const Field& field : fields) {
      if (field.section() != section) continue;
      if (field.key() == key) return field.path;
      const bool inside =
          field.setting.kind == Setting::Kind::object && key.starts_with(std::string(field.key()) + '_');
      if (inside) return field.path + '.' + std::string(key.substr(field.key().size() + 1));
    }
    if (const Near near = nearest_in(fields, section, key); !near.path.empty()) return near.path;
  }
  return "";
}

// The part of the error that suggests what to write, or empty.
std::string advice_for(const Fields& fields, Hints hints, std::string_view path) {
  const Meaning meaning = meaning_of(fields, hints, path);
  if (!meaning.advice.empty()) return meaning.advice;
  std::string meant = joined(meaning.paths, " and ");
  // Where the path leads into an object whose name is wrong: "env.kwargs.size" is env.params.size.
  for (std::string_view outer = section_of(path); meant.empty() && !outer.empty(); outer = section_of(outer)) {
    if (is_section(fields, outer) || find_field(fields, outer) != nullptr) break;
    const std::vector<std::string> exact = meaning_of(fields, hints, outer).paths;
    const std::string object = exact.empty() ? slip_of(fields, outer) : joined(exact, " and ");
    if (is_object_or_inside(fields, object)) meant = object + std::string(path.substr(outer.size()));
  }
  if (meant.empty()) meant = with_dot(fields, path);
  if (meant.empty()) meant = slip_of(fields, path);
  return meant.empty() ? "" : "did you mean " + printable(meant, 200) + '?';
}

}  // namespace

Meaning meaning_of(const Fields& fields, Hints hints, std::string_view name) {
  const std::string_view key = key_of(name);
  Meaning meaning;
  for (const std::string_view wanted : {name, key}) {
    for (const Hint& hint : hints) {
      if (hint.name != wanted) continue;
      if (!hint.path.empty()) meaning.paths.emplace_back(hint.path);
      meaning.advice = hint.advice;
    }
    if (!meaning.paths.empty() || !meaning.advice.empty()) return meaning;
  }
  for (const Field& field : fields)
    if (std::ranges::find(field.setting.elsewhere, key) != field.setting.elsewhere.end())
      meaning.paths.push_back(field.path);
  return meaning;
}

std::string unknown_key(const Fields& fields, const std::string& path, Hints hints) {
  constexpr size_t kLongestPath = 100;  // distances are quadratic in it
  const std::string start = printable(path, kLongestPath) + ": unknown key, ";
  const std::string advice = path.size() > kLongestPath ? "" : advice_for(fields, hints, path);
  if (!advice.empty()) return start + advice;
  const std::string section = path.substr(0, path.find('.'));
  const bool inside = section.size() < path.size() && is_section(fields, section);
  return start + (inside ? section + " has: " + keys_of(fields, section) : "there are: " + keys_of(fields, ""));
}

std::string unknown_key(const Fields& fields, const std::string& path) { return unknown_key(fields, path, {}); }

}  // namespace troupe
