#pragma once
// Which settings of a config are read, by their needs (runtime/config/needs.h). Pure functions; any thread.

#include <string>
#include <vector>

#include "runtime/config/fields.h"

namespace troupe {

// The first need of the setting that the values of `fields` do not meet, or nullptr if it is read. A condition on a
// setting that is not in `fields`, or on what no setting says, counts as met.
const Need* unmet_need(const Fields& fields, const Field& setting);

// Throws ConfigError for the first setting whose value is not its default and that is not read: "algorithm.huber_delta:
// 0.5 has no effect with algorithm.value_loss "l2"; set algorithm.value_loss to "huber", or remove
// algorithm.huber_delta (default 1)". `defaults` lists the same settings as `fields`.
void require_effects(const Fields& fields, const Fields& defaults);

// The settings whose values are not their defaults and that are ignored, which is no error: "trainer.zero: 1 has no
// effect with trainer.ranks 1".
std::vector<std::string> ignored_settings(const Fields& fields, const Fields& defaults);

// Gives the settings that require_effects() would refuse their defaults, if what switches them off never changes in a
// run. For configs of runs that an older program accepted.
void reset_unread(const Fields& fields, const Fields& defaults);

// The needs in words: "only with algorithm.value_loss "huber"". Empty if there are none.
std::string needs_text(const std::vector<Need>& needs);

}  // namespace troupe
