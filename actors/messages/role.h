#pragma once
// Role: what an inference actor computes. Plain values; any thread.

#include <cstdint>

namespace troupe {

// Steps or answers of the policy, or scores of answers with frozen models.
enum class Role : uint8_t { sampling = 0, scoring = 1 };
constexpr int kRoles = 2;

// What an actor of this role is called, and its process in a JoinRequest.
constexpr const char* name_of(Role role) { return role == Role::sampling ? "inference" : "scorer"; }

}  // namespace troupe
