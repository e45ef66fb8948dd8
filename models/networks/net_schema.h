#pragma once
// The JSON schema of model.net, for editors. The reader of model.net (models/networks/net_layout.h and the encoders)
// checks more: which settings go with which kind, and whether layers fit their input. Pure function; any thread.

#include <nlohmann/json_fwd.hpp>

namespace troupe {

nlohmann::ordered_json net_schema();

}  // namespace troupe
