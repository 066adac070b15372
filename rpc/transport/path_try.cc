#include "rpc/transport/path_try.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/write.hpp>

#include "rpc/onc/rpc_header.h"

namespace weft::rpc {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint32_t kNfsProgram = 100003;
constexpr std::uint32_t kNfsVersion = 4;
constexpr std::uint32_t kNull = 0;
constexpr std::uint32_t kLastFragment = 0x8000'0000;
constexpr std::uint32_t kHalfAWindow = 16'000;  // segments may be no larger, whatever the MTU

// What goes into a segment, as this machine would have it and as it is; zeros: not known.
struct Segments {
  std::uint32_t own = 0;
  std::uint32_t path = 0;
};

Segments segments_of(tcp::socket& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return {info.tcpi_advmss, info.tcpi_snd_mss};
}

std::string narrow(tcp::socket& socket) {
  const auto [own, path] = segments_of(socket);
  if (path >= std::min(own, kHalfAWindow)) return "";
  return fmt::format("segments of {} bytes, and of {} here", path, own);
}

// What gets to the machine there is acknowledged, even if its server does not take it in.
std::string swallowed(tcp::socket& socket) {
  int waiting = 0;
  if (::ioctl(socket.native_handle(), SIOCOUTQ, &waiting) != 0 || waiting == 0) return "";
  return fmt::format("segments of {} bytes do not get through", segments_of(socket).path);
}

// Within the machine no packet is too large, and segments are smaller than its MTU has it.
bool stays_here(const tcp::socket& socket) {
  error_code failed;
  const auto here = socket.local_endpoint(failed).address();
  const auto there = socket.remote_endpoint(failed).address();
  return there.is_loopback() || (!failed && here == there);
}

// NULL takes no arguments; servers do not look at what is there in their place.
std::vector<std::byte> null_call(std::size_t size) {
  xdr::Encoder record;
  record.u32(0);
  encode_call(record, 1, kNfsProgram, kNfsVersion, kNull, nullptr);
  while (record.size() < size) record.u32(0);
  record.patch_u32(0, kLastFragment | static_cast<std::uint32_t>(record.size() - 4));
  return {record.bytes().begin(), record.bytes().end()};
}

}  // namespace

std::shared_ptr<PathTry> PathTry::begin(boost::asio::io_context& io, const tcp::endpoint& point,
                                        To to, Done done) {
  const std::shared_ptr<PathTry> self(new PathTry(io, to, std::move(done)));
  self->socket_.async_connect(point, [self](const error_code& failed) { self->connected(failed); });
  return self;
}

void PathTry::connected(const error_code& failed) {
  if (done_ == nullptr) return;
  if (failed) return end({.error = failed.message(), .mtu = {}});
  connected_ = true;
  if (stays_here(socket_)) return end({});
  to_ == To::kNfs ? send_call() : end({.error = {}, .mtu = narrow(socket_)});
}

void PathTry::send_call() {
  call_ = null_call(std::size_t{2} * segments_of(socket_).path);
  boost::asio::async_write(socket_, boost::asio::buffer(call_),
                           [self = shared_from_this()](const error_code&, std::size_t) {});
  // Whatever it says, or if it hangs up: the call has got there.
  socket_.async_read_some(boost::asio::buffer(answer_),
                          [self = shared_from_this()](const error_code&, std::size_t) {
                            self->end({.error = {}, .mtu = narrow(self->socket_)});
                          });
}

void PathTry::give_up() {
  if (done_ == nullptr) return;
  if (!connected_) return end({.error = "no answer", .mtu = {}});
  const std::string lost = swallowed(socket_);
  end({.error = {}, .mtu = lost.empty() ? narrow(socket_) : lost});
}

void PathTry::end(TriedPath outcome) {
  if (done_ == nullptr) return;
  error_code ignored;
  socket_.close(ignored);
  const Done done = std::exchange(done_, nullptr);
  done(std::move(outcome));
}

}  // namespace weft::rpc
