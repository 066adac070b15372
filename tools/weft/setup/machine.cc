#include "tools/weft/setup/machine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/fmt/fmt.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "ganesha-fsal/backup/backup_files.h"
#include "rpc/base/buffer.h"
#include "rpc/peer/endpoint.h"
#include "rpc/peer/resolve.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = std::size_t{4} << 20;
constexpr std::chrono::seconds kSystemctl{120};  // a data server may take 90 s to stop
constexpr std::size_t kMostText = std::size_t{1} << 20;

// The child's part; does not return.
[[noreturn]] void become(const std::vector<std::string>& words, int output) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvp(argv.front(), argv.data());
  ::_exit(127);
}

// Everything that comes until the end; false when that is not in time.
bool read_all(int fd, Steady::time_point until, std::string& into) {
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Steady::now());
    if (left.count() <= 0) return false;
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) return false;
    if (waiting.revents == 0) continue;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    into.append(buffer.data(), static_cast<std::size_t>(got));
    if (into.size() > 2 * kMostOutput) into.erase(0, into.size() - kMostOutput);
  }
}

// Ganesha's lists of calls, which come behind what is wrong, left out.
std::string last_line(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(text.rfind('\n', text.size() - 1) + 1);
    if (!line.empty() && !line.contains("gsh_backtrace")) return std::string(line);
    text.remove_suffix(std::min(text.size(), line.size() + 1));
  }
  return "";
}

Result<> sync_folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  const OwnedFd directory(::open(folder.c_str(), O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(directory.get()) != 0) return fail_errno(errno, "sync " + path);
  return {};
}

Result<> systemctl(const std::vector<std::string>& words) {
  std::vector<std::string> all{"systemctl"};
  all.insert(all.end(), words.begin(), words.end());
  auto ran = run_program(all, kSystemctl);
  if (!ran) return pass(ran);
  if (ran->status != 0) return fail(Errc::kIo, last_line(ran->output));
  return {};
}

// It is stopped, unless it is to go on.
std::unexpected<Error> give_up(const std::string& unit, const std::string& status, bool goes_on,
                               std::chrono::system_clock::time_point begun) {
  const std::string why = status.empty() ? last_words(unit, begun) : printable(status);
  if (goes_on) {
    return fail(Errc::kIo, fmt::format("{} was set up before, and does not serve yet: {} "
                                       "(journalctl -u {})",
                                       unit, why, unit));
  }
  static_cast<void>(systemctl({"disable", "--now", unit}));
  return fail(Errc::kIo, fmt::format("{} does not start, and was stopped: {} (journalctl -u {})",
                                     unit, why, unit));
}

// Of interfaces' addresses those by which others may reach this machine: IPv4 if there is any, else
// IPv6.
std::vector<std::string> outside_addresses(const ifaddrs* list) {
  std::vector<std::string> of_v4;
  std::vector<std::string> of_v6;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    constexpr unsigned kUsable = IFF_UP | IFF_RUNNING;
    if (one->ifa_addr == nullptr || (one->ifa_flags & kUsable) != kUsable) continue;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (one->ifa_addr->sa_family == AF_INET) {
      const auto* in = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      of_v4.emplace_back(::inet_ntop(AF_INET, &in->sin_addr, text.data(), text.size()));
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      const auto* in = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&in->sin6_addr)) continue;
      of_v6.emplace_back(::inet_ntop(AF_INET6, &in->sin6_addr, text.data(), text.size()));
    }
  }
  return of_v4.empty() ? of_v6 : of_v4;
}

}  // namespace

Result<Owner> service_owner(const Places& places) {
  if (!places.prefix.empty()) return Owner{::geteuid(), ::getegid()};
  if (const auto user = backup::service_user()) return Owner{user->user, user->group};
  return fail(Errc::kNotFound,
              "there is no user weft: install the package weft-mds or weft-ds, or run "
              "systemd-sysusers with dist/weft.sysusers");
}

Result<> check_root(const Places& places) {
  if (!places.prefix.empty() || ::geteuid() == 0) return {};
  return fail(Errc::kPermission, "this takes root: run it with sudo");
}

