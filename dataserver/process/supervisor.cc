#include "dataserver/process/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace weft::ds {

namespace {

using Clock = std::chrono::steady_clock;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

// sd_notify(3): a datagram to the socket named by the environment. Nobody has to listen.
void tell_service_manager(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (*path != '/' && *path != '@')) return;
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (*path == '@') address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  static_cast<void>(::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL,
                             reinterpret_cast<sockaddr*>(&address),
                             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length)));
  ::close(fd);
}

int exit_status(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::chrono::milliseconds since(Clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - then);
}

}  // namespace

struct Supervisor::Child {
  pid_t pid = -1;
  int life = -1;       // the end to read from; -1 when the child closed its own
  bool alive = false;  // there was a sign
  bool going_down = false;
  unsigned silent = 0;  // rounds
  Clock::time_point started;
};

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
    const sigset_t set = watched_signals();
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
  child.started = Clock::now();
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
    stop_signal_ = static_cast<int>(info.ssi_signo);
    return Wake::kStop;
  }
  return listens ? Wake::kSign : Wake::kTime;
}

void Supervisor::read_signs(Child& child) {
  char signs[64];
  const ssize_t got = ::read(child.life, signs, sizeof signs);
  if (got == 0) {  // it keeps silent from now on
    ::close(child.life);
    child.life = -1;
  }
  if (got <= 0) return;
  if (!std::exchange(child.alive, true)) tell_service_manager("READY=1");
  if (std::memchr(signs, kGoingDown, static_cast<std::size_t>(got)) != nullptr) {
    child.going_down = true;
  }
  child.silent = 0;
}

int Supervisor::watch(Child& child) {
  bool killed = false;
  auto round_ends = Clock::now() + options_.round;
  for (int status = 0;;) {
    const auto left = std::max(std::chrono::milliseconds(0), -since(round_ends));
    switch (wait(&child, left)) {
      case Wake::kSign: read_signs(child); break;
      case Wake::kChild:
        if (::waitpid(child.pid, &status, WNOHANG) == child.pid) return status;
        break;
      case Wake::kStop: stopping_ = true; return stop(child, stop_signal_);
      case Wake::kTime: break;
    }
    if (Clock::now() < round_ends) continue;
    round_ends = Clock::now() + options_.round;
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
  const auto limit = Clock::now() + options_.stop_limit;
  int status = 0;
  while (::waitpid(child.pid, &status, WNOHANG) != child.pid) {
    if (Clock::now() >= limit) {
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
  for (const auto begin = Clock::now(); since(begin) < length;) {
    const auto left = std::min(length - since(begin), options_.round);
    if (wait(nullptr, left) == Wake::kStop) return false;
    tell_service_manager("WATCHDOG=1");
  }
  return true;
}

int Supervisor::run(const Serve& serve) {
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) return EXIT_FAILURE;
  for (bool first = true;; first = false) {
    Child child;
    if (!start(serve, child)) {
      spdlog::critical("event=cannot_start errno={}", errno);
      return EXIT_FAILURE;
    }
    const int status = watch(child);
    if (child.life >= 0) ::close(child.life);
    if (stopping_ || status == 0 || (first && !child.alive)) return exit_status(status);
    const auto lived = since(child.started);
    const auto length = pauses_.after_life_of(lived);
    spdlog::error("event=child_ended status={} lived_ms={} start_again_in_ms={}",
                  exit_status(status), lived.count(), length.count());
    if (!pause(length)) return EXIT_SUCCESS;
  }
}

}  // namespace weft::ds
