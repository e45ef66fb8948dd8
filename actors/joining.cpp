#include "actors/joining.h"

#include <unistd.h>

#include <algorithm>

#include "runtime/base/address.h"
#include "runtime/base/log.h"

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kFirstPause{100}, kLongestPause{3000};
// After a membership of at least this time, and of at least ten times the pause before it, the pauses begin again with
// the shortest.
constexpr std::chrono::milliseconds kLived{10'000};

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

}  // namespace

JoinRequest join_request(const Joining& joining) {
  return {kProtocolVersion, joining.kind,      host_name(), static_cast<uint64_t>(getpid()),
          joining.run_id,   joining.run.config};
}

std::string RunAddress::text() const { return address_text(host, port); }

std::chrono::seconds patience_of(const Joining& joining) {
  return joining.found_run ? joining.run.patience.after_loss : joining.run.patience.at_start;
}

void taken_in(Joining& joining) {
  joining.found_run = true;
  joining.told_refusal = false;
  joining.lost_at.reset();
}

std::optional<std::chrono::milliseconds> next_pause(Joining& joining, std::chrono::steady_clock::time_point now) {
  if (joining.member_since && now - *joining.member_since >= std::max(kLived, 10 * joining.backoff))
    joining.backoff = std::chrono::milliseconds{0};
  if (!joining.lost_at) joining.lost_at = now;
  joining.member_since.reset();
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*joining.lost_at + patience_of(joining) - now);
  if (left.count() <= 0) return std::nullopt;
  joining.backoff = std::clamp(joining.backoff * 2, kFirstPause, kLongestPause);
  return std::min(joining.backoff, left);
}

std::chrono::milliseconds attempt_deadline(Joining& joining, std::chrono::steady_clock::time_point now) {
  if (!joining.lost_at) joining.lost_at = now;
  const std::chrono::milliseconds patience = patience_of(joining), most = kJoinDeadline;
  if (patience.count() == 0) return most;  // only one attempt is made
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*joining.lost_at + patience - now);
  return std::clamp(left, kLeastJoinDeadline, most);
}

void tell_news(const Joining& joining, JoinNews::Kind kind, const std::string& text) {
  const std::string& who = joining.member.empty() ? joining.kind : joining.member;
  if (joining.run.on_news) return joining.run.on_news({kind, who, text});
  if (kind == JoinNews::Kind::gave_up) return;  // on_end has the same text
  const bool trouble = kind == JoinNews::Kind::searching || kind == JoinNews::Kind::lost;
  trouble ? log_warn(who, text) : log_info(who, text);
}

}  // namespace troupe
