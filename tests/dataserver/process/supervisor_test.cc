// Supervisors in processes of their own, with children that do what a test wants.
#include "dataserver/process/supervisor.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;

// What all processes of a test see.
struct Shared {
  std::atomic<int> starts{0};
  std::atomic<pid_t> child{0};
  std::atomic<int> marks{0};
};

constexpr SupervisorOptions kQuick{.silence = 5,
                                   .round = 20ms,
                                   .stop_limit = 1000ms,
                                   .first_pause = 10ms,
                                   .longest_pause = 40ms,
                                   .long_life = 60'000ms};

void write_signs(int life, std::string_view signs) {
  static_cast<void>(::write(life, signs.data(), signs.size()));
}

// Serves all the while, unless told otherwise.
void live(int life, std::chrono::milliseconds length, bool serve = true) {
  if (serve) write_signs(life, {&Supervisor::kServing, 1});
  const auto end = std::chrono::steady_clock::now() + length;
  while (std::chrono::steady_clock::now() < end) {
    static_cast<void>(::write(life, &Supervisor::kAlive, 1));
    std::this_thread::sleep_for(5ms);
  }
}

class Supervised {
 public:
  // `serve` gets the number of the start, from 1, and the pipe.
  explicit Supervised(const std::function<int(int, int)>& serve,
                      SupervisorOptions options = kQuick) {
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    shared_ = new (memory) Shared;
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGTERM, SIG_DFL);  // the test framework has a handler
    Supervisor supervisor(options);
    std::_Exit(supervisor.run([&](int life) -> int {
      shared_->child = ::getpid();
      const int number = ++shared_->starts;
      std::_Exit(serve(number, life));
    }));
  }
  Supervised(const Supervised&) = delete;
  ~Supervised() {
    if (!over_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::munmap(shared_, sizeof(Shared));
  }

  // -1 when it goes on for longer than 10 s.
  int wait() {
    int status = 0;
    for (int i = 0; i < 2000; ++i) {
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        over_ = true;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(5ms);
    }
    return -1;
  }
  bool until(const std::function<bool(Shared&)>& condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition(*shared_)) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  void signal(int number) const { ::kill(pid_, number); }
  Shared& shared() { return *shared_; }

 private:
  Shared* shared_ = nullptr;
  pid_t pid_ = -1;
  bool over_ = false;
};

bool gone(pid_t pid) {
  for (int i = 0; i < 1000 && ::kill(pid, 0) == 0; ++i) std::this_thread::sleep_for(5ms);
  return ::kill(pid, 0) != 0;
}

TEST_CASE("a child that is stopped, or keeps silent, is killed and started again") {
  for (const bool stopped : {true, false}) {
    Supervised one([stopped](int number, int life) {
      live(life, 50ms);
      if (number == 2) return 0;
      if (stopped) ::raise(SIGSTOP);
      for (;;) std::this_thread::sleep_for(1s);
    });
    CHECK(one.wait() == 0);
    CHECK(one.shared().starts == 2);
  }
}

TEST_CASE("a child that closed its end of the pipe is silent") {
  Supervised one([](int number, int life) {
    live(life, 50ms);
    if (number == 2) return 0;
    ::close(life);
    for (;;) std::this_thread::sleep_for(1s);
  });
  CHECK(one.wait() == 0);
  CHECK(one.shared().starts == 2);
}

TEST_CASE("a child that takes long to begin, and then lives, is left alone") {
  Supervised one([](int, int life) {
    std::this_thread::sleep_for(400ms);
    live(life, 400ms);
    return 0;
  });
  CHECK(one.wait() == 0);
  CHECK(one.shared().starts == 1);
}

TEST_CASE("a supervisor that was stopped with its child does not blame it") {
  Supervised one([](int, int life) {
    live(life, 3000ms);
    return 0;
  });
  REQUIRE(one.until([](Shared& s) { return s.starts == 1; }));
  std::this_thread::sleep_for(50ms);
  for (int i = 0; i < 3; ++i) {
    one.signal(SIGSTOP);
    ::kill(one.shared().child, SIGSTOP);
    std::this_thread::sleep_for(300ms);
    one.signal(SIGCONT);
    ::kill(one.shared().child, SIGCONT);
    std::this_thread::sleep_for(50ms);
  }
  CHECK(one.wait() == 0);
  CHECK(one.shared().starts == 1);
}

TEST_CASE("a child that crashes or fails is started again, one that ends well is not") {
  Supervised one([](int number, int life) {
    live(life, 30ms);
    if (number == 1) ::kill(::getpid(), SIGKILL);
    return number < 4 ? 70 : 0;
  });
  CHECK(one.wait() == 0);
  CHECK(one.shared().starts == 4);
}

TEST_CASE("what is wrong from the beginning is passed on, later it is tried again") {
  Supervised one([](int, int) { return 3; });
  CHECK(one.wait() == 3);
  CHECK(one.shared().starts == 1);

  Supervised other([](int number, int life) {
    if (number == 1) live(life, 30ms);
    return number < 3 ? 3 : 0;
  });
  CHECK(other.wait() == 0);
  CHECK(other.shared().starts == 3);
}

TEST_CASE("what never served is not tried again, though it lived") {
  Supervised one([](int, int life) {
    live(life, 100ms, false);
    return 3;
  });
  CHECK(one.wait() == 3);
  CHECK(one.shared().starts == 1);
}

TEST_CASE("the pause doubles with each short life") {
  Pauses pauses({.first_pause = 1000ms, .longest_pause = 5000ms, .long_life = 60'000ms});
  CHECK(pauses.after_life_of(100ms) == 0ms);
  CHECK(pauses.after_life_of(100ms) == 1000ms);
  CHECK(pauses.after_life_of(100ms) == 2000ms);
  CHECK(pauses.after_life_of(100ms) == 4000ms);
  CHECK(pauses.after_life_of(100ms) == 5000ms);
  CHECK(pauses.after_life_of(60'000ms) == 0ms);
  CHECK(pauses.after_life_of(100ms) == 1000ms);
}

TEST_CASE("a signal to stop is passed on, to a stopped child too, and its status comes back") {
  static std::atomic<bool> told;
  for (const bool stopped : {false, true}) {
    Supervised one([stopped](int, int life) {
      ::signal(SIGTERM, [](int) { told = true; });
      if (stopped) {
        live(life, 10ms);
        ::raise(SIGSTOP);
      }
      while (!told) live(life, 10ms);
      std::this_thread::sleep_for(200ms);  // without a sign: it goes down
      return 5;
    });
    REQUIRE(one.until([](Shared& s) { return s.starts == 1; }));
    std::this_thread::sleep_for(50ms);
    one.signal(SIGTERM);
    CHECK(one.wait() == 5);
    CHECK(one.shared().starts == 1);
  }
}

TEST_CASE("a child that goes down by itself has time, one that does not end is killed") {
  Supervised one([](int, int life) {
    live(life, 20ms);
    static_cast<void>(::write(life, &Supervisor::kGoingDown, 1));
    std::this_thread::sleep_for(500ms);
    return 0;
  });
  CHECK(one.wait() == 0);
  CHECK(one.shared().starts == 1);

  Supervised other([](int, int life) {
    ::signal(SIGTERM, SIG_IGN);
    for (;;) live(life, 100ms);
    return 0;
  });
  REQUIRE(other.until([](Shared& s) { return s.starts == 1; }));
  std::this_thread::sleep_for(50ms);
  other.signal(SIGTERM);
  CHECK(other.wait() == 128 + SIGKILL);
}

TEST_CASE("a hang-up is passed on and ends nobody, and the next child knows of it") {
  const sigset_t hangup = [] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    return set;
  }();
  Supervised one([&hangup](int number, int life) {
    ::sigprocmask(SIG_BLOCK, &hangup, nullptr);
    const timespec kWait{.tv_sec = 0, .tv_nsec = 10'000'000};
    write_signs(life, {&Supervisor::kServing, 1});
    if (number == 2) return 7;
    do {
      write_signs(life, {&Supervisor::kAlive, 1});
    } while (::sigtimedwait(&hangup, nullptr, &kWait) != SIGHUP);
    return 1;
  });
  REQUIRE(one.until([](Shared& s) { return s.starts == 1; }));
  std::this_thread::sleep_for(50ms);
  one.signal(SIGHUP);
  REQUIRE(one.until([](Shared& s) { return s.starts >= 3; }));  // the second fails, and so on
  one.signal(SIGTERM);
  one.wait();
}

TEST_CASE("a child does not outlive its supervisor") {
  Supervised one([](int, int life) {
    for (;;) live(life, 100ms);
    return 0;
  });
  REQUIRE(one.until([](Shared& s) { return s.starts == 1; }));
  std::this_thread::sleep_for(20ms);
  one.signal(SIGKILL);
  CHECK(one.wait() == 128 + SIGKILL);
  CHECK(gone(one.shared().child));
}

TEST_CASE("a stop during the pause before the next start ends it") {
  SupervisorOptions options = kQuick;
  options.first_pause = options.longest_pause = 60'000ms;
  Supervised one(
      [](int, int life) {
        live(life, 10ms);
        return 1;
      },
      options);
  REQUIRE(one.until([](Shared& s) { return s.starts == 2; }));
  std::this_thread::sleep_for(100ms);
  one.signal(SIGTERM);
  CHECK(one.wait() == 0);
  CHECK(one.shared().starts == 2);
}

TEST_CASE("the service manager is told how it is") {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/notify";
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(address.sun_path, path.c_str(), path.size());
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  Supervised one([](int, int life) {
    live(life, 100ms, false);
    write_signs(life, ":waits for ");  // as a pipe may give it
    std::this_thread::sleep_for(5ms);
    write_signs(life, "+nobody!\n");
    live(life, 30ms);
    for (;;) live(life, 100ms);
    return 0;
  });
  ::unsetenv("NOTIFY_SOCKET");
  REQUIRE(one.until([](Shared& s) { return s.starts == 1; }));
  std::string heard;
  const auto hear = [&] {  // the socket keeps few that are not taken
    char text[64];
    for (ssize_t got; (got = ::recv(fd, text, sizeof text, MSG_DONTWAIT)) > 0;) {
      heard += std::string(text, static_cast<std::size_t>(got)) + " ";
    }
  };
  for (int i = 0; i < 2000 && heard.find("READY") == std::string::npos; ++i) {
    std::this_thread::sleep_for(5ms);
    hear();
  }
  std::this_thread::sleep_for(100ms);
  hear();
  one.signal(SIGTERM);
  one.wait();
  hear();
  ::close(fd);
  CHECK(heard.starts_with("WATCHDOG=1 "));  // lives, and does not serve
  const auto status = heard.find("STATUS=waits for +nobody! ");
  REQUIRE(status != std::string::npos);
  CHECK(heard.find("READY=1 ") > status);
  CHECK(heard.find("READY=1 ") == heard.rfind("READY=1 "));
  CHECK(heard.ends_with("STOPPING=1 "));
}

}  // namespace
}  // namespace weft::ds
