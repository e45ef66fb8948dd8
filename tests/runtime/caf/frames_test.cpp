#include "runtime/caf/frames.h"

#include <algorithm>
#include <fstream>
#include <set>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/make_message.hpp>
#include <caf/node_id.hpp>

#include "actors/messages.h"
#include "actors/network_messages.h"
#include "runtime/base/process_stats.h"
#include "runtime/caf/system.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr uint8_t kHandshake = 1, kDirect = 2, kRouted = 3, kMonitor = 4, kDown = 5, kHeartbeat = 6;

using Bytes = std::vector<char>;
using Host = caf::node_id::default_data::host_id_type;

struct Fixture {
  Fixture() {
    register_messages(config);
    // A process has a node id only with the network.
    configure(config, {.threads = 1, .network = true, .network_config = {}});
  }

  template <class... Values>
  Bytes bytes(const Values&... values) {
    Bytes result;
    caf::binary_serializer sink{system(), result};
    REQUIRE_FALSE(sink(values...));
    return result;
  }
  Bytes header(uint8_t operation, size_t length, uint64_t data = 0, uint64_t source = 0, uint64_t target = 0,
               uint8_t flags = 0) {
    return bytes(operation, uint8_t{0}, uint8_t{0}, flags, static_cast<uint32_t>(length), data, source, target);
  }
  caf::node_id node(uint8_t number) { return caf::make_node_id(7, Host{number}); }
  Bytes direct(const caf::message& message) { return bytes(std::vector<caf::strong_actor_ptr>{}, message); }

  std::string handshake() {
    if (std::string why = frames->check(header(kHandshake, 32)); !why.empty()) return why;
    return frames->check(bytes(node(1)));
  }
  // Sends a frame after the handshake of a new connection.
  std::string send(const Bytes& head, const Bytes& payload) {
    frames.emplace(system(), *accepted, most_bytes);
    REQUIRE(handshake().empty());
    return send_more(head, payload);
  }
  std::string send_more(const Bytes& head, const Bytes& payload) {
    if (std::string why = frames->check(head); !why.empty()) return why;
    return frames->check(payload);
  }
  std::string send_direct(const Bytes& payload) { return send(header(kDirect, payload.size(), 0, 5, 9), payload); }
  std::string send_routed(const caf::node_id& to, const caf::message& message) {
    const Bytes payload = bytes(node(1), to, std::vector<caf::strong_actor_ptr>{}, message);
    return send(header(kRouted, payload.size(), 0, 5, 9), payload);
  }
  // A message with the handle of an actor of the process `number`.
  Bytes direct_with_actor_of(uint8_t process, uint64_t actor) {
    const std::string types = "@<>+@atom+@str+@strong_actor_ptr+@str";
    return bytes(std::vector<caf::strong_actor_ptr>{}, uint16_t{0}, types, caf::ok_atom_v, std::string("info"), actor,
                 node(process), std::string("server"));
  }

  caf::actor_system& system() {
    if (!running) running = std::make_unique<caf::actor_system>(config);
    return *running;
  }

  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> running;
  std::optional<FrameCheck> frames;
  const AcceptedMessages* accepted = &messages_to_run();
  size_t most_bytes = 1000;
};

