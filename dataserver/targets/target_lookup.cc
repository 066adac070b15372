#include "dataserver/targets/target_lookup.h"

#include <spdlog/fmt/fmt.h>

#include <iterator>

namespace weft::ds {

using Tcp = boost::asio::ip::tcp;

void TargetLookup::start(Done done) {
  running_ = true;
  const std::uint64_t run = ++run_;
  resolver_.async_resolve(
      host_, "",
      [self = shared_from_this(), run, done = std::move(done)](
          const boost::system::error_code& error,
          const Tcp::resolver::results_type& found) mutable {
        if (run != self->run_) return;
        if (error || found.empty()) {
          return done(
              fail(Errc::kUnreachable, fmt::format("{} cannot be looked up here: {}", self->host_,
                                                   error ? error.message() : "it has no address")));
        }
        self->running_ = false;
        const auto at = static_cast<std::ptrdiff_t>(self->next_ % found.size());
        done(std::next(found.begin(), at)->endpoint().address().to_string());
      });
}

void TargetLookup::cancel() {
  running_ = false;
  ++run_;
  resolver_.cancel();
}

}  // namespace weft::ds
