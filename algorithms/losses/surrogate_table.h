#pragma once
// The functions listed in the table of surrogates. Their device versions are in device/surrogate_tokens.h. Internal to
// algorithms/.

#include "algorithms/losses/surrogate.h"

namespace troupe {

// Per token: surrogate.cpp.
SurrogateSums clip_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
SurrogateSums soft_clip_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
SurrogateSums sapo_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
SurrogateSums ce_gppo_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
SurrogateSums cispo_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
SurrogateSums log_prob_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
SurrogateSums gipo_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
SurrogateSums unclipped_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
// Per sequence: sequence_surrogate.cpp. Per batch: covariance_surrogate.cpp.
SurrogateSums gspo_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
SurrogateSums geo_mean_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
SurrogateSums clip_cov_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);
SurrogateSums kl_cov_surrogate(const SurrogateInput&, const ParameterValues&, const SurrogateOutput&);

// Throws ConfigError: ratio_min and ratio_max leave no ratio between them.
[[noreturn]] void refuse_ratio_bounds(const ParameterValues& parameters);

}  // namespace troupe