// One message of every type that a listening process accepts, with all members set.
std::vector<caf::message> examples() {
  const Array numbers = Array::of<float>({2}, {1, 2});
  const Arrays named{{"state", numbers}};
  auto rollout = std::make_shared<Rollout>();
  rollout->grid().observations = rollout->grid().final_observations = named;
  rollout->grid().values = numbers;
  return {
      caf::make_message(JoinRequest{2, "worker", "here", 1}),
      caf::make_message(
          RankReady{{}, {{{TensorGroup::policy, "weight", {64, 4}, DType::f32}}}, {{"a", "b"}}, "10.0.0.2"}),
      caf::make_message(RankSaid{{1, 2},
                                 {3, 4},
                                 {{0, 2},
                                  {{1.5, 2}, {}},
                                  {{{0, 2}, Array::of<float>({3}, {1, 2, 3})}},
                                  {Array::of<uint8_t>({2}, {1, 2}), Array()}}}),
      caf::make_message(RankDone{{1, 2}, 3, 4}),
      caf::make_message(RankCopy{{1, 2}, {{0, 2}, numbers, numbers}}),
      caf::make_message(RankMoments{1, {{{0, 2}, Array::of<float>({2}, {1, 2}), Array::of<float>({2}, {3, 4})}}}),
      caf::make_message(GradientsFailed{1, "rank 2: left"}),
      caf::make_message(RankPong{3}),
      caf::make_message(ServeRequest{1, {}, {{{TensorGroup::policy, "weight", {64, 4}, DType::f32}}}, "10.0.0.2"}),
      caf::make_message(Serving{1}),
      caf::make_message(SpawnRequest{2, 3, "here", 4}),
      caf::make_message(WorkerHello{1, 2, 3}),
      caf::make_message(RolloutMessage{rollout}),
      caf::make_message(Part{PartOf::reply, 1, 2, 3, Array(DType::u8, {4})}),
      caf::make_message(
          WorkerReport{1, 2, {{1, 3, 4, {numbers, numbers, numbers}}}, true, 5, 6, 7, 8, 9, 10, 11, 12, 13, "broken"}),
      caf::make_message(EnvironmentsFailing{1, "broken"}),
      caf::make_message(Applied{1, {2, 3}}),
      caf::make_message(InferenceReport{1, {2, 3}, 4, 5, 6, 7, 8, 9, 10, numbers, numbers}),
      caf::make_message(ProcessReport{{{"worker", 1, 2, 3, 4}, {"grader", 5, 6, 7, 8}}}),
      caf::make_message(InferenceRequest{1, 2, 3, StepRequest{4, named, numbers, numbers, named}}),
      caf::make_message(InferenceRequest{1, 2, 3, AnswerRequest{numbers, numbers, numbers, numbers, numbers}}),
      caf::make_message(
          InferenceReply{1, 2, {3, 4}, Fault::none, "", StepReply{numbers, numbers, numbers, numbers, numbers}}),
      caf::make_message(
          InferenceReply{1, 2, {3, 4}, Fault::none, "", AnswerReply{numbers, numbers, numbers, numbers, numbers}}),
      caf::make_message(InferenceReply{1, 2, {3, 4}, Fault::forward_failed, "why", {}}),
      caf::make_message(Pause{1, 2}),
  };
}

// The type names of a message as they are sent.
std::string type_of(Fixture& fixture, const caf::message& message) {
  const Bytes bytes = fixture.bytes(message);
  caf::binary_deserializer source{fixture.system(), bytes};
  uint16_t number = 0;
  std::string types;
  REQUIRE_FALSE(source.begin_object(number, types));
  return types.substr(std::string("@<>+").size());
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "caf_frames: a connection must begin with a complete handshake") {
  const std::pair<Bytes, std::string> cases[] = {
      {header(kHandshake, 0), "malformed header"},
      {header(kHandshake, 31), "malformed header"},
      {header(kHandshake, 33), "a payload of 33 bytes for its handshake"},
      {header(kHandshake, 32, 1), "malformed header"},
      {header(kHandshake, 32, 0, 1), "malformed header"},
      {header(kHandshake, 32, 0, 0, 1), "malformed header"},
      {header(kHandshake, 32, 0, 0, 0, 1), "malformed header"},
      {header(0, 0, 4), "began with a server's handshake"},
      {header(kDirect, 10, 0, 1, 1), "began with a direct message"},
      {header(kHeartbeat, 0), "began with a heartbeat"},
      {header(7, 0), "does not speak the protocol"},
      {header('G', 0), "does not speak the protocol"},
  };
  for (const auto& [bytes, why] : cases) {
    frames.emplace(system(), messages_to_run(), 1000);
    const std::string error = frames->check(bytes);
    CHECK_MESSAGE(error.find(why) != std::string::npos, error);
    CHECK_FALSE(frames->introduced());
  }
}

