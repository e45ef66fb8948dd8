#pragma once
// Wrong config files with the exact error message of each, for tests of the reader and of the JSON schema.

#include <string>
#include <vector>

namespace troupe::test {

enum class InSchema {
  refused,   // the schema refuses the file too
  accepted,  // a schema cannot express what is wrong
  no_json,   // the file is not JSON, so the schema is not applied
};

struct BadFile {
  std::string name;
  std::string text;
  std::string error;  // after "run.json"
  InSchema schema;
};

const std::vector<BadFile>& bad_files();

}  // namespace troupe::test
