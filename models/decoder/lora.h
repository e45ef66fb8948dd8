#pragma once
// Low-rank adapters (LoRA, arXiv:2106.09685): a linear layer y = x W^T with frozen W gets y += (alpha / rank) (x A^T)
// B^T, and only A and B are trained. Names and roles are those of Hugging Face's PEFT. Plain values; any thread.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/decoder/lm_shape.h"
#include "runtime/base/array.h"

namespace troupe {

// The linear layers of a decoder layer that can have an adapter.
enum class LmLinear : uint8_t { query = 0, key = 1, value = 2, output = 3, gate = 4, up = 5, down = 6 };
inline constexpr size_t kLmLinears = 7;
inline constexpr std::array<std::string_view, kLmLinears> kLoraTargets = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                                          "gate_proj", "up_proj", "down_proj"};

struct LoraConfig {
  int64_t rank = 0;  // 0 = no adapters
  double alpha = 0;
  std::array<bool, kLmLinears> targets{};  // by LmLinear

  bool used() const { return rank > 0; }
  float scale() const { return static_cast<float>(alpha / static_cast<double>(rank)); }
  bool has(LmLinear linear) const { return used() && targets[static_cast<size_t>(linear)]; }

  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

// The value of model.lora: {} = no adapters, or rank (required), alpha (default 2 rank) and targets (default q_proj and
// v_proj). Throws ConfigError that begins with `path` and the key.
LoraConfig lora_from_config(std::string_view text, const std::string& path);

// Inputs and outputs of a linear layer.
struct LinearSize {
  int64_t inputs = 0, outputs = 0;
};
LinearSize size_of(const LmShape& shape, LmLinear linear);

// The weights of a linear layer with its adapter: w + alpha / rank b a. Sums in float64. w: [outputs, inputs], a:
// [rank, inputs], b: [outputs, rank].
Array merged_linear(const LinearSize& size, const LoraConfig& lora, std::span<const float> w, std::span<const float> a,
                    std::span<const float> b);

// "model.layers.3.self_attn.q_proj.", the beginning of the names of its tensors.
std::string linear_prefix(int64_t layer, LmLinear linear);

// The adapters' tensors: PREFIXlora_A.weight [rank, inputs] and PREFIXlora_B.weight [outputs, rank], by layer.
std::vector<LmTensor> lora_tensors(const LmShape& shape, const LoraConfig& lora);

}  // namespace troupe