TEST_CASE_FIXTURE(Fixture, "caf_frames: a handshake must have the id of another process, and cannot change it") {
  const caf::node_id nodes[] = {{}, caf::make_node_id(0, Host{1}), caf::make_node_id(7, Host{}), system().node()};
  for (const caf::node_id& bad : nodes) {
    frames.emplace(system(), messages_to_run(), 1000);
    REQUIRE(frames->check(header(kHandshake, 32)).empty());
    Bytes name = bytes(bad);
    name.resize(32);
    CHECK_FALSE(frames->check(name).empty());
    CHECK_FALSE(frames->introduced());
  }
  frames.emplace(system(), messages_to_run(), 1000);
  CHECK(handshake().empty());
  CHECK(frames->introduced());
  CHECK(frames->check(header(kHandshake, 32, 0, 0, 0, 2)).empty());  // selects this connection
  CHECK(frames->check(bytes(node(2))) == "changed its name in a second handshake");
  frames.emplace(system(), messages_to_run(), 1000);
  CHECK(handshake().empty());
  CHECK(handshake().empty());
  CHECK(handshake() == "repeated its handshake");
}

TEST_CASE_FIXTURE(Fixture, "caf_frames: the frames that processes of troupe send are accepted") {
  CHECK(send(header(kHeartbeat, 0), header(kHeartbeat, 0)).empty());
  CHECK(send_direct(direct(caf::make_message(make_error(caf::sec::runtime_error, "a", "b")))).empty());
  CHECK(send_direct(direct(caf::message{})).empty());
  const Bytes monitor = bytes(node(1), system().node());
  CHECK(send(header(kMonitor, monitor.size(), 0, 0, 9), monitor).empty());
  const Bytes down = bytes(node(1), system().node(), caf::error{caf::exit_reason::kill});
  CHECK(send(header(kDown, down.size(), 0, 9, 0), down).empty());
  const Bytes info = direct(caf::make_message(caf::sys_atom_v, caf::get_atom_v, std::string("info")));
  const auto server = static_cast<uint64_t>(caf::atom("SpawnServ"));
  CHECK(send(header(kDirect, info.size(), 0, 5, server, 1), info).empty());
}

TEST_CASE_FIXTURE(Fixture, "caf_frames: a message of every accepted type is accepted with its exact length only") {
  for (const AcceptedMessages* taken : {&messages_to_run(), &messages_to_node()}) {
    accepted = taken;
    std::set<std::string_view> sent;
    for (const caf::message& example : examples()) {
      const std::string name = type_of(*this, example);
      CAPTURE(name);
      const auto type = std::ranges::find(taken->types, name, &AcceptedType::name);
      const Bytes whole = direct(example);
      CHECK(send_direct(whole).empty() == (type != taken->types.end()));
      if (type == taken->types.end()) continue;
      sent.insert(type->name);
      for (size_t size = 1; size < whole.size(); ++size)
        REQUIRE_FALSE(send_direct({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)}).empty());
      Bytes longer = whole;
      longer.push_back(0);
      CHECK(send_direct(longer) == "sent a direct message with bytes after its end");
    }
    for (const AcceptedType& type : taken->types)
      CHECK_MESSAGE(sent.contains(type.name), "examples() has no ", type.name);
  }
}

TEST_CASE_FIXTURE(
    Fixture, "caf_frames: a run accepts the messages of its interfaces, a node accepts requests for workers only") {
  CHECK(messages_to_run().types.size() == 21);
  REQUIRE(messages_to_node().types.size() == 1);
  CHECK(messages_to_node().types[0].name == caf::type_name<SpawnRequest>::value);
  CHECK(send_direct(direct(caf::make_message(begin_atom_v))) ==
        "sent a message of type @atom, which is not for this process");
}

