#include "actors/joining.h"

#include <unistd.h>

#include <algorithm>

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kFirstPause{100}, kLongestPause{3000};

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

}  // namespace

JoinRequest join_request(const std::string& kind) {
  return {kProtocolVersion, kind, host_name(), static_cast<uint64_t>(getpid())};
}

std::optional<std::chrono::milliseconds> next_pause(Joining& joining, std::chrono::steady_clock::time_point now) {
  if (joining.backoff.count() == 0) joining.lost_at = now;
  if (now - joining.lost_at > kJoinPatience) return std::nullopt;
  joining.backoff = std::clamp(joining.backoff * 2, kFirstPause, kLongestPause);
  return joining.backoff;
}

}  // namespace troupe
