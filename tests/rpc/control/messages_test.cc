#include "rpc/control/messages.h"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include "rpc/control/group_state.h"
#include "rpc/control/heartbeat.h"

using namespace weft;
using namespace weft::rpc::control;

namespace {

std::vector<std::byte> wire_of(const auto& message) {
  xdr::Encoder out;
  encode(out, message);
  return out.take();
}

// The message comes back equal, and no shorter or longer form of it is accepted.
template <class T>
void check_round_trip(const T& message) {
  auto wire = wire_of(message);
  const auto back = decode<T>(wire);
  REQUIRE(back);
  CHECK(*back == message);
  for (std::size_t size = 0; size < wire.size(); ++size) {
    CHECK_FALSE(decode<T>(std::span(wire).first(size)));
  }
  wire.resize(wire.size() + 4);
  CHECK(decode<T>(wire).error() == Errc::kProtocol);
}

Uuid uuid(std::uint8_t seed) {
  Uuid id;
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(seed + i);
  return id;
}

}  // namespace

TEST_CASE("every message survives the wire") {
  const ObjectId object{0x1122334455667788, 3, 9};
  const auto v4 = layout::make_address("192.0.2.7", 2049).value();
  const auto v6 = layout::make_address("2001:db8::7", 20490).value();
  check_round_trip(Register{uuid(1),
                            uuid(2),
                            5,
                            99,
                            "ds1",
                            "0.1",
                            "rack-4",
                            {v4, v6},
                            Space{1000, 900, 3},
                            {uuid(7), 33, "/run/weft/nfs.sock"},
                            {17, 98}});
  const std::vector<Fence> fences{{Fence::What::kObject, object, 0, 4},
                                  {Fence::What::kClient, {}, 77, 2}};
  check_round_trip(Registered{uuid(3), 5, 12, 1000, fences});
  Heartbeat beat;
  beat.space = {1, 2, 3};
  beat.load = {1, {{3, 4}, 5, 6, {7, 8, 9}, {10, 11, 12}}};
  beat.counters = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  beat.mirror = {1, 2, 3, 4, 5};
  beat.store = "shared memory";
  beat.scrub = {true, true, false, true, 5, 6, 7, 8, 9, 10, 11, 12, 13, true, 14};
  beat.trouble = "the target does not answer";
  check_round_trip(beat);
  check_round_trip(Lease{60});
  check_round_trip(TellGroup{GroupState::kRebuilding, 370});
  check_round_trip(QuerySize{object});
  check_round_trip(FileSize{UINT64_MAX});
  check_round_trip(ReportSize{object, 4096, -1});
  check_round_trip(FenceRequest{fences});
  check_round_trip(Truncate{object, 12345});
  check_round_trip(Remove{{object, object}});
  check_round_trip(Stat{object});
  check_round_trip(ObjectStat{true, 1, 2, 3});
  check_round_trip(Punch{{object, 1, 2}});
  const std::vector<Extent> extents{{0, 4096}, {UINT64_MAX - 1, 1}};
  check_round_trip(Locate{7});
  check_round_trip(Located{Located::State::kSuspect, {v4, v6}});
  check_round_trip(CopyMissed{object, 8, 3, extents, true});
  check_round_trip(ForgetMissed{object, 8});
  check_round_trip(Resync{55, object, 8, 3, 4, extents, 1000});
  check_round_trip(Resync{55, object, 8, 3, 4, extents, 1000, 1 << 20, 4, 3, 2, true});
  check_round_trip(ResyncStatus{55});
  check_round_trip(Scrub{true, false});
  check_round_trip(Scrub{false, true});
  check_round_trip(GiveUp{3});
  check_round_trip(ListFrom{9, object});
  check_round_trip(Listed{{object, object}, {9, object}, true});
  check_round_trip(Listed{});
  check_round_trip(
      ResyncProgress{ResyncProgress::State::kFailed, 1, 2, 3, 4, 5, 6, "no answer", extents});
}

TEST_CASE("extents are 1 or more, none empty, none that wraps") {
  const auto missed = [](std::vector<Extent> extents) {
    return decode<CopyMissed>(wire_of(CopyMissed{{1, 1, 1}, 2, 3, std::move(extents)})).has_value();
  };
  CHECK(missed({{0, 1}}));
  CHECK(missed({{0, UINT64_MAX}}));
  CHECK_FALSE(missed({}));
  CHECK_FALSE(missed({{5, 0}}));
  CHECK_FALSE(missed({{2, UINT64_MAX - 1}}));
  CHECK(missed(std::vector<Extent>(kMaxExtents, {0, 1})));
  CHECK_FALSE(missed(std::vector<Extent>(kMaxExtents + 1, {0, 1})));
}

TEST_CASE("states that are none are refused") {
  xdr::Encoder out;
  out.u32(4);
  out.u32(0);
  CHECK_FALSE(decode<Located>(out.bytes()));
}

TEST_CASE("lists over their limits are refused") {
  CHECK(decode<Remove>(wire_of(Remove{std::vector<ObjectId>(kMaxRemovals)})));
  CHECK_FALSE(decode<Remove>(wire_of(Remove{std::vector<ObjectId>(kMaxRemovals + 1)})));
  CHECK_FALSE(decode<FenceRequest>(wire_of(FenceRequest{std::vector<Fence>(kMaxFences + 1)})));
  xdr::Encoder out;
  out.u32(UINT32_MAX);
  CHECK_FALSE(decode<Remove>(out.bytes()));
}

TEST_CASE("a fence of an unknown kind is refused") {
  xdr::Encoder out;
  out.u32(1);
  out.u32(3);
  out.u64(1);
  out.u32(1);
  CHECK(decode<FenceRequest>(out.bytes()).error() == Errc::kProtocol);
}

TEST_CASE("a uuid reads as people write it") {
  CHECK(to_string(uuid(0)) == "00010203-0405-0607-0809-0a0b0c0d0e0f");
}

TEST_CASE("what data servers that tell only words say of their parity group is understood") {
  const auto state = [](std::string_view words) { return read_group_words(words).state; };
  for (const char* words : {"", "folder", "shared memory", "parityfolder", "parity, stopped"}) {
    CHECK(read_group_words(words) == TellGroup{});
  }
  CHECK(state("parity") == GroupState::kWhole);
  CHECK(state("parity, scrubbing 40 %, 3 bad blocks mended") == GroupState::kWhole);
  CHECK(state("parity, 3 blocks given up") == GroupState::kWhole);
  CHECK(state("parity, starting") == GroupState::kStarting);
  CHECK(state("parity, waits for target 1: start it; if it is lost for ever, weft ds give-up") ==
        GroupState::kStarting);
  CHECK(state("parity, degraded") == GroupState::kDegraded);
  CHECK(state("parity, degraded, 3 bad blocks mended") == GroupState::kDegraded);
  CHECK(read_group_words("parity, rebuilding 40 %, 3 blocks given up") ==
        TellGroup{GroupState::kRebuilding, 400});
  CHECK(read_group_words("parity, rebuilding") == TellGroup{GroupState::kWhole, 0});
  CHECK(read_group_words("parity, rebuilding x %") == TellGroup{GroupState::kRebuilding, 0});
  CHECK(read_group_words("parity, rebuilding 4000000000 %") ==
        TellGroup{GroupState::kRebuilding, 0});
}