TEST_CASE_FIXTURE(Fixture, "caf_frames: a run relays requests for actions and their replies, a node relays nothing") {
  const auto to_other = [&](const caf::message& message) { return send_routed(node(2), message); };
  const Bytes monitor = bytes(node(1), node(2));
  const Bytes down = bytes(node(1), node(2), caf::error{caf::exit_reason::kill});
  for (const caf::message& relayed : {caf::make_message(InferenceRequest{}), caf::make_message(InferenceReply{}),
                                      caf::make_message(Part{}), caf::make_message(Pause{})})
    CHECK(to_other(relayed).empty());
  CHECK(send(header(kMonitor, monitor.size(), 0, 0, 9), monitor).empty());
  CHECK(send(header(kDown, down.size(), 0, 9, 0), down).empty());
  for (const caf::message& other :
       {caf::make_message(JoinRequest{}), caf::make_message(WorkerHello{}), caf::make_message(Serving{}),
        caf::message{}, caf::make_message(make_error(caf::sec::runtime_error))}) {
    CHECK_FALSE(to_other(other).empty());
    CHECK(send_routed(system().node(), other).empty());
  }
  accepted = &messages_to_node();
  CHECK(send_routed(system().node(), caf::make_message(SpawnRequest{})).empty());
  CHECK(to_other(caf::make_message(SpawnRequest{})) == "sent a message for another process");
  CHECK(send(header(kMonitor, monitor.size(), 0, 0, 9), monitor) == "sent a message for another process");
  CHECK(send(header(kDown, down.size(), 0, 9, 0), down) == "sent a message for another process");
}

TEST_CASE_FIXTURE(Fixture,
                  "caf_frames: a peer can only send handles of its own actors, and of a limited number at a time") {
  CHECK(send_direct(direct_with_actor_of(1, 7)).empty());
  CHECK(send_direct(direct_with_actor_of(2, 7)) == "sent a message with an actor of another process");
  const Bytes pause = direct(caf::make_message(Pause{}));
  const Bytes down = bytes(node(1), system().node(), caf::error{caf::exit_reason::kill});
  const auto head = [&](uint64_t actor) { return header(kDirect, pause.size(), 0, actor, 9); };
  REQUIRE(send(head(1), pause).empty());
  for (uint64_t actor = 1; actor <= kMostActorsOfPeer; ++actor) REQUIRE(send_more(head(actor), pause).empty());
  REQUIRE(send_more(header(kDown, down.size(), 0, 5, 0), down).empty());  // one ends, so that another one is accepted
  CHECK(send_more(head(kMostActorsOfPeer + 1), pause).empty());
  CHECK(send_more(head(kMostActorsOfPeer + 2), pause) == "named more than 16384 actors that have not ended");
}

