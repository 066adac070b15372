// The bytes of every message, as data servers and metadata servers in the field write and read
// them: whoever changes one of these changes the protocol (docs/protocol.md).
#include <catch2/catch_test_macros.hpp>

#include "rpc/control/group_state.h"
#include "rpc/control/heartbeat.h"
#include "rpc/control/locate_transports.h"
#include "rpc/control/messages.h"
#include "rpc/control/options.h"
#include "rpc/control/prefetch.h"
#include "rpc/control/register_networks.h"
#include "rpc/control/register_transports.h"
#include "rpc/control/target_keys.h"
#include "rpc/control/target_options.h"
#include "rpc/control/transports.h"
#include "rpc/control/try_addresses.h"
#include "rpc/control/unreadable.h"

using namespace weft;
using namespace weft::rpc::control;

namespace {

std::string hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

// The message is these bytes, and they are this message.
template <class T>
void check_bytes(const T& message, std::string_view expected) {
  xdr::Encoder out;
  encode(out, message);
  CHECK(hex(out.bytes()) == expected);
  const auto back = decode<T>(out.bytes());
  REQUIRE(back);
  CHECK(*back == message);
}

Uuid uuid(std::uint8_t seed) {
  Uuid id;
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(seed + i);
  return id;
}

const ObjectId kObject{0x1122334455667788, 3, 9};
const std::vector<Extent> kExtents{{0, 4096}, {UINT64_MAX - 1, 1}};
const std::vector<Fence> kFences{{Fence::What::kObject, kObject, 0, 4},
                                 {Fence::What::kClient, {}, 77, 2}};

std::vector<layout::NetAddress> addresses() {
  return {layout::make_address("192.0.2.7", 2049).value(),
          layout::make_address("2001:db8::7", 20490).value()};
}

Heartbeat heartbeat() {
  Heartbeat beat;
  beat.space = {1, 2, 3};
  beat.load = {1, {{3, 4, 100}, 5, 6, {7, 8, 9}, {10, 11, 12}}};
  beat.counters = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  beat.mirror = {1, 2, 3, 4, 5};
  beat.store = "shared memory";
  beat.scrub = {true, true, false, true, 5, 6, 7, 8, 9, 10, 11, 12, 13, true, 14};
  beat.trouble = "the target does not answer";
  beat.state = {15, 16};
  return beat;
}

}  // namespace

TEST_CASE("the bytes of messages: registration and heartbeats") {
  check_bytes(
      Register{uuid(1),
               uuid(2),
               5,
               99,
               "ds1",
               "0.1",
               "rack-4",
               addresses(),
               Space{1000, 900, 3},
               {uuid(7), 33, "/run/weft/nfs.sock"},
               {17, 98}},
      "0102030405060708090a0b0c0d0e0f1002030405060708090a0b0c0d0e0f1011000000050000000000000063"
      "000000036473310000000003302e3100000000067261636b2d3400000000000200000003746370000000000d"
      "3139322e302e322e372e382e31000000000000047463703600000011323030313a6462383a3a372e38302e31"
      "3000000000000000000003e8000000000000038400000000000000030708090a0b0c0d0e0f10111213141516"
      "00000021000000122f72756e2f776566742f6e66732e736f636b000000000000000000110000000000000062");
  RegisterTransports both{{.store = uuid(1), .name = "d", .addresses = {addresses().front()}}};
  both.all.rdma = {layout::make_address("192.0.2.7", 20049).value()};
  const std::string plain =
      "0102030405060708090a0b0c0d0e0f1000000000000000000000000000000000000000000000000000000000"
      "00000001640000000000000000000000000000010000000374637000"
      "0000000d3139322e302e322e372e382e31000000" +
      std::string(128, '0');
  check_bytes(both, plain + "0000000100000003746370000000000f3139322e302e322e372e37382e383100");
  // An older metadata server reads what it always did.
  xdr::Encoder older;
  encode(older, both.all);
  CHECK(hex(older.bytes()) == plain);
  both.all.rdma.assign(kMaxAddresses, both.all.rdma.front());
  xdr::Encoder many;
  encode(many, both);
  CHECK_FALSE(decode<RegisterTransports>(many.bytes()));
  both.all.rdma.clear();
  RegisterNetworks networks{both.all};
  networks.all.networks = {{.name = "n",
                            .addresses = {addresses().front()},
                            .clients = {layout::parse_range("192.0.2.0/24").value()}}};
  check_bytes(networks,
              plain + "00000000" + "00000001" + "000000016e000000" +
                  "0000000100000003746370000000000d3139322e302e322e372e382e31000000" +
                  "0000000100000003746370000000000d3139322e302e322e302e302e3000000000000018");
  networks.all.networks.push_back(networks.all.networks.front());  // named alike
  xdr::Encoder alike;
  encode(alike, networks);
  CHECK_FALSE(decode<RegisterNetworks>(alike.bytes()));
  check_bytes(
      Registered{uuid(3), 5, 12, 1000, kFences},
      "030405060708090a0b0c0d0e0f10111200000005000000000000000c000003e8000000020000000111223344"
      "5566778800000003000000090000000400000002000000000000004d00000002");
  check_bytes(
      heartbeat(),
      "0000000000000001000000000000000200000000000000030000000100000003030464000000000500000000"
      "000000060000000000000007000000000000000800000009000000000000000a000000000000000b0000000c"
      "0000000000000001000000000000000200000000000000030000000000000004000000000000000500000000"
      "00000006000000000000000700000000000000080000000000000009000000000000000a0000000000000001"
      "0000000200000003000000000000000400000000000000050000000d736861726564206d656d6f7279000000"
      "0000000100000001000000000000000100000005000000000000000600000000000000070000000000000008"
      "0000000000000009000000000000000a0000000b000000000000000c0000000d00000001000000000000000e"
      "0000001a7468652074617267657420646f6573206e6f7420616e737765720000000000000000000f00000000"
      "00000010");
  check_bytes(Lease{60}, "0000003c");
}

