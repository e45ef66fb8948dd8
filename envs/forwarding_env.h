#pragma once
// ForwardingEnv: an environment that passes every call on to another one. Base of those that change a part of what it
// observes or does. One thread at a time.

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "envs/env.h"

namespace troupe {

class ForwardingEnv : public Env {
 public:
  explicit ForwardingEnv(std::unique_ptr<Env> inner) : inner_(std::move(inner)) {}

  const EnvSpec& spec() const override { return inner_->spec(); }
  int64_t rows() const override { return inner_->rows(); }
  void prepare() override { inner_->prepare(); }
  void begin_reset(uint64_t seed, uint64_t first_row) override { inner_->begin_reset(seed, first_row); }
  void reset(uint64_t seed, uint64_t first_row, EnvStep& out) override { inner_->reset(seed, first_row, out); }
  bool play_singly(uint64_t seed) override { return inner_->play_singly(seed); }
  void begin_episode(int64_t row, uint64_t episode) override { inner_->begin_episode(row, episode); }
  bool reset_as(uint64_t seed, std::span<const uint64_t> numbers, EnvStep& out) override {
    return inner_->reset_as(seed, numbers, out);
  }
  void step(const Array& actions, EnvStep& out) override { inner_->step(actions, out); }
  void observe(EnvStep& out) override { inner_->observe(out); }
  void set_active(int64_t row, bool active) override { inner_->set_active(row, active); }
  std::string render(int64_t row) const override { return inner_->render(row); }
  bool save(std::string& bytes) const override { return inner_->save(bytes); }
  bool load(const std::string& bytes) override { return inner_->load(bytes); }
  void begin_close() override { inner_->begin_close(); }

 protected:
  Env& inner() { return *inner_; }

 private:
  std::unique_ptr<Env> inner_;
};

}  // namespace troupe
