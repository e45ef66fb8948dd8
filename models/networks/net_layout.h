#pragma once
// The layout of the declarative network, model.kind "net": what model.net says about an environment's observations
// (docs/models.md). Plain values, no LibTorch. Any thread.
//
//   encoder.<observation>.<i>.weight|bias   -> side by side, in the environment's order
//   trunk.<i>.weight|bias                   -> core.weight_ih|weight_hh|bias_ih|bias_hh -> policy.head.weight|bias
//   value.<i>.weight|bias                   -> value.head.weight|bias
// The value trunk reads the encoders' outputs, as the policy's trunk does. With a recurrent core it reads the core's
// output, because the value of an observation depends on what came before it. Without "value_trunk" both heads read the
// output of the core, or without a core that of the trunk.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/networks/layer_stack.h"
#include "models/networks/network_layout.h"
#include "models/networks/object_setting.h"

namespace troupe {

enum class Core : uint8_t { none = 0, lstm = 1, gru = 2 };

// Numbers of state per unit of a core: an LSTM's are h and, beside them, c.
constexpr int64_t states_of(Core core) { return core == Core::lstm ? 2 : core == Core::gru ? 1 : 0; }
// Blocks of `size` rows in a core's matrices, in PyTorch's order: an LSTM's i, f, g, o; a GRU's r, z, n.
constexpr int64_t gates_of(Core core) { return core == Core::lstm ? 4 : core == Core::gru ? 3 : 0; }

struct NetPlan {
  NetworkLayout layout;
  std::vector<std::vector<NetLayer>> encoders;  // one per input of the layout
  std::vector<NetLayer> trunk;
  Core core = Core::none;
  int64_t core_size = 0;
  bool separate_values = false;  // whether there is a value trunk; it may have no layers
  std::vector<NetLayer> value_trunk;
};

// The keys of model.net. Those of an encoder are in encoders/encoder_table.h.
std::span<const ObjectSetting> net_keys();

// Throws ConfigError with the JSON path of what is wrong in model.net, or does not fit the environment.
NetPlan net_plan(const ModelConfig& config, const EnvSpec& env);

NetworkLayout net_layout(const ModelConfig& config, const EnvSpec& env);

}  // namespace troupe
