// Whether a server is reached from here, and whether the path there takes packets of the size that
// this machine sends (MTU): connects by TCP and, to an NFS server, sends a call that does nothing
// and fills two segments. A connection alone says little: it comes about over a path that swallows
// large packets, too.
//
// Threading: all on the thread of its io_context. It lives until it has said how it ended.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft::rpc {

struct TriedPath {
  std::string error;  // why no connection came about; empty: one did
  std::string mtu;    // what is wrong with the size of packets; empty: nothing
  friend bool operator==(const TriedPath&, const TriedPath&) = default;
};

class PathTry : public std::enable_shared_from_this<PathTry> {
 public:
  enum class To { kNfs, kOther };  // kOther is sent nothing
  using Done = std::function<void(TriedPath)>;

  // `done` runs once, never within this.
  static std::shared_ptr<PathTry> begin(boost::asio::io_context& io,
                                        const boost::asio::ip::tcp::endpoint& point, To to,
                                        Done done);
  // Time is up: it ends now, with what is known.
  void give_up();

 private:
  PathTry(boost::asio::io_context& io, To to, Done done)
      : socket_(io), to_(to), done_(std::move(done)) {}
  void connected(const boost::system::error_code& failed);
  void send_call();
  void end(TriedPath outcome);

  boost::asio::ip::tcp::socket socket_;
  To to_;
  Done done_;  // empty once it has run
  bool connected_ = false;
  std::vector<std::byte> call_;
  std::array<std::byte, 64> answer_{};
};

}  // namespace weft::rpc
