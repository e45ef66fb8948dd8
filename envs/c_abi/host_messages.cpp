#include "envs/c_abi/host_messages.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <vector>

#include <nlohmann/json.hpp>

namespace troupe {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kArrayAlignment = 64;

// Calls visit(array, dtype, shape) for each array of a step, always in the same order.
template <class Visit>
void visit_arrays(const EnvSpec& spec, int64_t rows, EnvStep& step, Array& actions, Visit visit) {
  for (Arrays* arrays : {&step.observations, &step.final_observations})
    for (const ArraySpec& each : spec.observations) {
      Array array;
      visit(array, each.dtype, each.shape.prepended(rows));
      arrays->set(each.name, std::move(array));
    }
  if (spec.action.masked) visit(step.action_mask, DType::u8, Shape{rows, spec.action.mask_size()});
  visit(step.rewards, DType::f32, Shape{rows});
  for (Array* flags : {&step.terminated, &step.truncated, &step.success, &step.failed})
    visit(*flags, DType::u8, Shape{rows});
  for (Array* numbers : {&step.executed, &step.task}) visit(*numbers, DType::i32, Shape{rows});
  visit(actions, spec.action.dtype(), spec.action.shape().prepended(rows));
}

size_t aligned(size_t size) { return (size + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment; }

}  // namespace

bool send_message(int socket, HostMessage message, std::string_view text) {
  message.size = text.size();
  iovec parts[2] = {{&message, sizeof message}, {const_cast<char*>(text.data()), text.size()}};
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  while (header.msg_iovlen > 0) {
    ssize_t sent = sendmsg(socket, &header, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    while (header.msg_iovlen > 0 && static_cast<size_t>(sent) >= header.msg_iov->iov_len) {
      sent -= static_cast<ssize_t>(header.msg_iov->iov_len);
      ++header.msg_iov;
      --header.msg_iovlen;
    }
    if (header.msg_iovlen == 0) break;
    header.msg_iov->iov_base = static_cast<char*>(header.msg_iov->iov_base) + sent;
    header.msg_iov->iov_len -= static_cast<size_t>(sent);
  }
  return true;
}

std::string spec_text(const EnvSpec& spec) {
  Json observations = Json::array();
  for (const ArraySpec& each : spec.observations)
    observations.push_back(
        {each.name, static_cast<int>(each.dtype), std::vector<int64_t>(each.shape.begin(), each.shape.end())});
  return Json{{"observations", observations},
              {"kind", static_cast<int>(spec.action.kind)},
              {"bins", spec.action.bins},
              {"low", spec.action.low},
              {"high", spec.action.high},
              {"chunk", spec.action.chunk},
              {"masked", spec.action.masked},
              {"max_episode_steps", spec.max_episode_steps},
              {"reports_success", spec.reports_success}}
      .dump();
}

EnvSpec spec_of_text(const std::string& id, const std::string& text) {
  const Json given = Json::parse(text);
  EnvSpec spec;
  spec.id = id;
  for (const Json& each : given.at("observations"))
    spec.observations.push_back({each.at(0).get<std::string>(), static_cast<DType>(each.at(1).get<int>()),
                                 Shape(each.at(2).get<std::vector<int64_t>>())});
  spec.action.kind = static_cast<ActionKind>(given.at("kind").get<int>());
  spec.action.bins = given.at("bins").get<std::vector<int32_t>>();
  spec.action.low = given.at("low").get<std::vector<float>>();
  spec.action.high = given.at("high").get<std::vector<float>>();
  spec.action.chunk = given.at("chunk").get<int32_t>();
  spec.action.masked = given.at("masked").get<bool>();
  spec.max_episode_steps = given.at("max_episode_steps").get<int32_t>();
  spec.reports_success = given.at("reports_success").get<bool>();
  spec.blocks = true;  // a step waits for the process
  return spec;
}

SharedStep::SharedStep(const EnvSpec& spec, int64_t rows, const std::shared_ptr<std::byte[]>& memory) {
  size_t offset = kStepOffset;
  visit_arrays(spec, rows, step, actions, [&](Array& array, DType dtype, const Shape& shape) {
    array = Array::adopt(dtype, shape, std::shared_ptr<std::byte[]>(memory, memory.get() + offset));
    offset = aligned(offset + array.bytes());
  });
}

size_t SharedStep::step_bytes(const EnvSpec& spec, int64_t rows) {
  EnvStep step;
  Array actions;
  size_t size = 0;
  visit_arrays(spec, rows, step, actions, [&](Array&, DType dtype, const Shape& shape) {
    size = aligned(size + static_cast<size_t>(shape.elements()) * size_of(dtype));
  });
  return size;
}

std::shared_ptr<std::byte[]> map_shared(int file, size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(memory), [size](std::byte* begin) { munmap(begin, size); }};
}

}  // namespace troupe
