#pragma once
// Rules for token runs (actors/config/kind_settings.h).

#include <span>
#include <string>
#include <string_view>

#include "actors/config/run_config.h"

namespace troupe {

// Throws ConfigError when a setting has no effect because the run is a token run and is not at its default; and when
// settings of a token run do not fit each other.
void check_answer_settings(const RunConfig& config);

// Throws if a setting of verifiers differs from its default although there is none, or if the run cannot have one.
void check_verifier(const RunConfig& config);

// Throws unless every setting of the sections has its default.
void require_defaults(std::span<const std::string_view> sections, RunConfig config, const std::string& because,
                      const std::string& instead);

}  // namespace troupe
