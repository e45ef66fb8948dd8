#include "envs/c_abi/library.h"

#include <dlfcn.h>

#include <filesystem>

#include "envs/c_abi/library_call.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

// Libraries stay open: one that is closed could end the process by its destructors, or leave threads without code.
void keep_library(void*) {}

// The last error of the loader without the path at its beginning.
std::string loader_error(const std::string& path) {
  const char* text = dlerror();
  std::string error = text == nullptr ? "unknown error" : text;
  if (error.starts_with(path + ": ")) error.erase(0, path.size() + 2);
  return printable(error, 200);
}

}  // namespace

void EnvLibrary::refuse(const std::string& what) const {
  throw ConfigError("env.id: \"lib:" + printable(path_, 200) + "\": " + what);
}

void* EnvLibrary::symbol(const char* name) const { return dlsym(handle_.get(), name); }

template <class Function>
void EnvLibrary::find(Function*& function, const char* name, bool required) {
  function = reinterpret_cast<Function*>(symbol(name));
  if (function == nullptr && required)
    refuse(std::string("the library has no function ") + name + ", expected those of troupe_env.h");
}

EnvLibrary::EnvLibrary(const std::string& path) : path_(path), handle_(nullptr, keep_library) {
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(path, failed);
  if (!std::filesystem::exists(absolute, failed)) refuse("there is no file " + printable(absolute.string(), 200));
  if (!std::filesystem::is_regular_file(absolute, failed))  // opening a pipe would wait for its other end
    refuse(printable(absolute.string(), 200) + " is not a regular file, expected a shared library");
  {
    const NotedCall noted(path_, LibraryFunction::loading);
    handle_.reset(dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL));
  }
  if (!handle_) refuse("the file cannot be loaded: " + loader_error(absolute.string()));
  decltype(&troupe_env_version) version = nullptr;
  find(version, "troupe_env_version", true);
  uint32_t found = 0;
  try {
    found = call_library(path_, LibraryFunction::version, version);
  } catch (const std::runtime_error& failure) {
    refuse(printable(failure.what(), 300));
  }
  if (found != TROUPE_ENV_VERSION)
    refuse("the library has version " + std::to_string(found) + " of troupe_env.h, expected " +
           std::to_string(TROUPE_ENV_VERSION) + "; compile it again with the header of this troupe");
  find(describe, "troupe_env_describe", true);
  find(create, "troupe_env_create", true);
  find(destroy, "troupe_env_destroy", true);
  find(reset, "troupe_env_reset", true);
  find(step, "troupe_env_step", true);
  find(observe, "troupe_env_observe", true);
  find(mask, "troupe_env_mask", false);
  find(error, "troupe_env_error", false);
  find(save, "troupe_env_save", false);
  find(load, "troupe_env_load", false);
  find(render, "troupe_env_render", false);
  if ((save == nullptr) != (load == nullptr))
    refuse(std::string("the library has ") + (save == nullptr ? "troupe_env_load" : "troupe_env_save") + " but not " +
           (save == nullptr ? "troupe_env_save" : "troupe_env_load") + ", expected both or neither");
}

EnvLibrary::~EnvLibrary() = default;

}  // namespace troupe
