// The name of a target, looked up for each connection of a link anew.
//
// The resolver of the machine is asked on a thread of its own. It may try for a while, and goes on
// there when nobody waits for it any more. Of several addresses it has one is used, and the next
// when that one failed.
//
// Threading: everything on the thread of `context`. Ownership: `context` outlives it; a lookup that
// was begun keeps it alive.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rpc/base/error.h"

namespace weft::ds {

class TargetLookup : public std::enable_shared_from_this<TargetLookup> {
 public:
  TargetLookup(boost::asio::io_context& context, std::string host)
      : host_(std::move(host)), resolver_(context) {}

  // A numeric address; kUnreachable with the name when there is none.
  using Done = std::move_only_function<void(Result<std::string>)>;
  void start(Done done);
  // done() is not called any more.
  void cancel();
  [[nodiscard]] bool running() const { return running_; }  // begun, and no address found
  [[nodiscard]] const std::string& host() const { return host_; }
  // The address that it found last was of no use.
  void try_next() { ++next_; }

 private:
  const std::string host_;
  boost::asio::ip::tcp::resolver resolver_;
  bool running_ = false;
  std::uint64_t run_ = 0;  // counts lookups; the answer of an earlier one is dropped
  std::size_t next_ = 0;   // of the addresses; counts without end
};

}  // namespace weft::ds
