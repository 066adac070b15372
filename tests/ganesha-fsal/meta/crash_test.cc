// SIGKILL in the middle of a namespace load, over and over: the store is clean, and everything that
// was acknowledged is there.
//
// The child does operations in several threads and writes one line to a pipe after each that has
// been acknowledged to it. Each thread works in a directory of its own, one operation at a time, so
// that of each thread at most the last operation is in doubt.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

constexpr int kThreads = 3;
constexpr int kRounds = 50;

// What one thread of the child does: names n0..n9 of its directory made, renamed and removed.
class Load {
 public:
  Load(Namespace& names, FileId dir, int thread, unsigned seed, int pipe)
      : names_(names), dir_(dir), thread_(thread), random_(seed), pipe_(pipe) {}

  void run() {
    for (;;) step();
  }

 private:
  // Lines: thread, operation, name, and what else: an id, or the new name. A line with '?' before
  // the operation says it is about to begin.
  void say(const std::string& line) {
    const std::string whole = std::to_string(thread_) + " " + line + "\n";
    if (::write(pipe_, whole.data(), whole.size()) < 0) ::_exit(1);
  }

  void step() {
    const std::string name = "n" + std::to_string(random_() % 10);
    const std::string to = "n" + std::to_string(random_() % 10);
    switch (random_() % 3) {
      case 0: {
        say("?C " + name);
        auto made = names_.create(kSuperuser, dir_, name, {});
        return made ? say("C " + name + " " + std::to_string(made->attributes.id)) : say("-");
      }
      case 1: {
        say("?R " + name + " " + to);
        auto renamed = names_.rename(kSuperuser, dir_, name, dir_, to);
        return renamed ? say("R " + name + " " + to) : say("-");
      }
      default: {
        say("?D " + name);
        auto removed = names_.remove(kSuperuser, dir_, name);
        return removed ? say("D " + name) : say("-");
      }
    }
  }

  Namespace& names_;
  const FileId dir_;
  const int thread_;
  std::mt19937 random_;
  const int pipe_;
};

[[noreturn]] void child(const std::string& path, unsigned seed, int pipe) {
  auto store = open_rocks_kv(small_rocks(path));
  if (!store) ::_exit(2);
  auto names = Namespace::open(**store);
  if (!names) ::_exit(3);
  if (::write(pipe, "R", 1) != 1) ::_exit(5);
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    const FileId dir = (*names)->lookup(kRootFileId, std::to_string(i))->id;
    threads.emplace_back([&names, dir, i, seed, pipe] {
      Load(**names, dir, i, seed * kThreads + static_cast<unsigned>(i), pipe).run();
    });
  }
  for (auto& thread : threads) thread.join();
  ::_exit(4);
}

// One thread's directory as the acknowledgements say, and the operation in doubt.
struct Expected {
  std::map<std::string, FileId> names;
  std::string doubt;  // "" or "C n1", "R n1 n2", "D n1"
};

void note_done(Expected& expected, const std::string& operation) {
  std::istringstream in(operation);
  std::string what;
  std::string name;
  in >> what >> name;
  if (what == "C") {
    in >> expected.names[name];
  } else if (what == "D") {
    expected.names.erase(name);
  } else if (what == "R") {
    std::string to;
    in >> to;
    if (to == name) return;
    expected.names[to] = expected.names[name];
    expected.names.erase(name);
  }
}

void hear(std::vector<Expected>& all, const std::string& line) {
  Expected& expected = all.at(static_cast<std::size_t>(line[0] - '0'));
  const std::string said = line.substr(2);
  if (said[0] == '?') {
    expected.doubt = said.substr(1);
    return;
  }
  expected.doubt.clear();
  if (said != "-") note_done(expected, said);
}

std::string read_all(int pipe, std::atomic<bool>& any) {
  std::string out;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(pipe, buffer, sizeof buffer)) > 0;) {
    out.append(buffer, static_cast<std::size_t>(n));
    any = true;
  }
  return out;
}

// Takes on what is there, if that is what was acknowledged, with or without the one in doubt.
bool settle(Expected& expected, const std::map<std::string, FileId>& there) {
  Expected with = expected;
  const std::string name = expected.doubt.empty() ? "" : expected.doubt.substr(2, 2);
  if (expected.doubt.starts_with('C')) {
    if (there.contains(name)) with.names.try_emplace(name, there.at(name));
  } else if (!expected.doubt.empty() && expected.names.contains(name)) {
    note_done(with, expected.doubt);
  }
  const bool good = there == expected.names || there == with.names;
  expected = {there, ""};
  return good;
}

// Runs the child until it is killed, and hears what it acknowledged. Returns how many lines.
std::size_t run_and_kill(const std::string& path, unsigned seed, std::vector<Expected>& all) {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::close(pipe[0]);
    child(path, seed, pipe[1]);
  }
  ::close(pipe[1]);
  std::string heard;
  std::atomic<bool> heard_any = false;
  {
    const std::jthread reader([&] { heard = read_all(pipe[0], heard_any); });
    std::mt19937 random(seed);
    // Mostly under load; every fifth time anywhere, opening included.
    const auto ready = [&] { return heard_any.load() || seed % 5 == 0; };
    for (int i = 0; i < 10'000 && !ready(); ++i) ::usleep(1'000);
    ::usleep(random() % (seed % 5 == 0 ? 500'000 : 100'000));
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status));
  }
  ::close(pipe[0]);
  std::istringstream lines(heard.empty() ? heard : heard.substr(1));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof(); ++count) hear(all, line);
  return count;
}

void check_after(const std::string& path, std::vector<Expected>& all) {
  auto store = open_rocks_kv(small_rocks(path));
  REQUIRE(store);
  auto report = fsck((*store)->latest());
  REQUIRE(report);
  CHECK(report->clean());
  auto names = Namespace::open(**store);
  REQUIRE(names);
  for (int i = 0; i < kThreads; ++i) {
    const auto dir = (*names)->lookup(kRootFileId, std::to_string(i));
    REQUIRE(dir);
    std::map<std::string, FileId> there;
    auto page = (*names)->readdir(dir->id, 0, 1000, true);
    REQUIRE(page);
    for (const auto& entry : page->entries) there[entry.name] = entry.id;
    CHECK(settle(all[static_cast<std::size_t>(i)], there));
  }
}

}  // namespace

TEST_CASE("SIGKILL at random points loses nothing acknowledged") {
  skip_under_tsan();
  const TempFolder folder;
  {
    auto store = open_rocks_kv(small_rocks(folder.path()));
    REQUIRE(store);
    auto names = Namespace::open(**store);
    REQUIRE(names);
    for (int i = 0; i < kThreads; ++i)
      REQUIRE((*names)->mkdir(kSuperuser, kRootFileId, std::to_string(i), {}));
  }
  std::vector<Expected> expected(kThreads);
  std::size_t heard = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    heard += run_and_kill(folder.path(), round, expected);
    check_after(folder.path(), expected);
  }
  CHECK(heard > kRounds * 10);  // it was a load
}
