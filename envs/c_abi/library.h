#pragma once
// EnvLibrary: a shared library with the functions of envs/c_abi/troupe_env.h. Immutable; any thread.

#include <memory>
#include <string>

#include "envs/c_abi/troupe_env.h"

namespace troupe {

class EnvLibrary {
 public:
  // Opens the library at `path`, which stays open until the process ends. Throws ConfigError, beginning with
  // env.id, when the file cannot be loaded, lacks a required function or has another version.
  explicit EnvLibrary(const std::string& path);
  ~EnvLibrary();
  EnvLibrary(const EnvLibrary&) = delete;
  EnvLibrary& operator=(const EnvLibrary&) = delete;

  const std::string& path() const { return path_; }

  decltype(&troupe_env_describe) describe = nullptr;
  decltype(&troupe_env_create) create = nullptr;
  decltype(&troupe_env_destroy) destroy = nullptr;
  decltype(&troupe_env_reset) reset = nullptr;
  decltype(&troupe_env_step) step = nullptr;
  decltype(&troupe_env_observe) observe = nullptr;
  // These may be null; save and load are both null or both not.
  decltype(&troupe_env_mask) mask = nullptr;
  decltype(&troupe_env_error) error = nullptr;
  decltype(&troupe_env_save) save = nullptr;
  decltype(&troupe_env_load) load = nullptr;
  decltype(&troupe_env_render) render = nullptr;

 private:
  void* symbol(const char* name) const;
  template <class Function>
  void find(Function*& function, const char* name, bool required);
  [[noreturn]] void refuse(const std::string& what) const;

  std::string path_;
  std::unique_ptr<void, void (*)(void*)> handle_;
};

}  // namespace troupe