std::string as_service(const Places& places, const std::string& command) {
  return places.prefix.empty() ? "setpriv --reuid weft --regid weft --clear-groups " + command
                               : command;
}

std::string program_path(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return name;
  const auto beside = self.parent_path() / name;
  return std::filesystem::exists(beside, error) ? beside.string() : name;
}

Result<Ran> run_program(const std::vector<std::string>& words, std::chrono::seconds timeout) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  const OwnedFd from(ends[0]);
  OwnedFd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail_errno(errno, "fork");
  if (child == 0) become(words, to.get());
  to = OwnedFd();
  Ran ran;
  const bool ended = read_all(from.get(), Steady::now() + timeout, ran.output);
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) return fail(Errc::kTimedOut, words.front() + " does not end");
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (ran.status == 127) return fail(Errc::kNotFound, words.front() + " is not installed");
  return ran;
}

bool has_systemd(const Places& places) {
  std::error_code error;
  return places.prefix.empty() && std::filesystem::is_directory("/run/systemd/system", error);
}

Result<> stop_unit(const std::string& unit) {
  auto stopped = systemctl({"stop", unit});
  if (stopped) return stopped;
  return fail(stopped.error().code,
              fmt::format("{} does not stop: {}", unit, stopped.error().text));
}

std::string last_words(const std::string& unit, std::chrono::system_clock::time_point since) {
  const std::string own = "_SYSTEMD_UNIT=" + unit;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(since.time_since_epoch()).count();
  static_cast<void>(run_program({"journalctl", "--sync"}, std::chrono::seconds(20)));
  for (const std::vector<std::string>& which :
       {std::vector<std::string>{own, "-p", "err"}, {own}, {"-u", unit}}) {
    std::vector<std::string> words{
        "journalctl", "-q",  "-n",         "100",
        "-o",         "cat", "--no-pager", fmt::format("--since=@{}", seconds)};
    words.insert(words.end(), which.begin(), which.end());
    const auto log = run_program(words, std::chrono::seconds(20));
    const std::string last = log && log->status == 0 ? last_line(log->output) : "";
    if (!last.empty()) return printable(last);
  }
  return "it does not say why";
}

Result<Properties> unit_properties(const std::string& unit, const std::vector<std::string>& names) {
  std::vector<std::string> words{"systemctl", "show", unit};
  for (const std::string& name : names) words.insert(words.end(), {"-p", name});
  auto shown = run_program(words, std::chrono::seconds(20));
  if (!shown) return pass(shown);
  Properties properties;
  std::string_view rest = shown->output;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::string_view name = line.substr(0, line.find('='));
    properties.emplace(name, line.substr(std::min(line.size(), name.size() + 1)));
  }
  return properties;
}

