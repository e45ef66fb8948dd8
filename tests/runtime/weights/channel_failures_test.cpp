#include "runtime/weights/channel.h"

#include <atomic>
#include <cstddef>
#include <thread>

#include "runtime/weights/receiver.h"
#include "runtime/weights/sender.h"
#include "tests/runtime/weights/channel_inference.h"
#include "tests/runtime/weights/weight_fixture.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

// Damages the broadcast with the number `damaged` (the first is 1) for receivers, once: flips bit 0 of the last byte.
class DamagingBackend : public GroupBackend {
 public:
  int damaged = 0;
  std::string_view name() const override { return inner_->name(); }
  Rendezvous host() override { return inner_->host(); }
  std::unique_ptr<ProcessGroup> join(const Rendezvous& r, std::chrono::milliseconds timeout,
                                     std::stop_token stop) override {
    return std::make_unique<Group>(inner_->join(r, timeout, std::move(stop)), *this);
  }

 private:
  struct Damage : Transfer {
    Damage(std::unique_ptr<Transfer> transfer, Buffer over) : inner(std::move(transfer)), buffer(over) {}
    void wait(std::chrono::milliseconds timeout) override {
      inner->wait(timeout);
      static_cast<uint8_t*>(buffer.data)[buffer.bytes - 1] ^= 1;
    }
    std::unique_ptr<Transfer> inner;
    Buffer buffer;
  };
  struct Group : ProcessGroup {
    Group(std::unique_ptr<ProcessGroup> group, DamagingBackend& by)
        : ProcessGroup(group->rank(), group->size()), inner(std::move(group)), backend(by) {}
    bool survives_timeout() const override { return inner->survives_timeout(); }
    std::unique_ptr<Transfer> start_broadcast(Buffer buffer, int root) override {
      auto transfer = inner->start_broadcast(buffer, root);
      if (rank() == root || backend.damaged == 0) return transfer;
      --backend.damaged;
      if (backend.damaged > 0) return transfer;
      return std::make_unique<Damage>(std::move(transfer), buffer);
    }
    std::unique_ptr<Transfer> start_exchange(std::span<const PeerBuffer> parts) override {
      return inner->start_exchange(parts);
    }
    void gather(const void* mine, void* all, size_t bytes, int root, std::chrono::milliseconds timeout) override {
      inner->gather(mine, all, bytes, root, timeout);
    }
    std::unique_ptr<ProcessGroup> inner;
    DamagingBackend& backend;
  };

  std::shared_ptr<GroupBackend> inner_ = make_in_process_backend();
};

}  // namespace

TEST_CASE("weight_sender: a receiver that ended is removed, and the others get the weights in the next generation") {
  Plane plane;
  for (const InferenceIndex inference_index : {1, 2, 3}) plane.add(inference_index);
  plane.publish(1);
  plane.settle();
  plane.inferences.erase(2);
  plane.publish(2);
  const SenderStep failed = plane.sender.step();
  CHECK(failed.did == Sent::failed);
  CHECK(failed.lost == std::vector<InferenceIndex>{2});
  plane.settle();
  CHECK(plane.sender.generation() == 2);
  CHECK(plane.inferences[1]->number() == 2);
  CHECK(plane.inferences[3]->number() == 2);
  CHECK(plane.report(2).state == ReceiverReport::State::lost);
  CHECK(plane.report(2).behind == 1);
}

TEST_CASE("weight_sender: a receiver that misses the deadline is removed, and may be admitted again") {
  Plane plane;
  plane.add(1);
  plane.add(2);
  plane.publish(1);
  plane.settle();
  plane.publish(2);
  CHECK(plane.sender.step().did == Sent::sent);
  plane.inferences[1]->receiver.step(0ms);  // receiver 2 makes no step
  const SenderStep failed = plane.sender.step();
  CHECK(failed.did == Sent::failed);
  CHECK(failed.lost == std::vector<InferenceIndex>{2});
  plane.settle();
  CHECK(plane.report(1).applied == PolicyVersion{0, 2});
  CHECK(plane.sender.admit(2, *plane.signature) == std::nullopt);
  plane.settle();
  CHECK(plane.report(2).applied == PolicyVersion{0, 2});
}

