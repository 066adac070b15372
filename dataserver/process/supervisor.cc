#include "dataserver/process/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "rpc/base/service_manager.h"

namespace weft::ds {

namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD, SIGHUP}) sigaddset(&set, signal);
  return set;
}

// What may end a child that has not come to handle signals: not SIGHUP, which waits until it has.
sigset_t end_signals() {
  sigset_t set = watched_signals();
  sigdelset(&set, SIGHUP);
  return set;
}

int exit_status(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace

struct Supervisor::Child {
  pid_t pid = -1;
  int life = -1;       // the end to read from; -1 when the child closed its own
  bool alive = false;  // there was a sign
  bool going_down = false;
  bool in_status = false;  // within a line of text
  std::string status;      // as much of it as has come
  unsigned silent = 0;     // rounds
  TimePoint started;
};

std::chrono::milliseconds Supervisor::since(TimePoint then) const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - then);
}

bool Supervisor::start(const Serve& serve, Child& child) const {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    ::close(signals_);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(EXIT_FAILURE);  // it died before the line above
    const sigset_t set = end_signals();
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    const int status = serve(ends[1]);
    std::exit(status);
  }
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return false;
  }
  child.pid = pid;
  child.life = ends[0];
  child.started = clock_.now();
  return true;
}

Supervisor::Wake Supervisor::wait(Child* child, std::chrono::milliseconds limit) {
  const bool listens = child != nullptr && child->life >= 0;
  pollfd watched[2] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                       {.fd = listens ? child->life : -1, .events = POLLIN, .revents = 0}};
  if (::poll(watched, 2, static_cast<int>(limit.count())) <= 0) return Wake::kTime;
  signalfd_siginfo info{};
  if (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) return Wake::kChild;
    if (info.ssi_signo == SIGHUP) return Wake::kReload;
    stop_signal_ = static_cast<int>(info.ssi_signo);
    return Wake::kStop;
  }
  return listens ? Wake::kSign : Wake::kTime;
}

void Supervisor::read_signs(Child& child) {
  char signs[512];
  const ssize_t got = ::read(child.life, signs, sizeof signs);
  if (got == 0) {  // it keeps silent from now on
    ::close(child.life);
    child.life = -1;
  }
  if (got <= 0) return;
  child.alive = true;
  child.silent = 0;
  for (const char sign : std::string_view(signs, static_cast<std::size_t>(got))) {
    read_sign(child, sign);
  }
}

void Supervisor::read_sign(Child& child, char sign) {
  if (child.in_status) {
    if (sign != '\n') {
      child.status += sign;
      return;
    }
    child.in_status = false;
    return tell_service_manager("STATUS=" + std::exchange(child.status, {}));
  }
  if (sign == kStatus) child.in_status = true;
  if (sign == kGoingDown) child.going_down = true;
  if (sign == kServing && !std::exchange(served_, true)) tell_service_manager("READY=1");
}

int Supervisor::watch(Child& child) {
  bool killed = false;
  auto round_ends = clock_.now() + options_.round;
  for (int status = 0;;) {
    const auto left = std::max(std::chrono::milliseconds(0), -since(round_ends));
    switch (wait(&child, left)) {
      case Wake::kSign: read_signs(child); break;
      case Wake::kChild:
        if (::waitpid(child.pid, &status, WNOHANG) == child.pid) return status;
        break;
      case Wake::kStop: stopping_ = true; return stop(child, stop_signal_);
      case Wake::kReload:
        reloaded_ = true;
        ::kill(child.pid, SIGHUP);
        break;
      case Wake::kTime: break;
    }
    if (clock_.now() < round_ends) continue;
    round_ends = clock_.now() + options_.round;
    tell_service_manager("WATCHDOG=1");
    const auto allowed = child.going_down
                             ? static_cast<unsigned>(options_.stop_limit / options_.round)
                             : options_.silence;
    if (!child.alive || killed || ++child.silent <= allowed) continue;
    spdlog::critical("event=no_sign_of_life child={} rounds={} action=kill", child.pid, allowed);
    ::kill(child.pid, SIGKILL);
    killed = true;  // and wait for it: the store is its own until it is gone
  }
}

int Supervisor::stop(const Child& child, int signal) {
  tell_service_manager("STOPPING=1");
  ::kill(child.pid, signal);
  ::kill(child.pid, SIGCONT);  // one that was stopped is to hear of it
  const auto limit = clock_.now() + options_.stop_limit;
  int status = 0;
  while (::waitpid(child.pid, &status, WNOHANG) != child.pid) {
    if (clock_.now() >= limit) {
      spdlog::critical("event=stop_took_too_long child={} action=kill", child.pid);
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, &status, 0);
      break;
    }
    if (wait(nullptr, std::chrono::milliseconds(200)) == Wake::kStop)
      ::kill(child.pid, stop_signal_);
  }
  return status;
}

bool Supervisor::pause(std::chrono::milliseconds length) {
  for (const auto begin = clock_.now(); since(begin) < length;) {
    const auto left = std::min(length - since(begin), options_.round);
    const Wake wake = wait(nullptr, left);
    if (wake == Wake::kStop) return false;
    if (wake == Wake::kReload) reloaded_ = true;
    tell_service_manager("WATCHDOG=1");
  }
  return true;
}

int Supervisor::run(const Serve& serve) {
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) return EXIT_FAILURE;
  for (;;) {
    Child child;
    if (!start(serve, child)) {
      spdlog::critical("event=cannot_start errno={}", errno);
      return EXIT_FAILURE;
    }
    const int status = watch(child);
    if (child.life >= 0) ::close(child.life);
    if (stopping_ || status == 0 || !served_) return exit_status(status);
    const auto lived = since(child.started);
    const auto length = pauses_.after_life_of(lived);
    spdlog::error("event=child_ended status={} lived_ms={} start_again_in_ms={}",
                  exit_status(status), lived.count(), length.count());
    if (!pause(length)) return EXIT_SUCCESS;
  }
}

}  // namespace weft::ds
