#include "models/networks/token_transformer_base.h"

#include <filesystem>
#include <mutex>

#include "models/networks/token_transformer_layout.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/run_folder/checkpoint.h"
#include "runtime/run_folder/safetensors.h"
#include "runtime/weights/weights.h"

namespace troupe {

namespace {

constexpr size_t kShownPath = 200;
constexpr std::string_view kFrozen = "policy.model.";
static_assert(kFrozen.starts_with(kTokenDecoderPrefix));

std::string hash_of(const std::map<std::string, Array>& tensors) {
  Checksum checksum;
  for (const auto& [name, array] : tensors) {
    if (!name.starts_with(kFrozen)) continue;
    checksum.update(name.data(), name.size() + 1);  // with its final 0
    checksum.update(array.data(), array.bytes());
  }
  return format_hash(checksum.value());
}

std::shared_ptr<const TokenTransformerBase> read(const std::string& path) {
  const auto base = std::make_shared<TokenTransformerBase>();
  base->file = path;
  try {
    std::error_code failed;
    base->tensors = std::filesystem::is_directory(path, failed) ? read_checkpoint_model(posix_disk(), path)
                                                                : read_safetensors(posix_disk(), path).tensors;
  } catch (const IoError& refused) {
    throw ConfigError(std::string("model.path: ") + refused.what());
  }
  base->hash = hash_of(base->tensors);
  return base;
}

std::string text_of(DType dtype, const Shape& shape) { return std::string(name_of(dtype)) + ' ' + shape.text(); }

}  // namespace

void TokenTransformerBase::require(const std::string& name, const Shape& shape) const {
  const auto found = tensors.find(name);
  if (found != tensors.end() && found->second.dtype() == DType::f32 && found->second.shape() == shape) return;
  const std::string is =
      found == tensors.end() ? "is missing" : "is " + text_of(found->second.dtype(), found->second.shape());
  throw ConfigError("model.path: " + printable(file, kShownPath) + ": tensor " + name + ' ' + is +
                    ", this run's model has " + text_of(DType::f32, shape) +
                    "; give a run of model.kind \"token_transformer\" without model.lora and with this run's model");
}

std::shared_ptr<const TokenTransformerBase> token_transformer_base(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const TokenTransformerBase>> read_bases;
  const std::lock_guard guard(mutex);
  std::weak_ptr<const TokenTransformerBase>& kept = read_bases[path];
  if (auto base = kept.lock()) return base;
  const auto base = read(path);
  kept = base;
  return base;
}

}  // namespace troupe
