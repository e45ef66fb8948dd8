// The configs of language models.

#include "tests/learn/config_runs.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("configs: tokens/reverse learns to reverse digits") {
  check_learns({.config = "tokens/reverse", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/countdown_python learns from a reward in Python") {
  check_learns({.config = "tokens/countdown_python", .score = "success_rate", .least = 0.6, .seeds = 1});
}

TEST_CASE("configs: tokens/reverse_ppo learns to reverse digits with a critic") {
  check_learns({.config = "tokens/reverse_ppo", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/reverse_rloo learns to reverse digits with RLOO") {
  check_learns({.config = "tokens/reverse_rloo", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/reverse_reinforce_plus_plus learns to reverse digits with REINFORCE++") {
  check_learns({.config = "tokens/reverse_reinforce_plus_plus", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/reverse_gspo learns to reverse digits with GSPO") {
  check_learns({.config = "tokens/reverse_gspo", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/reverse_cispo learns to reverse digits with CISPO") {
  check_learns({.config = "tokens/reverse_cispo", .score = "success_rate", .least = 0.8, .seeds = 1});
}

TEST_CASE("configs: tokens/addition learns to add two numbers") {
  check_learns({.config = "tokens/addition", .score = "success_rate", .least = 0.85, .seeds = 1});
}

TEST_CASE("configs: tokens/sort learns to sort digits") {
  check_learns({.config = "tokens/sort", .score = "success_rate", .least = 0.9, .seeds = 1});
}

TEST_CASE("configs: tokens/countdown_turns learns to use a hint after a wrong answer") {
  check_learns({.config = "tokens/countdown_turns", .score = "success_rate", .least = 0.6, .seeds = 1});
}