TEST_CASE("the bytes of a heartbeat that says what others use of the disk") {
  Heartbeat beat = heartbeat();
  beat.load.measured.disk_others = 18;
  xdr::Encoder longer;
  encode(longer, beat);
  CHECK(hex(longer.bytes()).ends_with("00000000000000100000000000000012"));
  CHECK(decode<Heartbeat>(longer.bytes()) == beat);
  CHECK_FALSE(decode<Heartbeat>(longer.bytes().first(longer.size() - 4)));
}

TEST_CASE("the bytes of messages: sizes, fences and objects") {
  check_bytes(QuerySize{kObject}, "11223344556677880000000300000009");
  check_bytes(FileSize{UINT64_MAX}, "ffffffffffffffff");
  check_bytes(ReportSize{kObject, 4096, -1},
              "112233445566778800000003000000090000000000001000ffffffffffffffff");
  check_bytes(
      FenceRequest{kFences},
      "0000000200000001112233445566778800000003000000090000000400000002000000000000004d00000002");
  check_bytes(Truncate{kObject, 12345}, "112233445566778800000003000000090000000000003039");
  check_bytes(Remove{{kObject, kObject}},
              "000000021122334455667788000000030000000911223344556677880000000300000009");
  check_bytes(Stat{kObject}, "11223344556677880000000300000009");
  check_bytes(ObjectStat{true, 1, 2, -3},
              "0000000100000000000000010000000000000002fffffffffffffffd");
  check_bytes(Allocate{{kObject, 1, 2}},
              "1122334455667788000000030000000900000000000000010000000000000002");
  check_bytes(AllocateShare{{kObject, 1, 2}, {1 << 16, 4, 3, 2}},
              "1122334455667788000000030000000900000000000000010000000000000002"
              "00010000000000040000000300000002");
  check_bytes(Seek{kObject, 5, {1 << 16, 4, 3, 2}, true},
              "112233445566778800000003000000090000000000000005"
              "0001000000000004000000030000000200000001");
  check_bytes(SeekAnswer{7, true}, "000000000000000700000001");
  check_bytes(ListFrom{9, kObject}, "0000000911223344556677880000000300000009");
  check_bytes(
      Listed{{kObject, kObject}, {9, kObject}, true},
      "0000000211223344556677880000000300000009112233445566778800000003000000090000000911223344"
      "55667788000000030000000900000001");
}

