#include "models/networks/embedding_ranges.h"

#include "tests/support/test.h"

using namespace troupe;

namespace {

const ArraySpec kNumbers = {"state", DType::f32, {2}};
const ArraySpec kTokens = {"tokens", DType::i64, {3}};
const ArraySpec kLetters = {"letters", DType::u8, {4}};

std::vector<ObservationRange> ranges_of(const std::string& encoders, std::vector<ArraySpec> observations) {
  ModelConfig config;
  config.kind = "net";
  config.net = R"({"encoders": )" + encoders + "}";
  EnvSpec spec;
  spec.id = "Made-up";
  spec.observations = std::move(observations);
  spec.action.bins = {2};
  return embedding_ranges(config, spec);
}

}  // namespace

TEST_CASE(
    "embedding_ranges: each observation that an embedding reads has the embedding's number of values as its range") {
  const auto ranges = ranges_of(R"({"tokens": {"kind": "embedding", "values": 5}, "letters": {"kind": "mlp"}})",
                                {kNumbers, kLetters, kTokens});
  REQUIRE(ranges.size() == 1);
  CHECK(ranges[0].observation == 2);
  CHECK(ranges[0].values == 5);
  CHECK(ranges[0].reason == "the embedding in model.net.encoders has 5 values");
  CHECK(ranges_of(R"({"*": {"kind": "embedding", "values": 5}})", {kLetters, kTokens}).size() == 2);
}

TEST_CASE("embedding_ranges: bytes need no check if the embedding has all 256 values") {
  CHECK(ranges_of(R"({"letters": {"kind": "embedding", "values": 256}})", {kLetters}).empty());
  CHECK(ranges_of(R"({"letters": {"kind": "embedding", "values": 255}})", {kLetters}).size() == 1);
}

TEST_CASE("embedding_ranges: networks without an embedding have no ranges") {
  EnvSpec spec;
  spec.observations = {kTokens};
  spec.action.bins = {2};
  CHECK(embedding_ranges(ModelConfig(), spec).empty());
  CHECK(ranges_of("{}", {kNumbers, kTokens}).empty());
}
