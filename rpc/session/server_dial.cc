#include "rpc/session/server_dial.h"

#include <algorithm>

#include "rpc/session/cluster_session.h"
#include "rpc/session/preferred_dial.h"

namespace weft::rpc {
namespace {

constexpr std::chrono::milliseconds kByRdma{1000};
// A server that answers nothing is dialled anew after up to twice the time for a connection.
constexpr int kProvenWithin = 4;

}  // namespace

Dial dial_server(boost::asio::io_context& context, BufferPool& pool, ServerDialOptions options) {
  Dial by_tcp = dial_addresses(context, pool, options.addresses, options.within);
  if (!options.dial_rdma || options.rdma.empty()) return by_tcp;
  const std::chrono::milliseconds each =
      std::min(kByRdma, options.within / 4) / options.rdma.size();
  std::vector<Dial> dials;
  for (const layout::NetAddress& address : options.rdma) {
    dials.push_back(options.dial_rdma(context, layout::ip_text(address), address.port, each));
  }
  PreferredDialOptions preferred;
  preferred.preferred = dial_in_turn(std::move(dials));
  preferred.other = std::move(by_tcp);
  preferred.proven = std::max<std::chrono::milliseconds>(kProven, kProvenWithin * options.within);
  if (options.on_connected) {
    preferred.on_connected = [told = std::move(options.on_connected)](
                                 const Channel& channel, bool /*preferred*/) { told(channel); };
  }
  preferred.on_better = std::move(options.on_better);
  return preferred_dial(context, std::move(preferred));
}

}  // namespace weft::rpc