TEST_CASE("the bytes of messages: copies and parity groups") {
  check_bytes(Locate{7}, "00000007");
  check_bytes(
      Located{Located::State::kSuspect, addresses(), {}},
      "000000020000000200000003746370000000000d3139322e302e322e372e382e310000000000000474637036"
      "00000011323030313a6462383a3a372e38302e3130000000");
  check_bytes(LocateTransports{7}, "00000007");
  LocatedTransports by_all{{Located::State::kUp, {}, {addresses().front()}}};
  check_bytes(by_all,
              "000000010000000000000001"
              "00000003746370000000000d3139322e302e322e372e382e31000000");
  by_all.all.rdma.assign(kMaxAddresses, addresses().front());
  by_all.all.addresses = addresses();
  xdr::Encoder too_many;
  encode(too_many, by_all);
  CHECK_FALSE(decode<LocatedTransports>(too_many.bytes()));
  check_bytes(TellTransports{{{7, 1, 2}}, {{"unix:/t", "tcp"}}},
              "00000001000000070000000100000002"
              "0000000100000007756e69783a2f74000000000374637000");
  check_bytes(TellGroup{GroupState::kRebuilding, 370}, "0000000400000172");
  xdr::Encoder unknown_state;
  encode(unknown_state, TellGroup{static_cast<GroupState>(5), 0});
  CHECK_FALSE(decode<TellGroup>(unknown_state.bytes()));
  check_bytes(
      CopyMissed{kObject, 8, 3, kExtents, true},
      "1122334455667788000000030000000900000008000000030000000200000000000000000000000000001000"
      "fffffffffffffffe000000000000000100000001");
  check_bytes(ForgetMissed{kObject, 8}, "1122334455667788000000030000000900000008");
  check_bytes(
      Resync{55, kObject, 8, 3, 4, kExtents, 1000, 1 << 20, 4, 3, 2, true},
      "0000000000000037112233445566778800000003000000090000000800000003000000040000000200000000"
      "000000000000000000001000fffffffffffffffe000000000000000100000000000003e80010000000000004"
      "000000030000000200000001");
  check_bytes(ResyncStatus{55}, "0000000000000037");
  check_bytes(
      ResyncProgress{ResyncProgress::State::kFailed, 1, 2, 3, 4, 5, 6, "no answer", kExtents},
      "0000000300000000000000010000000000000002000000000000000300000000000000040000000000000005"
      "0000000000000006000000096e6f20616e737765720000000000000200000000000000000000000000001000"
      "fffffffffffffffe0000000000000001");
  check_bytes(GetUnreadable{55}, "0000000000000037");
  check_bytes(Unreadable{kExtents},
              "0000000200000000000000000000000000001000fffffffffffffffe0000000000000001");
  check_bytes(Scrub{true, false}, "0000000100000000");
  check_bytes(GiveUp{3}, "00000003");
  check_bytes(GetKeys{}, "");
  check_bytes(GetSegments{}, "");
  check_bytes(GetTargetKeys{}, "");
  check_bytes(GetOptions{}, "");
  check_bytes(GetAboutTarget{3}, "00000003");
  check_bytes(
      AboutTarget{2, "unix:/t", {"1.2", {{{"store.path", "/t", ""}}}}, "away"},
      "0000000200000007756e69783a2f740000000003312e3200000000010000000a73746f72652e706174680000"
      "000000022f740000000000000000000461776179");
  check_bytes(Prefetch{{{kObject, 4096, 1 << 20}}},
              "000000011122334455667788000000030000000900000000000010000000000000100000");
  check_bytes(TryAddresses{{addresses().front()}},
              "0000000100000003746370000000000d3139322e302e322e372e382e31000000");
  check_bytes(TriedAddresses{{"", "no answer"}},
              "0000000200000000000000096e6f20616e73776572000000");
  xdr::Encoder too_many_tried;
  encode(too_many_tried, TryAddresses{std::vector(TryAddresses::kMost + 1, addresses().front())});
  CHECK_FALSE(decode<TryAddresses>(too_many_tried.bytes()));
  check_bytes(Options{{{"server.name", "d1", ""}}},
              "000000010000000b7365727665722e6e616d6500000000026431000000000000");
  check_bytes(HeldKeys{{1, 0xfffffffffffffffe}}, "000000020000000000000001fffffffffffffffe");
  check_bytes(HeldByTargets{{{"unix:/t", {{1}}, ""}, {"tcp:a:1", {}, "away"}}},
              "0000000200000007756e69783a2f7400000000010000000000000001000000000000000774"
              "63703a613a3100000000000000000461776179");
}

TEST_CASE("the numbers of requests stay") {
  static_assert(Register::kVerb == 1 && Heartbeat::kVerb == 2 && QuerySize::kVerb == 3);
  static_assert(ReportSize::kVerb == 4 && Locate::kVerb == 5 && CopyMissed::kVerb == 6);
  static_assert(FenceRequest::kVerb == 16 && Truncate::kVerb == 17 && Remove::kVerb == 18);
  static_assert(Stat::kVerb == 19 && Allocate::kVerb == 20 && Punch::kVerb == 21);
  static_assert(ForgetMissed::kVerb == 22 && Resync::kVerb == 23 && ResyncStatus::kVerb == 24);
  static_assert(ResyncCancel::kVerb == 25 && Scrub::kVerb == 26 && GiveUp::kVerb == 27);
  static_assert(ListFrom::kVerb == 28 && AllocateShare::kVerb == 29 && Seek::kVerb == 30);
  static_assert(Prefetch::kVerb == 35 && TellTransports::kVerb == 10);
  static_assert(TellGroup::kVerb == 11);
  static_assert(GetSegments::kVerb == 33 && GetAboutTarget::kVerb == 36);
  static_assert(TryAddresses::kVerb == 37 && GetUnreadable::kVerb == 38);
  static_assert(GetKeys::kVerb == 31 && GetOptions::kVerb == 32 && GetTargetKeys::kVerb == 34);
}
