#include "dataserver/process/program.h"

#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "dataserver/process/supervisor.h"
#include "rpc/base/journal.h"
#include "rpc/peer/keys.h"

namespace weft::ds {

namespace {

sigset_t our_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

void set_up_log(const std::string& program, const std::string& level) {
  auto log =
      std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log->set_formatter(log_formatter(STDERR_FILENO));
  log->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(log));
  set_log_level(level);
}

void set_log_level(const std::string& level) {
  spdlog::set_level(spdlog::level::from_str(level == "warn" ? "warning" : level));
}

std::size_t raise_file_limit(std::size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;  // nothing is known
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  limit.rlim_cur = wanted;
  if (limit.rlim_max < wanted) limit.rlim_max = wanted;  // takes the right to do so
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return wanted;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
  return limit.rlim_cur;
}

void set_up_signals() {
  const sigset_t set = our_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a write over the file size limit is to fail with EFBIG
}

Result<> run_until_stopped(const std::function<Result<>()>& tick,
                           const std::function<void()>& reload) {
  const sigset_t set = our_signals();
  constexpr timespec kTick{.tv_sec = 0, .tv_nsec = 200'000'000};
  for (;;) {
    if (auto ticked = tick(); !ticked) return ticked;
    const int signal = ::sigtimedwait(&set, nullptr, &kTick);
    if (signal == SIGHUP) {
      reload();
    } else if (signal > 0) {
      spdlog::info("event=stopping signal={}", signal);
      return {};
    }
  }
}

int complain(const std::string& program, const Error& error) {
  const bool journal = goes_to_journal(STDERR_FILENO);
  std::fprintf(stderr, "%s%s: %s\n", journal ? "<3>" : "", program.c_str(),
               error.text.empty() ? error.describe().c_str() : error.text.c_str());
  return EXIT_FAILURE;
}

int misconfigured(const std::string& program, const Error& error) {
  const int failed = complain(program, error);
  return error == Errc::kUnreachable ? failed : kExitUsage;
}

Result<> check_key_file(const std::string& config, const std::string& key_file) {
  const auto keys = rpc::peer::load_cluster_keys(key_file);
  if (keys) return {};
  return fail(Errc::kInvalid, config + ": cluster.key_file: " + keys.error().text);
}

void tell(int life, char sign) {
  if (life >= 0) static_cast<void>(::write(life, &sign, 1));
}

void tell_status(int life, std::string_view text) {
  constexpr std::size_t kMost = 400;  // a pipe takes that as a whole, or not at all
  std::string line(1, Supervisor::kStatus);
  for (const char c : text.substr(0, kMost)) line += c == '\n' ? ' ' : c;
  line += '\n';
  if (life >= 0) static_cast<void>(::write(life, line.data(), line.size()));
}

void Report::tick(bool serving, std::string status) {
  if (serving && !std::exchange(serving_, true)) tell(life_, Supervisor::kServing);
  if (std::exchange(status_, status) != status) tell_status(life_, status);
}

}  // namespace weft::ds
