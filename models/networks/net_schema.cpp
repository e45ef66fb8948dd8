#include "models/networks/net_schema.h"

#include <nlohmann/json.hpp>

#include "models/networks/encoder_table.h"
#include "models/networks/net_layout.h"
#include "models/networks/object_setting.h"
#include "runtime/base/strict_json.h"

namespace troupe {

Json net_schema() {
  Json schema = schema_of("kind net: encoders by observation, trunk, core and value_trunk", net_keys());
  Json& encoders = schema["properties"]["encoders"];
  encoders["additionalProperties"] = encoder_schema();
  return schema;
}

}  // namespace troupe
