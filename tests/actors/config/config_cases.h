#pragma once
// Wrong config files and overrides with the exact error message of each; used against the reader and against the JSON
// schema.

#include <string>
#include <vector>

namespace troupe::test {

enum class InSchema {
  refused,   // the schema refuses it as well
  accepted,  // beyond what a schema can say
  no_json,   // not JSON at all, so no schema sees it
};

struct BadFile {
  std::string name;
  std::string text;
  std::string error;  // after "run.json"
  InSchema schema;
};

const std::vector<BadFile>& bad_files();

}  // namespace troupe::test