TEST_CASE("weight_sender: a reply from before a restart of a receiver does not count for the restarted one") {
  Plane plane;
  plane.add(1);
  plane.publish(1);
  plane.sender.step();
  plane.step_receivers();
  plane.sender.step();
  plane.step_receivers();  // version 1 is applied and acknowledged, but the sender has not read that yet
  plane.add(1);            // receiver 1 is restarted
  CHECK(plane.sender.step().did == Sent::delivered);
  CHECK(plane.report(1).applied == std::nullopt);
  plane.settle();
  CHECK(plane.inferences[1]->number() == 1);
}

TEST_CASE("weight_channel: damaged weights are not applied, and the receiver keeps the old ones") {
  constexpr int kBuckets = 7;  // 100 floats, 64 bytes each
  for (int broadcast = 1; broadcast <= kBuckets + 2; ++broadcast) {
    CAPTURE(broadcast);
    const auto backend = std::make_shared<DamagingBackend>();
    Plane plane(100, {.bucket_bytes = 64, .connect_timeout = 0ms, .transfer_timeout = 0ms}, backend);
    plane.add(1);
    plane.publish(1);
    plane.settle();
    plane.publish(2);
    plane.sender.step();
    backend->damaged = broadcast;
    const ReceiverStep got = plane.inferences[1]->receiver.step(0ms);
    CHECK(backend->damaged == 0);
    CHECK(plane.inferences[1]->number() == 1);
    if (broadcast == 1) {
      CHECK(got.did == Got::lost);
      CHECK(got.error == "the header was damaged on the way");
      continue;
    }
    CHECK(got.did == Got::unchanged);
    CHECK(got.error == "the checksum of version 0.2 does not match");
    const SenderStep failed = plane.sender.step();
    CHECK(failed.did == Sent::failed);
    CHECK(failed.error == "the checksum of version 0.2 did not match");
    plane.settle();
    CHECK(plane.report(1).state == ReceiverReport::State::lost);
  }
}

TEST_CASE("weight_channel: a receiver with newer weights refuses older ones") {
  Plane plane;
  plane.add(1);
  plane.inferences[1]->slot->offer(weights_of(plane.signature, {0, 9}));
  plane.publish(1);
  plane.settle();
  CHECK(plane.inferences[1]->number() == 9);
  CHECK(plane.report(1).trouble == "runs on version 0.9, newer than 0.1");
}

TEST_CASE("weight_channel: every field of a header is checked") {
  const auto signature = signature_of(100);
  const TransferHeader good = make_header(*weights_of(signature, {1, 2}), 128);
  CHECK_FALSE(fault_in(good, *signature));
  TransferHeader bad = good;
  bad.number ^= 1;
  CHECK(*fault_in(bad, *signature) == "the header was damaged on the way");
  bad = good;
  bad.magic = 0;
  CHECK(*fault_in(bad, *signature) == "the peer speaks another version of the weight protocol");
  CHECK(*fault_in(good, *signature_of(101)) == "the weights announced have another signature than this policy");
  const auto sealed = [](TransferHeader header) {
    header.header_checksum = checksum_of(&header, offsetof(TransferHeader, header_checksum));
    return header;
  };
  bad = good;
  bad.bucket_bytes = 0;
  CHECK(*fault_in(sealed(bad), *signature) == "buckets of 0 bytes announced");
  bad = good;
  bad.bucket_count = 5;
  CHECK(*fault_in(sealed(bad), *signature) == "5 buckets announced, 4 expected");
}

