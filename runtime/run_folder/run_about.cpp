#include "runtime/run_folder/run_about.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runtime/base/strict_json.h"
#include "runtime/run_folder/line_file.h"

namespace troupe {

namespace {

constexpr const char* kAboutFile = "/about.json";
constexpr const char* kDiffFile = "code.diff";

// The contents of about.json; an object without members where it is missing or damaged.
Json read_document(const Disk& disk, const std::string& folder, std::string* damage = nullptr) {
  Json document = stored_object(disk, folder + kAboutFile, kMaxReadBytes, damage);
  return document.is_object() ? document : Json::object();
}

RunAbout about_in(const Json& document) {
  RunAbout about{text_member(document, "name"), text_member(document, "note"), {}};
  if (const auto tags = document.find("tags"); tags != document.end() && tags->is_array())
    for (const Json& tag : *tags)
      if (tag.is_string()) about.tags.push_back(tag.get<std::string>());
  std::ranges::sort(about.tags);
  about.tags.erase(std::ranges::unique(about.tags).begin(), about.tags.end());
  return about;
}

Json starts_in(const Json& document) {
  const auto found = document.find("starts");
  return found != document.end() && found->is_array() ? *found : Json::array();
}

std::string diff_of(const Disk& disk, const std::string& folder, const Json& start) {
  const std::string name = text_member(start, "diff");
  try {
    return name.starts_with(kDiffFile) && name.find('/') == name.npos ? disk.read(folder + '/' + name) : "";
  } catch (const IoError&) {  // somebody has removed it
    return "";
  }
}

Json start_json(const StartFacts& facts) {
  Json versions = Json::object();
  for (const auto& [name, version] : facts.versions) versions[name] = version;
  Json json = {{"time", facts.time},
               {"command", facts.command},
               {"folder", facts.folder},
               {"host", facts.host},
               {"versions", std::move(versions)}};
  if (!facts.commit.empty()) json["commit"] = facts.commit;
  return json;
}

// Whether the start tells the same as the last one, but for the time.
bool is_same(const Disk& disk, const std::string& folder, Json last, Json now, const StartFacts& facts) {
  if (!last.is_object() || diff_of(disk, folder, last) != facts.diff) return false;
  for (Json* each : {&last, &now})
    for (const char* key : {"time", "diff", "diff_cut"}) each->erase(key);
  return last == now;
}

// Appends the start to `starts`, and writes its diff; not where the last one is the same.
void add_start(Disk& disk, const std::string& folder, const StartFacts& facts, Json& starts) {
  // As it is read again: texts that are not UTF-8 are replaced.
  Json start = Json::parse(start_json(facts).dump(-1, ' ', false, Json::error_handler_t::replace));
  const Json last = starts.empty() ? Json() : starts.back();
  if (is_same(disk, folder, last, start, facts)) return;
  if (!facts.diff.empty()) {
    std::string name = text_member(last, "diff");
    if (name.empty() || diff_of(disk, folder, last) != facts.diff) {
      name = starts.empty() ? kDiffFile : kDiffFile + ('.' + std::to_string(starts.size() + 1));
      disk.write_atomic(folder + '/' + name, facts.diff);
    }
    start["diff"] = name;
    start["diff_cut"] = facts.diff_cut;
  }
  starts.push_back(std::move(start));
}

}  // namespace

RunAbout read_about(const Disk& disk, const std::string& folder, std::string* damage) {
  try {
    return about_in(read_document(disk, folder, damage));
  } catch (const IoError& refused) {
    if (damage != nullptr) *damage = refused.what();
    return {};
  }
}

RunAbout about_with(RunAbout about, const RunAbout& given) {
  if (!given.name.empty()) about.name = given.name;
  if (!given.note.empty()) about.note = given.note;
  for (const std::string& tag : given.tags)
    if (std::ranges::count(about.tags, tag) == 0) about.tags.push_back(tag);
  std::ranges::sort(about.tags);
  return about;
}

void keep_about(Disk& disk, const std::string& folder, const RunAbout& given, const std::optional<StartFacts>& start) {
  const Json before = read_document(disk, folder);
  const RunAbout about = about_with(about_in(before), given);
  Json starts = starts_in(before);
  if (start) add_start(disk, folder, *start, starts);
  Json document = {{"name", about.name}, {"tags", about.tags}, {"note", about.note}, {"starts", std::move(starts)}};
  if (document == before) return;
  disk.write_atomic(folder + kAboutFile, document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
}

}  // namespace troupe
