#include "models/networks/encoders/encoder_table.h"

#include "models/networks/encoders/conv.h"
#include "models/networks/encoders/embedding.h"
#include "models/networks/encoders/flat_mlp.h"
#include "models/networks/encoders/nature.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr EncoderKind kEncoders[] = {
    {"conv", false, build_conv},
    {"nature", false, build_nature},
    {"mlp", true, build_flat_mlp},
    {"embedding", false, build_embedding},
};

}  // namespace

std::vector<std::string_view> encoder_names() {
  std::vector<std::string_view> result;
  for (const EncoderKind& kind : kEncoders) result.push_back(kind.name);
  return result;
}

const EncoderKind& find_encoder(std::string_view name) {
  for (const EncoderKind& kind : kEncoders)
    if (kind.name == name) return kind;
  throw InvariantError("there is no encoder " + std::string(name));
}

std::string_view default_encoder(const ArraySpec& observation) {
  return observation.dtype == DType::u8 && observation.shape.rank() == 3 ? "conv" : "mlp";
}

}  // namespace troupe