Result<> start_unit(const std::string& unit, std::chrono::seconds patience) {
  const auto begun_at = std::chrono::system_clock::now();
  const bool goes_on = systemctl({"is-enabled", unit}).has_value();
  if (auto enabled = systemctl({"enable", unit}); !enabled) return enabled;
  if (auto begun = systemctl({"start", "--no-block", unit}); !begun) return begun;
  const auto until = Steady::now() + patience;
  std::string status;
  while (Steady::now() < until) {
    auto state = unit_properties(unit, {"ActiveState", "StatusText", "NRestarts"});
    if (!state) return pass(state);
    status = (*state)["StatusText"];
    const std::string active = (*state)["ActiveState"];
    if (active == "active") return {};
    if (active == "failed" || std::atoi((*state)["NRestarts"].c_str()) > 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  }
  return give_up(unit, status, goes_on, begun_at);
}

Result<OwnedFd> lock_setup(const Places& places) {
  const Owner self{.user = ::geteuid(), .group = ::getegid()};
  if (auto made = make_folder(places.etc(), self, 0755); !made) return pass(made);
  return lock_folder(places.etc());
}

Result<OwnedFd> lock_folder(const std::string& path) {
  OwnedFd folder(::open(path.c_str(), O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return fail_errno(errno, "open " + path);
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    fmt::print(stderr, "weft: waits for another weft command on this machine\n");
  }
  while (::flock(folder.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return fail_errno(errno, "lock " + path);
  }
  return folder;
}

Result<> make_folder(const std::string& path, Owner owner, mode_t mode) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return fail_errno(errno, "mkdir " + path);
  }
  const OwnedFd folder(::open(path.c_str(), O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return fail_errno(errno, "open " + path);
  if (::fchown(folder.get(), owner.user, owner.group) != 0) {
    return fail_errno(errno, "chown " + path);
  }
  if (::fchmod(folder.get(), mode) != 0) return fail_errno(errno, "chmod " + path);
  return {};
}

Result<> write_file(const std::string& path, std::string_view text, Owner owner, mode_t mode) {
  std::string made = path + ".XXXXXX";
  const OwnedFd file(::mkostemp(made.data(), O_CLOEXEC));
  if (!file) return fail_errno(errno, "create " + made);
  Result<> done;
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) done = fail(Errc::kNoSpace, "write " + made);
  if (done && ::fchown(file.get(), owner.user, owner.group) != 0) done = fail_errno(errno, "chown");
  if (done && ::fchmod(file.get(), mode) != 0) done = fail_errno(errno, "chmod");
  if (done && ::fsync(file.get()) != 0) done = fail_errno(errno, "sync " + made);
  if (done && ::rename(made.c_str(), path.c_str()) != 0) done = fail_errno(errno, "rename");
  if (!done) {
    ::unlink(made.c_str());
    return done;
  }
  return sync_folder_of(path);
}

Result<std::string> read_text(const std::string& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno(errno, "open " + path);
  std::string text(kMostText, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0) return fail_errno(errno, "read " + path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

// A UDP socket that is connected sends nothing, and shows the address that it would send from.
Result<layout::NetAddress> own_address() {
  for (const char* const outside : {"192.0.2.1", "2001:db8::1"}) {
    boost::asio::io_context io;
    boost::asio::ip::udp::socket socket(io);
    error_code error;
    socket.connect({boost::asio::ip::make_address(outside), 9}, error);
    if (error) continue;
    return layout::make_address(socket.local_endpoint(error).address().to_string(), 0);
  }
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return fail_errno(errno, "addresses of this machine");
  const std::vector<std::string> all = outside_addresses(list);
  ::freeifaddrs(list);
  if (all.size() == 1) return layout::make_address(all.front(), 0);
  return fail(Errc::kNotFound,
              fmt::format("this machine has no default route, and {}: say --address ADDRESS",
                          all.empty() ? "no address that others reach"
                                      : fmt::format("addresses {}", fmt::join(all, ", "))));
}

std::string SaidAddress::with_port(std::uint16_t port) const {
  return host.contains(':') ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<SaidAddress> said_address(const std::string& said, std::uint16_t port) {
  if (const auto numeric = layout::make_address(said, port)) {
    return SaidAddress{.host = said, .address = *numeric};
  }
  const bool has_port = said.contains(':');
  const std::string whole = has_port ? said : fmt::format("{}:{}", said, port);
  auto address = rpc::peer::resolve_address(whole);
  if (!address) return pass(address);
  std::string host = whole.substr(0, whole.rfind(':'));
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return SaidAddress{.host = std::move(host), .has_port = has_port, .address = *address};
}

bool can_listen(const layout::NetAddress& address) {
  boost::asio::io_context io;
  tcp::acceptor acceptor(io);
  error_code error;
  const auto endpoint = rpc::peer::to_endpoint(address);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1, error);
  return !error;
}

Result<> can_connect(const layout::NetAddress& address, std::chrono::milliseconds timeout) {
  boost::asio::io_context io;
  tcp::socket socket(io);
  error_code failed = boost::asio::error::would_block;
  socket.async_connect(rpc::peer::to_endpoint(address),
                       [&failed](const error_code& error) { failed = error; });
  io.run_for(timeout);
  if (failed == boost::asio::error::would_block) {
    return fail(Errc::kTimedOut, to_string(address) + " does not answer");
  }
  if (failed) return fail(Errc::kUnreachable, to_string(address) + ": " + failed.message());
  return {};
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  const std::string whole(name.data());
  return whole.substr(0, whole.find('.'));
}

}  // namespace weft::cli
