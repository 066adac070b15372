// The control protocol's decoders. The first byte chooses which one the rest is for.

#include <cstdlib>

#include "rpc/control/group_state.h"
#include "rpc/control/heartbeat.h"
#include "rpc/control/locate_transports.h"
#include "rpc/control/messages.h"
#include "rpc/control/options.h"
#include "rpc/control/prefetch.h"
#include "rpc/control/register_networks.h"
#include "rpc/control/register_transports.h"
#include "rpc/control/target_keys.h"
#include "rpc/control/transports.h"
#include "rpc/control/try_addresses.h"
#include "rpc/control/unreadable.h"
#include "rpc/peer/call.h"
#include "rpc/peer/secure_channel.h"

using namespace weft;
using namespace weft::rpc::control;
using namespace weft::rpc::peer;

namespace {

template <class T>
void message(std::span<const std::byte> input) {
  const auto decoded = decode<T>(input);
  if (!decoded) return;
  xdr::Encoder out;
  encode(out, *decoded);
  if (!decode<T>(out.bytes())) std::abort();
}

// Bytes of an attacker without the key, in two parts, to an end that waits for a peer.
void channel(SecureChannel::Role role, std::span<const std::byte> input) {
  SecureChannel end(role, ClusterKeys{{}});
  (void)end.open();
  SecureChannel::Received received;
  const std::size_t half = input.size() / 2;
  (void)end.receive(input.first(half), received);
  (void)end.receive(input.subspan(half), received);
  if (end.established() || !received.messages.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto input = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 44) {
    case 0: channel(SecureChannel::Role::kAccepting, input); break;
    case 1: channel(SecureChannel::Role::kConnecting, input); break;
    case 2: (void)decode_message(input, 1); break;
    case 17: message<Lease>(input); break;
    case 18: message<Scrub>(input); break;
    case 19: message<GiveUp>(input); break;
    case 20: message<ListFrom>(input); break;
    case 21: message<Listed>(input); break;
    case 22: message<AllocateShare>(input); break;
    case 23: message<Seek>(input); break;
    case 24: message<SeekAnswer>(input); break;
    case 25: message<GetKeys>(input); break;
    case 26: message<HeldKeys>(input); break;
    case 27: message<GetSegments>(input); break;
    case 28: message<SegmentCounts>(input); break;
    case 29: message<Options>(input); break;
    case 30: message<RegisterTransports>(input); break;
    case 31: message<RegisterNetworks>(input); break;
    case 32: message<GetTargetKeys>(input); break;
    case 33: message<HeldByTargets>(input); break;
    case 34: message<Prefetch>(input); break;
    case 35: message<LocateTransports>(input); break;
    case 36: message<LocatedTransports>(input); break;
    case 37: message<TellTransports>(input); break;
    case 38: message<TryAddresses>(input); break;
    case 39: message<TriedAddresses>(input); break;
    case 40: message<Unreadable>(input); break;
    case 41: message<TellGroup>(input); break;
    case 42: (void)read_group_words({reinterpret_cast<const char*>(data), size}); break;
    case 3: message<Register>(input); break;
    case 4: message<Registered>(input); break;
    case 5: message<Heartbeat>(input); break;
    case 6: message<ReportSize>(input); break;
    case 7: message<FenceRequest>(input); break;
    case 8: message<Truncate>(input); break;
    case 9: message<Remove>(input); break;
    case 10: message<ObjectStat>(input); break;
    case 11: message<Located>(input); break;
    case 12: message<CopyMissed>(input); break;
    case 13: message<ForgetMissed>(input); break;
    case 14: message<Resync>(input); break;
    case 15: message<ResyncProgress>(input); break;
    default: (void)parse_cluster_keys({reinterpret_cast<const char*>(data), size}); break;
  }
  return 0;
}
