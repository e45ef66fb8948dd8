#include "runtime/weights/channel.h"

#include "runtime/weights/receiver.h"
#include "runtime/weights/sender.h"
#include "tests/runtime/weights/channel_inference.h"
#include "tests/runtime/weights/process_group_conformance.h"
#include "tests/runtime/weights/weight_fixture.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace troupe::test {
std::vector<std::shared_ptr<GroupBackend>> backends_under_test() { return {make_in_process_backend()}; }
}  // namespace troupe::test

TEST_CASE("weight_slot: it holds the newest version, and refuses an older one") {
  const auto signature = signature_of(1);
  WeightSlot slot;
  CHECK(slot.get() == nullptr);
  CHECK(slot.offer(weights_of(signature, {0, 5})) == WeightSlot::Offer::applied);
  CHECK(slot.offer(weights_of(signature, {0, 5})) == WeightSlot::Offer::same);
  CHECK(slot.offer(weights_of(signature, {0, 4})) == WeightSlot::Offer::older);
  CHECK(slot.offer(weights_of(signature, {1, 0})) == WeightSlot::Offer::applied);
  CHECK(slot.get()->version == PolicyVersion{1, 0});
}

TEST_CASE("weight_channel: a published snapshot arrives complete at every receiver and is acknowledged") {
  Plane plane;
  plane.add(1);
  plane.add(2);
  plane.publish(3);
  CHECK(plane.report(1).behind == 1);
  plane.settle();
  for (const InferenceIndex inference_index : {1, 2}) {
    CHECK(plane.inferences[inference_index]->slot->get()->flat == plane.sender.newest()->flat);
    CHECK(plane.report(inference_index).applied == PolicyVersion{0, 3});
    CHECK(plane.report(inference_index).behind == 0);
  }
}

TEST_CASE("weight_channel: weights of any size arrive, also around multiples of the bucket size and without tensors") {
  for (const int64_t floats : {1, 15, 16, 17, 31, 32, 33, 1000}) {
    Plane plane(floats);
    plane.add(1);
    plane.publish(1);
    plane.settle();
    CHECK(plane.inferences[1]->number() == 1);
  }
  Plane plane;
  plane.signature = std::make_shared<const Signature>();
  auto slot = std::make_shared<WeightSlot>();
  WeightReceiver receiver(plane.backend, plane.signature, slot);
  WeightSender sender(plane.backend, plane.signature, [&](InferenceIndex, const Rendezvous& r) { receiver.invite(r); });
  sender.admit(1, {});
  sender.publish(weights_of(plane.signature, {0, 1}));
  CHECK(sender.step().did == Sent::connected);
  CHECK(receiver.step().did == Got::joined);
  CHECK(sender.step().did == Sent::sent);
  CHECK(receiver.step().did == Got::applied);
  CHECK(sender.step().did == Sent::delivered);
}

TEST_CASE(
    "weight_channel: old weights stay in the slot until new ones are complete, and in memory while they are used") {
  Plane plane;
  plane.add(1);
  plane.publish(1);
  plane.settle();
  const WeightsPtr held = plane.inferences[1]->slot->get();
  plane.publish(2);
  plane.sender.step();  // version 2 is sent, but not received yet
  CHECK(plane.inferences[1]->slot->get() == held);
  plane.settle();
  CHECK(plane.inferences[1]->number() == 2);
  CHECK(whole(held));
}

TEST_CASE("weight_sender: without receivers there is no work, and the first receiver gets the newest snapshot") {
  Plane plane;
  plane.publish(1);
  plane.publish(2);
  CHECK_FALSE(plane.sender.wait_for_work(0ms));
  CHECK(plane.sender.step().did == Sent::nothing);
  CHECK(plane.sender.skipped() == 0);
  plane.add(1);
  plane.settle();
  CHECK(plane.inferences[1]->number() == 2);
}

TEST_CASE("weight_sender: a receiver that joins late gets the current weights without a new version") {
  Plane plane;
  plane.add(1);
  plane.publish(1);
  plane.settle();
  plane.add(2);
  plane.settle();
  CHECK(plane.inferences[2]->number() == 1);
  CHECK(plane.sender.generation() == 2);
  CHECK(plane.report(1).behind == 0);
}

TEST_CASE(
    "weight_sender: of the snapshots published during a transfer only the newest is sent, the others are counted") {
  Plane plane;
  plane.add(1);
  plane.sender.step();
  plane.step_receivers();
  plane.publish(1);
  CHECK(plane.sender.step().did == Sent::sent);
  for (const uint64_t number : {2, 3, 4}) plane.publish(number);
  plane.step_receivers();
  CHECK(plane.sender.step().did == Sent::delivered);
  CHECK(plane.report(1).applied == PolicyVersion{0, 1});
  CHECK(plane.report(1).behind == 3);
  plane.settle();
  CHECK(plane.inferences[1]->number() == 4);
  CHECK(plane.sender.skipped() == 2);
}

TEST_CASE(
    "weight_sender: publishing the same version again does nothing, and an older version or other signature throws") {
  Plane plane;
  plane.publish(2);
  CHECK_FALSE(plane.sender.publish(weights_of(plane.signature, {0, 2})));
  CHECK_THROWS_AS(plane.sender.publish(weights_of(plane.signature, {0, 1})), InvariantError);
  CHECK_THROWS_AS(plane.sender.publish(weights_of(signature_of(7), {0, 3})), InvariantError);
  CHECK(plane.sender.newest()->version.number == 2);
}

TEST_CASE("weight_sender: a receiver with another signature is refused with the first difference") {
  Plane plane(100);
  const auto refusal = plane.sender.admit(1, *signature_of(101));
  REQUIRE(refusal);
  CHECK(*refusal == "tensor 0 is policy parameter w float32 [100] here and policy parameter w float32 [101] there");
  CHECK(plane.sender.receivers().empty());
}
