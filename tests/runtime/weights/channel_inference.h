#pragma once
// A receiver with its slot, and backends that damage or delay what they carry.

#include "runtime/weights/channel.h"
#include "runtime/weights/receiver.h"
#include "runtime/weights/sender.h"
#include "tests/runtime/weights/weight_fixture.h"
#include "tests/support/test.h"

namespace troupe::test {

using Sent = SenderStep::Did;
using Got = ReceiverStep::Did;

// A receiver with its slot, as in an inference actor.
struct Inference {
  Inference(const std::shared_ptr<GroupBackend>& backend, std::shared_ptr<const Signature> signature)
      : slot(std::make_shared<WeightSlot>()), receiver(backend, std::move(signature), slot) {}
  uint64_t number() const { return slot->get() ? slot->get()->version.number : 0; }

  std::shared_ptr<WeightSlot> slot;
  WeightReceiver receiver;
};

// A sender and its receivers, stepped by one thread. Waiting could not change anything, so every timeout is 0.
struct Plane {
  explicit Plane(int64_t floats = 100,
                 ChannelOptions options = {.bucket_bytes = 64,
                                           .connect_timeout = std::chrono::milliseconds(0),
                                           .transfer_timeout = std::chrono::milliseconds(0)},
                 std::shared_ptr<GroupBackend> over = make_in_process_backend())
      : backend(std::move(over)),
        signature(signature_of(floats)),
        sender(
            backend, signature,
            [this](InferenceIndex inference_index, const Rendezvous& r) {
              if (const auto found = inferences.find(inference_index); found != inferences.end())
                found->second->receiver.invite(r);
            },
            options) {}

  void add(InferenceIndex inference_index) {
    inferences[inference_index] = std::make_unique<Inference>(backend, signature);
    REQUIRE_FALSE(sender.admit(inference_index, *signature));
  }
  void step_receivers() {
    for (auto& [inference_index, inference] : inferences) inference->receiver.step(std::chrono::milliseconds(0));
  }
  // Steps sender and receivers until the sender has no more work.
  void settle() {
    while (sender.wait_for_work(std::chrono::milliseconds(0))) {
      sender.step();
      step_receivers();
    }
  }
  void publish(uint64_t number) { REQUIRE(sender.publish(weights_of(signature, {0, number}))); }
  ReceiverReport report(InferenceIndex inference_index) const {
    for (const ReceiverReport& each : sender.receivers())
      if (each.inference_index == inference_index) return each;
    FAIL("no receiver ", inference_index);
    return {};
  }

  std::shared_ptr<GroupBackend> backend;
  std::shared_ptr<const Signature> signature;
  std::map<InferenceIndex, std::unique_ptr<Inference>> inferences;
  WeightSender sender;
};

}  // namespace troupe::test
