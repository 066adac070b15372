// A process that dies in the middle of writing: what it answered as committed is there, and the
// verifier says that unstable data may not be.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fstream>

#include "tests/dataserver/store/store_runner.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::StoreRunner;
using test::TempFolder;

struct Progress {
  WriteVerifier verifier = 0;
  std::uint64_t committed = 0;  // objects whose contents were answered as stable
};

layout::ObjectId object_at(std::uint64_t i) { return {.fileid = i, .generation = 1}; }
std::string contents_of(std::uint64_t i) {
  return std::string(100 + i * 37 % 9000, static_cast<char>('a' + i % 26));
}

// The child's whole life: writes and commits objects until it is killed, telling after each.
[[noreturn]] void write_until_killed(const FileStoreOptions& options, int tell) {
  StoreRunner runner(options);
  for (std::uint64_t i = 0;; ++i) {
    const bool commit = i % 2 == 0;
    const auto stability = commit ? Stability::kUnstable : Stability::kFileSync;
    const auto written = runner.write(object_at(i), 0, contents_of(i), stability);
    if (!written || (commit && !runner.commit(object_at(i)))) ::_exit(1);
    const Progress progress{written->verifier, i + 1};
    if (::write(tell, &progress, sizeof progress) != sizeof progress) ::_exit(2);
  }
}

Progress run_and_kill(const FileStoreOptions& options, std::uint64_t after) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) write_until_killed(options, ends[1]);
  ::close(ends[1]);
  Progress progress;
  Progress next;
  while (::read(ends[0], &next, sizeof next) == sizeof next) {
    progress = next;
    if (progress.committed == after) ::kill(child, SIGKILL);
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  return progress;
}

TEST_CASE("what was committed before a SIGKILL is there, under a new verifier") {
  const TempFolder folder;
  FileStoreOptions options;
  options.path = folder.path() + "/store";
  options.mode = GENERATE(IoMode::kBuffered, IoMode::kDirect);
  const Progress progress = run_and_kill(options, GENERATE(1U, 9U, 40U));
  REQUIRE(progress.committed > 0);
  StoreRunner runner(options);
  CHECK_FALSE(runner.store().directory().was_clean());
  CHECK(runner.store().verifier() != progress.verifier);
  for (std::uint64_t i = 0; i < progress.committed; ++i) {
    REQUIRE(runner.text(object_at(i), 0, 1 << 20) == contents_of(i));
  }
  CHECK(runner.store().usage()->objects >= progress.committed);
}

TEST_CASE("an orderly close keeps the verifier, so that nobody writes again for nothing") {
  const TempFolder folder;
  FileStoreOptions options;
  options.path = folder.path() + "/store";
  WriteVerifier verifier = 0;
  {
    StoreRunner runner(options);
    verifier = runner.write(object_at(1), 0, "unstable").value().verifier;
    REQUIRE(runner.store().close());
  }
  StoreRunner runner(options);
  CHECK(runner.store().verifier() == verifier);
  CHECK(runner.text(object_at(1), 0, 100) == "unstable");
}

}  // namespace
}  // namespace weft::ds
