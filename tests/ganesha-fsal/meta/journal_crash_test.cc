// SIGKILL while files enter and leave the journal: every file whose layout was handed out, and of
// which nobody began to say that it came back, is there afterwards.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <sstream>
#include <thread>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr int kThreads = 3;
constexpr unsigned kRounds = 12;

// Lines: "W file" after begin_writing() has returned, "E file" before end_writing() is called.
void load(Namespace& names, int thread, int pipe) {
  const auto say = [&](char what, FileId id) {
    const std::string line = std::string(1, what) + " " + std::to_string(id) + "\n";
    if (::write(pipe, line.data(), line.size()) < 0) ::_exit(1);
  };
  std::vector<FileId> written;
  for (std::uint64_t n = 0;; ++n) {
    const std::string name =
        std::to_string(::getpid()) + "." + std::to_string(thread) + "." + std::to_string(n);
    auto made = names.create(kSuperuser, kRootFileId, name, {});
    if (!made) ::_exit(4);
    const FileId id = made->attributes.id;
    if (!names.begin_writing(id, NamespaceTest::striped({1, 2}))) ::_exit(4);
    say('W', id);
    written.push_back(id);
    if (written.size() < 5) continue;
    const std::vector<FileId> ended(written.begin(), written.begin() + 3);
    for (const FileId gone : ended) say('E', gone);
    if (!names.end_writing(ended)) ::_exit(4);
    written.erase(written.begin(), written.begin() + 3);
  }
}

[[noreturn]] void child(const std::string& path, int pipe) {
  auto store = open_rocks_kv(small_rocks(path));
  if (!store) ::_exit(2);
  auto names = Namespace::open(**store);
  if (!names) ::_exit(3);
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&names, i, pipe] { load(**names, i, pipe); });
  }
  for (auto& thread : threads) thread.join();
  ::_exit(0);
}

// Runs the child for about `ms` after its first line; what it said.
std::string run_and_kill(const std::string& path, unsigned ms) {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::close(pipe[0]);
    child(path, pipe[1]);
  }
  ::close(pipe[1]);
  std::string heard;
  std::jthread killer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(pipe[0], buffer, sizeof(buffer))) > 0;) {
    heard.append(buffer, static_cast<std::size_t>(got));
    if (killer.joinable()) continue;
    killer = std::jthread([pid, ms] {
      ::usleep(ms * 1000);
      ::kill(pid, SIGKILL);
    });
  }
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(WIFSIGNALED(status));
  return heard;
}

}  // namespace

TEST_CASE("SIGKILL at random points leaves every file being written in the journal") {
  skip_under_tsan();
  const TempFolder folder;
  std::set<FileId> out;
  std::set<FileId> ended;
  for (unsigned round = 0; round < kRounds; ++round) {
    const std::string heard = run_and_kill(folder.path(), 20 + round * 7);
    std::istringstream lines(heard);
    for (std::string line; std::getline(lines, line) && !lines.eof();) {
      const FileId id = std::stoull(line.substr(2));
      if (line[0] == 'W') out.insert(id);
      if (line[0] == 'E') ended.insert(id);
    }
    auto store = open_rocks_kv(small_rocks(folder.path()));
    REQUIRE(store);
    auto report = fsck((*store)->latest());
    REQUIRE(report);
    CHECK(report->clean());
    auto names = Namespace::open(**store);
    REQUIRE(names);
    auto journal = (*names)->written_files(0, SIZE_MAX);
    REQUIRE(journal);
    std::set<FileId> there;
    for (const WrittenFile& file : *journal) there.insert(file.id);
    for (const FileId id : out) {
      if (!ended.contains(id)) CHECK(there.contains(id));
    }
  }
  CHECK(ended.size() > 5);  // it was a load, of however slow a disk
}