TEST_CASE("weight_receiver: an invalid header ends the group, and only an invitation to a newer group is accepted") {
  Plane plane;
  WeightReceiver receiver(plane.backend, plane.signature, std::make_shared<WeightSlot>());
  receiver.invite({"in_process", 0, 7, 1, 2});
  CHECK(receiver.step(0ms).did == Got::joined);
  const auto root = plane.backend->join({"in_process", 0, 7, 0, 2}, 0ms);
  std::array<char, sizeof(TransferHeader)> garbage{};
  root->broadcast({garbage.data(), garbage.size()}, 0, 0ms);
  CHECK(receiver.step(0ms).error == "the peer speaks another version of the weight protocol");
  CHECK(receiver.step(0ms).did == Got::nothing);
  receiver.invite({"in_process", 0, 6, 1, 2});
  CHECK(receiver.step(0ms).did == Got::nothing);
  receiver.invite({"in_process", 0, 8, 1, 2});
  CHECK(receiver.step(0ms).did == Got::joined);
}

TEST_CASE(
    "weight_receiver: weights that were complete before the sender left are applied, and then its loss is reported") {
  Plane plane;
  WeightReceiver receiver(plane.backend, plane.signature, std::make_shared<WeightSlot>());
  receiver.invite({"in_process", 0, 7, 1, 2});
  receiver.step(0ms);
  {
    const auto root = plane.backend->join({"in_process", 0, 7, 0, 2}, 0ms);
    const WeightsPtr weights = weights_of(plane.signature, {0, 1});
    TransferHeader header = make_header(*weights, 64);
    root->broadcast({&header, sizeof header}, 0, 0ms);
    auto* block = const_cast<std::byte*>(weights->flat.data());
    TransferSeal seal{move_buckets(*root, block, header.bytes, 64, Deadline(0ms))};
    root->broadcast({&seal, sizeof seal}, 0, 0ms);
  }
  CHECK(receiver.step(0ms).did == Got::applied);
  CHECK(receiver.step(0ms).did == Got::lost);
  CHECK(receiver.step(0ms).did == Got::nothing);
}

TEST_CASE("weight_channel: sender and receiver can be stopped while they wait for a peer") {
  Plane plane(100, {.bucket_bytes = 64, .connect_timeout = 60s, .transfer_timeout = 60s});
  plane.add(1);
  plane.publish(1);
  CHECK(plane.sender.step().did == Sent::connected);
  CHECK(plane.sender.step().did == Sent::sent);
  SenderStep sent;
  ReceiverStep first, second;
  {
    std::jthread sender([&] { sent = plane.sender.step(); });  // the reply never comes
    plane.sender.stop();
  }
  WeightReceiver& receiver = plane.inferences[1]->receiver;
  {
    std::jthread thread([&] {
      first = receiver.step();
      second = receiver.step();
    });
    receiver.stop();
  }
  CHECK(sent.did == Sent::stopped);
  CHECK(plane.sender.step().did == Sent::stopped);
  CHECK(second.did == Got::stopped);
}

TEST_CASE(
    "weight_channel: with concurrent threads versions rise, weights are complete, and all receivers get the newest") {
  constexpr uint64_t kLast = 300;
  Plane plane(5000, {.bucket_bytes = 4096, .connect_timeout = 10s, .transfer_timeout = 10s});
  for (const InferenceIndex inference_index : {1, 2, 3}) plane.add(inference_index);
  std::atomic<int> torn = 0, backwards = 0, unfinished = 3;
  std::vector<std::jthread> threads;
  for (auto& [inference_index, inference] : plane.inferences) {
    threads.emplace_back([&, inference = inference.get()] {
      uint64_t seen = 0;
      while (seen != kLast) {
        const ReceiverStep step = inference->receiver.step();
        if (step.did != Got::applied) continue;
        torn += !whole(step.weights);
        backwards += step.weights->version.number <= seen;
        seen = step.weights->version.number;
      }
      --unfinished;
    });
  }
  std::jthread sender([&] {
    while (plane.sender.wait_for_work(10s)) plane.sender.step();
  });
  for (uint64_t number = 1; number <= kLast; ++number) plane.publish(number);
  threads.clear();
  plane.sender.stop();
  sender.join();
  CHECK(unfinished == 0);
  CHECK(torn == 0);
  CHECK(backwards == 0);
}
