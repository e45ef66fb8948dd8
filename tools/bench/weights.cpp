#include "tools/bench/weights.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/weights/process_group_gloo.h"
#include "runtime/weights/receiver.h"
#include "runtime/weights/sender.h"
#include "tools/bench/timing.h"

namespace troupe {

namespace {

constexpr std::chrono::seconds kTimeout{60};

// The baseline: c10d's own broadcast. Both ranks are connected before the first measurement; the receiver is a thread.
class Bare {
 public:
  Bare(GroupBackend& backend, size_t bytes) : from_(bytes, std::byte{1}), to_(bytes) {
    Rendezvous r = backend.host();
    r.generation = 1'000'000;  // Channel uses the same backend, and its generations count up from 1
    r.size = 2;
    r.rank = 1;
    receiver_ = std::jthread([this, &backend, r](const std::stop_token& stop) {
      const auto group = make_bare_broadcast(backend, r, kTimeout);
      for (uint64_t turn = 1; wait_for(begun_, turn, stop); ++turn) {
        group->run(to_.data(), to_.size(), 0);
        advance(done_);
      }
    });
    r.rank = 0;
    root_ = make_bare_broadcast(backend, r, kTimeout);
  }
  ~Bare() {
    receiver_.request_stop();
    advance(begun_);
  }

  double measure() {
    const auto start = BenchClock::now();
    advance(begun_);
    root_->run(from_.data(), from_.size(), 0);
    wait_for(done_, ++turns_, {});
    return seconds_since(start);
  }

 private:
  static void advance(std::atomic<uint64_t>& counter) {
    ++counter;
    counter.notify_all();
  }
  static bool wait_for(const std::atomic<uint64_t>& counter, uint64_t value, const std::stop_token& stop) {
    for (uint64_t seen = counter; seen < value; seen = counter) counter.wait(seen);
    return !stop.stop_requested();
  }

  std::vector<std::byte> from_, to_;
  std::unique_ptr<BareBroadcast> root_;
  std::atomic<uint64_t> begun_ = 0, done_ = 0;
  uint64_t turns_ = 0;
  std::jthread receiver_;  // last: uses the members above
};

// A sender and a receiver with its own thread.
class Channel {
 public:
  Channel(const std::shared_ptr<GroupBackend>& of_sender, const std::shared_ptr<GroupBackend>& of_receiver,
          size_t bytes, ChannelOptions options)
      : signature_(std::make_shared<const Signature>(
            Signature{{{TensorGroup::policy, "w", {static_cast<int64_t>(bytes)}, DType::u8}}})),
        flat_(DType::u8, {static_cast<int64_t>(signature_->total_bytes())}),
        receiver_(of_receiver, signature_, std::make_shared<WeightSlot>(), options),
        sender_(
            of_sender, signature_, [this](InferenceIndex, const Rendezvous& r) { receiver_.invite(r); }, options),
        receiving_([this] {
          while (receiver_.step().did != ReceiverStep::Did::stopped) {
          }
        }) {
    sender_.admit(1, *signature_);
    expect(sender_.step(), SenderStep::Did::connected);
  }
  ~Channel() { receiver_.stop(); }

  double measure() {
    const auto start = BenchClock::now();
    sender_.publish(std::make_shared<const WeightSnapshot>(WeightSnapshot{{0, ++number_}, signature_, flat_}));
    expect(sender_.step(), SenderStep::Did::sent);
    expect(sender_.step(), SenderStep::Did::delivered);
    return seconds_since(start);
  }

 private:
  static void expect(const SenderStep& step, SenderStep::Did wanted) {
    if (step.did != wanted) throw TransferError(TransferError::Kind::peer_lost, {1}, "bench weights: " + step.error);
  }

  std::shared_ptr<const Signature> signature_;
  Array flat_;
  uint64_t number_ = 0;
  WeightReceiver receiver_;
  WeightSender sender_;
  std::jthread receiving_;  // last: uses the members above
};

}  // namespace

WeightsBenchmark bench_weights(const WeightsBenchmarkOptions& options) {
  const auto gloo = make_group_backend("gloo", {});
  const auto backend_on = [&](int gpu) { return options.nccl ? make_group_backend("nccl", {.device = gpu}) : gloo; };
  const auto first = backend_on(0), second = backend_on(1);
  ChannelOptions channel_options{.connect_timeout = kTimeout, .transfer_timeout = kTimeout};
  if (options.bucket_bytes > 0) channel_options.bucket_bytes = options.bucket_bytes;
  Bare bare(*gloo, options.bytes);
  Channel channel(first, second, options.bytes, channel_options);
  constexpr int kWarmUp = 3;  // touches every buffer for the first time
  std::vector<double> bare_seconds, channel_seconds, ratios;
  for (int i = 0; i < options.repeats + kWarmUp; ++i) {
    const double plain = bare.measure(), ours = channel.measure();
    if (i < kWarmUp) continue;
    bare_seconds.push_back(plain);
    channel_seconds.push_back(ours);
    ratios.push_back(plain / ours);
  }
  return {options.bytes, options.repeats, median(bare_seconds), median(channel_seconds), median(ratios)};
}

}  // namespace troupe
