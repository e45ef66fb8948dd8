// The receiver process of gloo_test: a WeightReceiver for a policy of argv[1] floats. It reads invitations from
// standard input, as lines "HOST PORT GENERATION RANK SIZE", and prints a line for each step. It ends at the end of its
// input.

#include <iostream>
#include <string>
#include <thread>

#include "runtime/weights/receiver.h"
#include "tests/runtime/weights/weight_fixture.h"

using namespace troupe;

int main(int, char** arguments) {
  const auto signature = test::signature_of(std::stoll(arguments[1]));
  const auto slot = std::make_shared<WeightSlot>();
  WeightReceiver receiver(make_group_backend("gloo", {}), signature, slot);
  std::jthread stepping([&] {
    while (true) {
      const ReceiverStep step = receiver.step();
      switch (step.did) {
        case ReceiverStep::Did::stopped: return;
        case ReceiverStep::Did::joined: std::cout << "joined" << std::endl; break;
        case ReceiverStep::Did::applied:
          std::cout << (test::whole(step.weights) ? "applied " : "torn ") << step.weights->version.number << std::endl;
          break;
        case ReceiverStep::Did::lost: std::cout << "lost" << std::endl; break;
        default: break;
      }
    }
  });
  Rendezvous r;
  while (std::cin >> r.host >> r.port >> r.generation >> r.rank >> r.size) receiver.invite(r);
  receiver.stop();
}
