// The table of backends.

#include "runtime/weights/process_group.h"
#include "runtime/weights/process_group_gloo.h"
#ifdef TROUPE_HAS_NCCL
#include "runtime/weights/process_group_nccl.h"
#endif

namespace troupe {

std::shared_ptr<GroupBackend> make_group_backend(std::string_view name, const BackendOptions& options) {
  if (name == "in_process") return make_in_process_backend();
  if (name == "gloo") return make_gloo_backend(options);
#ifdef TROUPE_HAS_NCCL
  if (name == "nccl") return make_nccl_backend(options);
#else
  if (name == "nccl")
    throw ConfigError("nccl: this program was built without CUDA and NCCL; use gloo, or build with --preset gpu");
#endif
  throw ConfigError(std::string(name) + ": no such process group backend; there are in_process, gloo and nccl");
}

}  // namespace troupe
