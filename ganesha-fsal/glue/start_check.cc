#include "ganesha-fsal/glue/start_check.h"

#include <netinet/in.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>

#include <algorithm>
#include <system_error>

#include "ganesha-fsal/config/options_check.h"
#include "ganesha-fsal/glue/exports.h"
#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/meta/kv/rocks_kv.h"
#include "rpc/base/buffer.h"

namespace weft::mds {
namespace {

// As Ganesha binds: a socket of IPv6 for both, where the machine has it.
sockaddr_in6 address_of(const sockaddr_t& given, std::uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  if (given.ss_family == AF_INET6) {
    sockaddr_in6 in6{};
    std::memcpy(&in6, &given, sizeof in6);
    address.sin6_addr = in6.sin6_addr;
    return address;
  }
  sockaddr_in in{};
  std::memcpy(&in, &given, sizeof in);
  if (in.sin_addr.s_addr == INADDR_ANY) return address;
  address.sin6_addr.s6_addr[10] = address.sin6_addr.s6_addr[11] = 0xFF;
  std::memcpy(&address.sin6_addr.s6_addr[12], &in.sin_addr, sizeof in.sin_addr);
  return address;
}

// errno, or 0.
int try_bind(const sockaddr* address, socklen_t length, int type) {
  const OwnedFd fd(::socket(address->sa_family, type | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  const int one = 1;
  static_cast<void>(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
  return ::bind(fd.get(), address, length) == 0 ? 0 : errno;
}

int try_bind(const sockaddr_t& given, std::uint16_t port, int type) {
  const sockaddr_in6 in6 = address_of(given, port);
  const int error = try_bind(reinterpret_cast<const sockaddr*>(&in6), sizeof in6, type);
  if (error != EAFNOSUPPORT || given.ss_family != AF_INET) return error;
  sockaddr_in in{};
  std::memcpy(&in, &given, sizeof in);
  in.sin_port = htons(port);
  return try_bind(reinterpret_cast<const sockaddr*>(&in), sizeof in, type);
}

Result<> check_nfs_port() {
  const auto& core = nfs_param.core_param;
  const std::uint16_t port = core.port[P_NFS];
  if (port == 0) return {};
  for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
    const bool tcp = type == SOCK_STREAM;
    if (!tcp && (core.enable_UDP & UDP_LISTENER_ALL) == 0) continue;
    const int error = try_bind(core.bind_addr, port, type);
    if (error == EADDRINUSE) {
      return fail(Errc::kBusy,
                  fmt::format("NFS_Port {} is taken: ss -l{}np 'sport = :{}' says by what; stop "
                              "that, or set another NFS_Port in NFS_CORE_PARAM",
                              port, tcp ? 't' : 'u', port));
    }
    if (error != 0) {
      return fail(Errc::kUnreachable,
                  fmt::format("NFS_Port {} at Bind_Addr, both in NFS_CORE_PARAM, cannot be had: {}",
                              port, std::generic_category().message(error)));
    }
  }
  return {};
}

// One before this has the port and a store yet: the kernel still has it, as one whose disk does not
// answer.
bool is_in_the_way(const CheckedConf& conf) {
  return std::ranges::any_of(conf.stores,
                             [](const auto& store) { return is_open_elsewhere(store.first); });
}

}  // namespace

bool starting() { return nfs_init_wait_timeout(0) != 0; }

Result<> check_before_start() {
  auto checked = check_conf_file(nfs_config_path, Ganesha::kRuns);
  // What Ganesha could read and we cannot is its own to judge.
  const bool ours =
      !checked && (checked.error() == Errc::kInvalid || checked.error() == Errc::kUnreachable);
  if (!starting()) {
    if (!ours) return {};
    LogCrit(COMPONENT_CONFIG, "%s", checked.error().text.c_str());
    return pass(checked);
  }
  if (ours) {
    Exports::end_start(checked.error().text,
                       checked.error() == Errc::kInvalid ? kExitConfiguration : kExitFailed);
  }
  if (const auto port = check_nfs_port(); !port) {
    const bool taken = port.error() == Errc::kBusy;
    if (taken && checked && is_in_the_way(*checked)) {
      Exports::end_start("another metadata server has the store and NFS_Port, or has not ended yet",
                         kExitFailed);
    }
    Exports::end_start(port.error().text, taken ? kExitConfiguration : kExitFailed);
  }
  return {};
}

}  // namespace weft::mds