TEST_CASE_FIXTURE(Fixture, "caf_frames: checking a message of the largest size takes little additional memory") {
  most_bytes = 32 << 20;
  constexpr int64_t kMore = 64 << 20;
  const auto repeated = [](const Bytes& before, const Bytes& unit, size_t count) {
    Bytes all = before;
    all.reserve(before.size() + unit.size() * count);
    for (size_t i = 0; i < count; ++i) all.insert(all.end(), unit.begin(), unit.end());
    return all;
  };
  const auto head_of = [&](const std::string& type) {
    return bytes(std::vector<caf::strong_actor_ptr>{}, uint16_t{0}, "@<>+" + type);
  };
  const auto joined = [](Bytes left, const Bytes& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
  };
  // A list of the shortest possible unfinished rollouts, with arrays of one number: 29 bytes each, which take about 900
  // in memory.
  Array one(DType::u8, {});
  const Bytes partial = bytes(uint32_t{0}, uint64_t{0}, uint64_t{0}, one, one, one);
  const size_t partials = (most_bytes - 1000) / partial.size();
  Bytes count;
  caf::binary_serializer sink{system(), count};
  size_t number = partials;
  REQUIRE_FALSE(sink.begin_sequence(number));
  const Bytes reports = joined(joined(head_of(caf::type_name<WorkerReport>::value), bytes(uint64_t{0}, uint64_t{0})),
                               repeated(count, partial, partials));
  // Tensors without a name or extents: 4 bytes each, which take about 120 in memory.
  const Bytes tensor = bytes(uint8_t{0}, std::string(), uint8_t{0}, std::vector<int64_t>{});
  const Bytes signature =
      joined(joined(head_of(caf::type_name<ServeRequest>::value), bytes(uint64_t{0}, InferenceService{})),
             repeated(bytes(uint32_t{1 << 20}), tensor, 1 << 20));
  // An array with as many extents as fit.
  Bytes extents;
  caf::binary_serializer extents_sink{system(), extents};
  number = most_bytes / 2;
  REQUIRE_FALSE(extents_sink.begin_sequence(number));
  const Bytes part =
      joined(head_of(caf::type_name<Part>::value), joined(bytes(uint64_t{0}, uint32_t{0}, uint32_t{1}, uint8_t{0}),
                                                          repeated(extents, Bytes(1 << 20), most_bytes / 2 >> 20)));
  for (const Bytes* message : {&reports, &signature, &part}) {
    std::ofstream("/proc/self/clear_refs") << 5;  // resets the peak, so that it is that of this message
    const auto before = static_cast<int64_t>(resident_bytes());
    CHECK_FALSE(send_direct(*message).empty());
    CHECK(static_cast<int64_t>(peak_resident_bytes()) < before + kMore);
  }
}

TEST_CASE_FIXTURE(Fixture, "caf_frames: a message of another type or with another process as sender is refused") {
  const caf::message others[] = {
      caf::make_message(std::string("text")),
      caf::make_message(caf::link_atom_v, caf::strong_actor_ptr{}),
      caf::make_message(beat_atom_v),
      caf::make_message(Stop{"no"}),
      caf::make_message(caf::exit_msg{{}, caf::exit_reason::kill}),
      caf::make_message(Pause{}, Pause{}),
      caf::make_message(caf::sys_atom_v, caf::get_atom_v, std::string("info")),  // not sent to a named actor
  };
  for (const caf::message& other : others) CHECK_FALSE(send_direct(direct(other)).empty());
  const Bytes routed =
      bytes(node(2), system().node(), std::vector<caf::strong_actor_ptr>{}, caf::make_message(Pause{}));
  CHECK(send(header(kRouted, routed.size(), 0, 5, 9), routed) == "sent a message in another process's name");
  const Bytes pause = direct(caf::make_message(Pause{}));
  CHECK_FALSE(send(header(kDirect, pause.size(), 0, 5, 0), pause).empty());
  CHECK_FALSE(send(header(kDirect, pause.size(), 0, 5, 9, 1), pause).empty());  // to a named actor
  CHECK_FALSE(send(header(kDirect, 1001, 0, 5, 9), pause).empty());
  CHECK_FALSE(send(header(kMonitor, 63, 0, 0, 9), pause).empty());
}

TEST_CASE_FIXTURE(Fixture,
                  "caf_frames: a message that is truncated, too long or has a wrong length inside is refused") {
  const Bytes whole = direct(caf::make_message(JoinRequest{2, "worker", "here", 1}));
  for (size_t size = 1; size < whole.size(); ++size)
    CHECK_FALSE(send_direct({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)}).empty());
  Bytes longer = whole;
  longer.push_back(0);
  CHECK(send_direct(longer) == "sent a direct message with bytes after its end");
  Part part;
  part.data = Array(DType::u8, {4});
  Bytes huge = direct(caf::make_message(part));
  REQUIRE(send_direct(huge).empty());
  huge[huge.size() - 4 - 5] = 0x3f;  // the array announces a gigabyte
  CHECK_FALSE(send_direct(huge).empty());
}
