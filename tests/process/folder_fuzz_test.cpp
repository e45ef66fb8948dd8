// Run folders with random damage: changed bytes; files that are cut, extended, replaced or removed; copied checkpoints.
// Whatever the damage, train, eval and play succeed or refuse the folder with one line and exit code 2. They never
// crash or hang.
//
// Environment variables: TROUPE_FUZZ_SECONDS runs for that time instead of a fixed number of cases; TROUPE_FUZZ_SEED is
// the seed of the first case. A failing case prints its seed and the damage.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/rng.h"
#include "tests/process/train_process.h"
#include "tests/support/bad_files.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kCases = 8;

Words settings(int updates, int seed) {
  return set({"stop.env_steps=0", "stop.updates=" + std::to_string(updates), "checkpoint.every_updates=1",
              "seed=" + std::to_string(seed), "trainer.super_batch=256"});
}

// Two finished runs of three updates that differ in their seed.
struct Originals {
  TempFolder folder;
  std::string a = folder / "a", b = folder / "b";
  Originals() {
    REQUIRE(CommandLine(train_line(a, settings(3, 1))).exit_code == 0);
    REQUIRE(CommandLine(train_line(b, settings(3, 2))).exit_code == 0);
  }
};

std::string any_of(Rng& rng, const std::vector<std::string>& all) { return all[rng.below(all.size())]; }

// The regular files in `folder`, without links and files of 16 MiB or more: paths relative to it, sorted.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_symlink() && entry.is_regular_file() && entry.file_size() < (16 << 20))
      files.push_back(fs::relative(entry.path(), folder));
  std::sort(files.begin(), files.end());
  return files;
}

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string mutated(Rng& rng, std::string bytes) {
  const size_t size = bytes.size();
  switch (rng.below(6)) {
    case 0:
      for (uint64_t left = rng.below(8) + 1; left > 0 && size > 0; --left)
        bytes[rng.below(size)] = static_cast<char>(rng.below(256));
      break;
    case 1: bytes.resize(rng.below(size + 1)); break;
    case 2: bytes += std::string(1 + rng.below(100), static_cast<char>(rng.below(256))); break;
    case 3: bytes += bytes; break;
    case 4: bytes.erase(rng.below(size + 1), 1 + rng.below(40)); break;
    default:
      bytes.insert(rng.below(size + 1),
                   any_of(rng, {"{", "}", "\"", ",", "0", "-", "1e999", "\n", std::string(8, '\xff')}));
  }
  return bytes;
}

// Damages the folder in one way and describes the damage.
std::string damage(Rng& rng, const std::string& run, const Originals& originals) {
  const std::string file = any_of(rng, files_in(run)), path = run + '/' + file;
  const auto copied = [](const std::string& from, const std::string& to) {
    fs::remove_all(to);
    fs::copy(from, to, fs::copy_options::recursive);
  };
  switch (rng.below(7)) {
    case 0: {
      const BadFile& bad = kBadFiles[rng.below(std::size(kBadFiles))];
      replace_by(bad, path);
      return file + " becomes " + bad.name;
    }
    case 1: {
      const std::string other = any_of(rng, files_in(originals.a));
      copied(originals.a + '/' + other, path);
      return file + " becomes " + other;
    }
    case 2: {
      const std::string other = any_of(rng, files_in(originals.b));
      copied(originals.b + '/' + other, path);
      return file + " becomes " + other + " of another run";
    }
    case 3: {
      const uint64_t from = 1 + rng.below(3), to = 1 + rng.below(6);
      copied(checkpoint_folder(originals.b, from), checkpoint_folder(run, to));
      return "checkpoint " + std::to_string(to) + " becomes " + std::to_string(from) + " of another run";
    }
    case 4: {
      const uint64_t from = 1 + rng.below(3), to = 1 + rng.below(6);
      if (from != to) copied(checkpoint_folder(originals.a, from), checkpoint_folder(run, to));
      return "checkpoint " + std::to_string(to) + " becomes a copy of " + std::to_string(from);
    }
    case 5: fs::remove_all(path); return file + " is removed";
    default: {
      const std::string bytes = mutated(rng, text_of(path));
      write(path, bytes);
      return file + " is changed";
    }
  }
}

// The number of lines that begin with "troupe: ", so without those of the log.
long lines_of_program(const std::string& text) {
  long count = 0;
  for (size_t at = text.find("troupe: "); at != std::string::npos; at = text.find("troupe: ", at + 1))
    count += at == 0 || text[at - 1] == '\n';
  return count;
}

void check(const Words& line) {
  CAPTURE(line[1]);
  Process process(line);
  const std::optional<int> code = process.wait();
  const std::string err = process.err();
  CHECK_MESSAGE((code == 0 || code == 2), "exit code " << code.value_or(-1) << ": " << err);
  CHECK_MESSAGE(lines_of_program(err) == (code == 2 ? 1 : 0), err);
  CHECK_MESSAGE(err.find("internal error") == std::string::npos, err);
  CHECK_MESSAGE(err.find("json.exception") == std::string::npos, err);
}

uint64_t number_in(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("folder_fuzz: train, eval and play accept a damaged run folder or refuse it with one line") {
  using Clock = std::chrono::steady_clock;
  const Originals originals;
  const bool timed = std::getenv("TROUPE_FUZZ_SECONDS") != nullptr;
  const auto end = Clock::now() + std::chrono::seconds(number_in("TROUPE_FUZZ_SECONDS", 0));
  const uint64_t first = number_in("TROUPE_FUZZ_SEED", 1);
  uint64_t seed = first;
  do {
    CAPTURE(seed);
    Rng rng(derive_key(seed, "folder fuzz"));
    TempFolder folder;
    const std::string run = folder / "run";
    fs::copy(originals.a, run, fs::copy_options::recursive);
    std::string done;
    for (uint64_t left = rng.below(3) + 1; left > 0; --left) done += damage(rng, run, originals) + "; ";
    CAPTURE(done);
    if (rng.below(2) == 0)
      check({"troupe", rng.below(2) == 0 ? "eval" : "play", run, "--episodes", "1"});
    else
      check(train_line(run, settings(4, 1)));
    ++seed;
  } while (timed ? Clock::now() < end : seed < first + kCases);
  const uint64_t cases = seed - first;
  MESSAGE(cases, " cases");
}
