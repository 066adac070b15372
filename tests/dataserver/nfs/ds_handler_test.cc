// The operations one by one, over a real store and a scripted metadata server.
#include "dataserver/nfs/ds_handler.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <numeric>

#include "dataserver/store/block_sums.h"
#include "tests/dataserver/nfs/handler_rig.h"

namespace weft::ds {
namespace {

using rpc::nfs4::Status;
using test::HandlerRig;
using test::kRigObject;

TEST_CASE("a file written is read back") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  const auto written = rig.write(0, "some bytes");
  REQUIRE(written.status == Status::NFS4_OK);
  CHECK(written.ok.count == 10);
  CHECK(written.ok.committed == rpc::nfs4::StableHow::UNSTABLE4);
  CHECK(rig.commit() == std::pair(Status::NFS4_OK, written.ok.verifier));
  rig.sizes.file_size = 10;
  const auto got = rig.read(0, 100);
  CHECK(got.text == "some bytes");
  CHECK(got.eof);
}

TEST_CASE("how long an operation took is counted when it is answered, errors too") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  const auto counts = [&](TimedOp op) {
    return rig.counters.times()[static_cast<std::size_t>(op)].buckets;
  };
  REQUIRE(rig.write(0, "some").status == Status::NFS4_OK);
  CHECK(rig.commit().first == Status::NFS4_OK);
  CHECK(rig.commit(2, ~0U).first == Status::NFS4_OK);
  CHECK(counts(TimedOp::kWrite)[0] == 1);
  CHECK(counts(TimedOp::kCommit)[0] == 2);
  // Asks for the file's size, and is answered 2 s later.
  rig.sizes.hold = true;
  std::optional<rpc::nfs4::OpResult> result;
  rig.handler->execute(rig.compound,
                       {rpc::nfs4::Op::OP_READ, rpc::nfs4::ReadArgs{.offset = 0, .count = 100}},
                       [&](rpc::nfs4::OpResult r) { result = std::move(r); });
  rig.thread.run_until([&] { return !rig.sizes.held.empty(); });
  CHECK(rig.counters.total().running == 1);
  rig.clock.advance(std::chrono::seconds(2));
  rig.sizes.held.front()(fail(Errc::kTimedOut));
  REQUIRE(result.has_value());
  CHECK(result->status != Status::NFS4_OK);
  CHECK(rig.counters.total().running == 0);
  const auto reads = counts(TimedOp::kRead);
  const auto at = std::ranges::lower_bound(kLatencyBounds, Nanoseconds(std::chrono::seconds(2)));
  CHECK(reads[static_cast<std::size_t>(at - kLatencyBounds.begin())] == 1);
  CHECK(std::accumulate(reads.begin(), reads.end(), std::uint64_t{0}) == 1);
}

TEST_CASE("clients wait while the server has no lease, the metadata server's own I/O goes on") {
  HandlerRig rig;
  rig.gate->lease().renew(rig.clock.now(), std::chrono::seconds(30));
  CHECK(rig.put(rig.handle()) == Status::NFS4_OK);
  REQUIRE(rig.write(0, "in time").status == Status::NFS4_OK);
  rig.clock.advance(std::chrono::seconds(30));
  CHECK(rig.write(0, "too late").status == Status::NFS4ERR_DELAY);  // admitted before
  CHECK(rig.commit().first == Status::NFS4ERR_DELAY);
  CHECK(rig.put(rig.handle()) == Status::NFS4ERR_DELAY);
  CHECK(rig.put(rig.handle({.access = layout::Access::kControl})) == Status::NFS4_OK);
  CHECK(rig.write(0, "proxied").status == Status::NFS4_OK);

  rig.gate->lease().renew(rig.clock.now(), std::chrono::seconds(1));
  CHECK(rig.put(rig.handle()) == Status::NFS4_OK);
  rig.gate->lease().renew(rig.clock.now() - std::chrono::seconds(5), std::chrono::seconds(5));
  CHECK(rig.put(rig.handle()) == Status::NFS4ERR_DELAY);  // the newest answer counts
}

TEST_CASE("a server whose heartbeats are not answered is out of touch before its lease ends") {
  ManualClock clock;
  clock.advance(std::chrono::seconds(100));
  Lease lease(clock);
  CHECK_FALSE(lease.in_touch());
  lease.renew(clock.now(), std::chrono::seconds(60));
  clock.advance(Lease::kSilence - std::chrono::milliseconds(1));
  CHECK(lease.in_touch());
  clock.advance(std::chrono::milliseconds(1));
  CHECK_FALSE(lease.in_touch());
  CHECK(lease.held());
  lease.renew(clock.now(), std::chrono::seconds(0));  // heard, and given none
  CHECK(lease.in_touch());
  CHECK(lease.held());
  lease.end();
  CHECK(lease.in_touch());
  CHECK_FALSE(lease.held());
}

TEST_CASE("who has not shown that it is a server can do nothing with a server's handle") {
  HandlerRig rig;
  rig.client.server = false;
  for (const auto access : {layout::Access::kFetch, layout::Access::kCompare,
                            layout::Access::kMirror, layout::Access::kControl}) {
    INFO(static_cast<int>(access));
    rig.client.server = true;
    CHECK(rig.put(rig.handle({.access = access})) == Status::NFS4_OK);
    rig.client.server = false;
    CHECK(rig.put(rig.handle({.access = access})) == Status::NFS4ERR_ACCESS);
    CHECK(rig.read(0, 100).status == Status::NFS4ERR_NOFILEHANDLE);
  }
  CHECK(rig.counters.total().refused == 4);
  for (const auto access : {layout::Access::kRead, layout::Access::kReadWrite}) {
    CHECK(rig.put(rig.handle({.access = access})) == Status::NFS4_OK);
  }
}

TEST_CASE("the metadata server is not asked for the size that it reads by") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle({.access = layout::Access::kControl})) == Status::NFS4_OK);
  REQUIRE(rig.write(0, "0123456789").status == Status::NFS4_OK);
  rig.sizes.file_size = 25;
  const auto got = rig.read(5, 20);
  CHECK(got.text == "56789");
  CHECK(got.eof);
  CHECK(rig.sizes.queries == 0);
}

TEST_CASE("a handle is good while the key that sealed it is accepted") {
  HandlerRig rig;
  const auto old = rig.keys->first();
  const rpc::peer::ClusterKey fresh{{std::byte{2}}};
  const auto before = rig.handle();
  rig.keys->use({old, fresh});
  const auto early = [&] {
    rig.key = rpc::peer::handle_key(fresh);  // of a server that is a step ahead
    return rig.handle();
  }();
  CHECK(rig.put(before) == Status::NFS4_OK);
  CHECK(rig.put(early) == Status::NFS4_OK);
  rig.keys->use({fresh, old});
  CHECK(rig.put(before) == Status::NFS4_OK);
  rig.keys->use({fresh});
  CHECK(rig.put(before) == Status::NFS4ERR_BADHANDLE);
  CHECK(rig.put(early) == Status::NFS4_OK);
}

TEST_CASE("eof and zeros follow the file's size, not the object's") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  REQUIRE(rig.write(0, "0123456789").status == Status::NFS4_OK);
  rig.sizes.file_size = 25;

  auto got = rig.read(0, 5);  // within the object: nobody needs to be asked
  CHECK(got.text == "01234");
  CHECK_FALSE(got.eof);
  CHECK(rig.sizes.queries == 0);

  got = rig.read(0, 10);  // up to the object's end
  CHECK(got.text == "0123456789");
  CHECK_FALSE(got.eof);
  CHECK(rig.sizes.queries == 0);

  got = rig.read(5, 15);  // over the object's end, within the file
  CHECK(got.text == "56789" + std::string(10, '\0'));
  CHECK_FALSE(got.eof);

  got = rig.read(5, 20);  // exactly to the file's end
  CHECK(got.text == "56789" + std::string(15, '\0'));
  CHECK(got.eof);

  got = rig.read(12, 100);  // all past the object's end
  CHECK(got.text == std::string(13, '\0'));
  CHECK(got.eof);

  got = rig.read(25, 10);
  CHECK(got.text.empty());
  CHECK(got.eof);
  got = rig.read(~std::uint64_t{0}, 10);
  CHECK(got.text.empty());
  CHECK(got.eof);
}

// The bytes were read before the file's size is asked for.
TEST_CASE("what is written while a READ asks for the file's size is read as written") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  const std::string front = GENERATE("", "0123456789");
  if (!front.empty()) REQUIRE(rig.write(0, front).status == Status::NFS4_OK);
  rig.sizes.hold = true;
  std::optional<rpc::nfs4::OpResult> result;
  rig.handler->execute(rig.compound,
                       {rpc::nfs4::Op::OP_READ, rpc::nfs4::ReadArgs{.offset = 0, .count = 100}},
                       [&](rpc::nfs4::OpResult r) { result = std::move(r); });
  REQUIRE(rig.thread.run_until([&] { return !rig.sizes.held.empty(); }));
  REQUIRE(rig.write(front.size(), "more").status == Status::NFS4_OK);
  rig.sizes.held.front()(Result<std::uint64_t>(front.size() + 6));
  REQUIRE(rig.thread.run_until([&] { return result.has_value(); }));
  const auto& ok = std::get<rpc::nfs4::ReadOk>(result->ok);
  const auto bytes = ok.data.flatten().value();
  CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) ==
        front + "more" + std::string(2, '\0'));
  CHECK(ok.eof);
}

TEST_CASE("an object that was never written is all hole") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  rig.sizes.file_size = 3;
  const auto got = rig.read(1, 10);
  CHECK(got.text == std::string(2, '\0'));
  CHECK(got.eof);
  rig.sizes.error = Errc::kStale;
  CHECK(rig.read(1, 10).status == Status::NFS4ERR_STALE);
  rig.sizes.error = Errc::kIo;
  CHECK(rig.read(1, 10).status == Status::NFS4ERR_IO);
}

TEST_CASE("a size the metadata server has not heard of yet does not hide bytes") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  REQUIRE(rig.write(0, "0123456789").status == Status::NFS4_OK);
  rig.sizes.file_size = 4;
  const auto got = rig.read(0, 100);
  CHECK(got.text == "0123456789");
  CHECK(got.eof);
}

TEST_CASE("FILE_SYNC4 is reported before the reply, less stable writes are not") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  using enum rpc::nfs4::StableHow;
  CHECK(rig.write(0, "x", UNSTABLE4).status == Status::NFS4_OK);
  CHECK(rig.write(0, "x", DATA_SYNC4).ok.committed == DATA_SYNC4);
  CHECK(rig.sizes.reports.empty());
  CHECK(rig.write(100, "abc", FILE_SYNC4).ok.committed == FILE_SYNC4);
  CHECK(rig.sizes.reports == std::vector<std::uint64_t>{103});
  rig.sizes.error = Errc::kIo;
  CHECK(rig.write(100, "abc", FILE_SYNC4).status == Status::NFS4ERR_IO);
}

TEST_CASE("without a file handle there is nothing to do") {
  HandlerRig rig;
  CHECK(rig.read(0, 1).status == Status::NFS4ERR_NOFILEHANDLE);
  CHECK(rig.write(0, "x").status == Status::NFS4ERR_NOFILEHANDLE);
  CHECK(rig.commit().first == Status::NFS4ERR_NOFILEHANDLE);
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  auto forged = rig.handle();
  forged[30] ^= std::byte{1};
  CHECK(rig.put(forged) == Status::NFS4ERR_BADHANDLE);
  CHECK(rig.read(0, 1).status == Status::NFS4ERR_NOFILEHANDLE);  // nor the one before
}

TEST_CASE("a handle altered in any bit is refused") {
  HandlerRig rig;
  for (std::size_t bit = 0; bit < layout::kHandleBytes * 8; ++bit) {
    auto altered = rig.handle();
    altered[bit / 8] ^= std::byte{1} << (bit % 8);
    REQUIRE(rig.put(altered) == Status::NFS4ERR_BADHANDLE);
    REQUIRE_FALSE(rig.handler->genuine(altered));
  }
  const auto whole = rig.handle();
  CHECK(rig.put(std::span(whole).first(63)) == Status::NFS4ERR_BADHANDLE);
  CHECK(rig.put({}) == Status::NFS4ERR_BADHANDLE);
  CHECK(rig.handler->genuine(whole));
  CHECK_FALSE(rig.handler->genuine({}));
}

TEST_CASE("a handle for reading does not write, of another data server does nothing") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle({.access = layout::Access::kRead})) == Status::NFS4_OK);
  CHECK(rig.write(0, "x").status == Status::NFS4ERR_ACCESS);
  CHECK(rig.commit().first == Status::NFS4ERR_ACCESS);
  CHECK(rig.read(0, 1).status == Status::NFS4_OK);
  CHECK(rig.put(rig.handle({.ds_id = 8})) == Status::NFS4ERR_STALE);
}

TEST_CASE("servers' handles allow what they are for, and nothing else") {
  HandlerRig rig;
  using enum layout::Access;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  REQUIRE(rig.write(0, "some bytes").status == Status::NFS4_OK);
  SECTION("to fetch is to read what is there") {
    REQUIRE(rig.put(rig.handle({.access = kFetch})) == Status::NFS4_OK);
    rig.sizes.file_size = 100;
    const auto got = rig.read(5, 100);
    CHECK(got.text == "bytes");
    CHECK(got.eof);
    CHECK(rig.sizes.queries == 0);
    CHECK(rig.write(0, "x").status == Status::NFS4ERR_ACCESS);
    CHECK(rig.commit().first == Status::NFS4ERR_ACCESS);
  }
  SECTION("to bring writes is not to read") {
    REQUIRE(rig.put(rig.handle({.access = kMirror})) == Status::NFS4_OK);
    CHECK(rig.read(0, 10).status == Status::NFS4ERR_ACCESS);
  }
  SECTION("the metadata server's are below fences too") {
    REQUIRE(rig.fences->raise(std::vector<Fence>{{kRigObject, 5}}));
    CHECK(rig.put(rig.handle({.access = kControl, .epoch = 4})) == Status::NFS4ERR_ACCESS);
    CHECK(rig.put(rig.handle({.access = kControl, .epoch = 5})) == Status::NFS4_OK);
  }
}

TEST_CASE("a data server that compares gets checksums, and writes nothing") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  const std::string text(10'000, 'x');
  REQUIRE(rig.write(0, text).status == Status::NFS4_OK);
  REQUIRE(rig.put(rig.handle({.access = layout::Access::kCompare})) == Status::NFS4_OK);
  const auto got = rig.read(4096, 4096);
  REQUIRE(got.status == Status::NFS4_OK);
  CHECK_FALSE(got.eof);
  const auto sums = ds::decode_sums(std::as_bytes(std::span(got.text)), 4096, 4096);
  REQUIRE(sums);
  CHECK(sums->object_end == text.size());
  CHECK(sums->blocks == ds::sum_blocks(std::as_bytes(std::span(text)).subspan(4096, 4096)));
  CHECK(rig.read(0, ds::kMaxSumRange).eof);
  CHECK(rig.read(20'000, 5).text.size() == 20);
  CHECK(rig.read(0, ds::kMaxSumRange + 1).status == Status::NFS4ERR_INVAL);
  CHECK(rig.write(0, "y").status == Status::NFS4ERR_ACCESS);
  CHECK(rig.commit().first == Status::NFS4ERR_ACCESS);
}

TEST_CASE("a data server that compares is told how far a hole goes") {
  HandlerRig rig;
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  REQUIRE(rig.write(0, std::string(10'000, 'x')).status == Status::NFS4_OK);
  REQUIRE(rig.write(kFar + 5000, "far").status == Status::NFS4_OK);
  REQUIRE(rig.put(rig.handle({.access = layout::Access::kCompare})) == Status::NFS4_OK);
  const auto next = [&](std::uint64_t offset) {
    const auto got = rig.read(offset, 4096);
    return ds::decode_sums(std::as_bytes(std::span(got.text)), offset, 4096).value().next_data;
  };
  CHECK(next(4096) == 8192);  // something follows, or is not known not to
  CHECK(next(std::uint64_t{1} << 30) <= kFar + 5000);
  CHECK(next(std::uint64_t{1} << 30) >= kFar - (std::uint64_t{1} << 20));
  CHECK(next(kFar + 4096) == kFar + 8192);
}

TEST_CASE("a handle that is taken, or would be with a lease, shows a right; others do not") {
  HandlerRig rig;
  const auto shows = [&](const layout::SealedHandle& handle) {
    rig.compound.shows_right = false;
    static_cast<void>(rig.put(handle));
    return rig.compound.shows_right;
  };
  auto altered = rig.handle();
  altered[20] ^= std::byte{1};
  CHECK_FALSE(shows(altered));
  CHECK_FALSE(shows(rig.handle({.ds_id = 8})));
  CHECK(shows(rig.handle()));
  CHECK(shows(rig.handle({.access = layout::Access::kMirror})));
  rig.client.server = false;
  CHECK_FALSE(shows(rig.handle({.access = layout::Access::kMirror})));
  rig.gate->lease().end();
  CHECK(shows(rig.handle()));
  REQUIRE(rig.fences->raise(std::vector<Fence>{{kRigObject, 5}}));
  CHECK_FALSE(shows(rig.handle({.epoch = 4})));
}

TEST_CASE("a fenced handle is refused from then on, a newer one is not") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle({.epoch = 4})) == Status::NFS4_OK);
  REQUIRE(rig.fences->raise(std::vector<Fence>{{kRigObject, 5}}));
  CHECK(rig.put(rig.handle({.epoch = 4})) == Status::NFS4ERR_ACCESS);
  CHECK(rig.put(rig.handle({.epoch = 5})) == Status::NFS4_OK);
}

// COMPOUND{PUTFH, READ at the end, WRITE...}: the READ waits for the metadata server as long as
// that likes, and a fence comes meanwhile.
TEST_CASE("a compound does not outlive its fence") {
  HandlerRig rig;
  using layout::Access;
  const Access access = GENERATE(Access::kReadWrite, Access::kMirror);
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  REQUIRE(rig.write(0, "as it was").status == Status::NFS4_OK);
  REQUIRE(rig.put(rig.handle({.access = access})) == Status::NFS4_OK);
  rig.sizes.hold = true;
  std::optional<Status> read;
  if (access == Access::kReadWrite) {  // a partner does not ask for the size
    rig.handler->execute(rig.compound,
                         {rpc::nfs4::Op::OP_READ, rpc::nfs4::ReadArgs{.offset = 0, .count = 100}},
                         [&](const rpc::nfs4::OpResult& result) { read = result.status; });
    REQUIRE(rig.thread.run_until([&] { return rig.sizes.held.size() == 1; }));
  }
  bool answered = false;
  REQUIRE(rig.fences->raise(std::vector<Fence>{{kRigObject, 5}}));
  rig.writes.drain([&] { answered = true; });
  REQUIRE(rig.thread.run_until([&] { return answered; }));
  for (auto& done : rig.sizes.held) done(Result<std::uint64_t>(200));
  if (access == Access::kReadWrite) CHECK(read == Status::NFS4ERR_ACCESS);

  CHECK(rig.write(0, "below it").status == Status::NFS4ERR_ACCESS);
  CHECK(rig.commit().first == Status::NFS4ERR_ACCESS);
  CHECK(rig.read(0, 4).status == Status::NFS4ERR_ACCESS);
  CHECK(rig.counters.total().running == 0);
  rig.sizes.hold = false;
  REQUIRE(rig.put(rig.handle({.epoch = 5})) == Status::NFS4_OK);
  CHECK(rig.read(0, 4).text == "as i");
}

TEST_CASE("an answer that waits to be taken brings nothing more of a file once that is fenced") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle({.epoch = 4})) == Status::NFS4_OK);
  const std::uint32_t size = 1 << 20;
  rig.sizes.file_size = size;
  REQUIRE(rig.write(0, std::string(size, 'x')).status == Status::NFS4_OK);
  const auto result =
      rig.run({rpc::nfs4::Op::OP_READ, rpc::nfs4::ReadArgs{.offset = 0, .count = size}});
  const Payload& payload = std::get<rpc::nfs4::ReadOk>(result.ok).data;
  REQUIRE(std::holds_alternative<FileRange>(payload.pieces().front()));
  CHECK(payload.flatten().value().size() == size);
  REQUIRE(rig.fences->raise(std::vector<Fence>{{kRigObject, 5}}));
  CHECK_FALSE(payload.may_read_files());
  CHECK(payload.flatten().error() == Errc::kFenced);
}

TEST_CASE("limits of ranges and of the reply are kept") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  CHECK(rig.write(~std::uint64_t{0}, "xx").status == Status::NFS4ERR_FBIG);
  CHECK(rig.commit(~std::uint64_t{0}, 2).first == Status::NFS4ERR_INVAL);
  REQUIRE(rig.write(0, std::string(5000, 'x')).status == Status::NFS4_OK);
  rig.compound.max_read = 1000;
  const auto got = rig.read(0, 5000);
  CHECK(got.text == std::string(1000, 'x'));
  CHECK_FALSE(got.eof);
}

TEST_CASE("operations of a metadata server are not supported") {
  HandlerRig rig;
  for (const auto op : {rpc::nfs4::Op::OP_GETATTR, rpc::nfs4::Op::OP_LOOKUP, rpc::nfs4::Op::OP_OPEN,
                        rpc::nfs4::Op::OP_PUTROOTFH}) {
    CHECK(rig.run({op, rpc::nfs4::None{}}).status == Status::NFS4ERR_NOTSUPP);
  }
}

TEST_CASE("operations are counted") {
  HandlerRig rig;
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  REQUIRE(rig.write(0, std::string(100'000, 'x')).status == Status::NFS4_OK);
  // What the kernel has dropped from the page cache comes from the disk, and is there the next
  // time.
  std::uint64_t reads = 0;
  do {
    CHECK(rig.read(0, 65536).text.size() == 65536);
  } while (++reads < 1000 && rig.counters.total().zero_copy_bytes == 0);
  rig.commit();
  const CounterTotals total = rig.counters.total();
  CHECK(total.writes == 1);
  CHECK(total.write_bytes == 100'000);
  CHECK(total.reads == reads);
  CHECK(total.read_bytes == reads * 65536);
  CHECK(total.zero_copy_bytes == 65536);
  CHECK(total.commits == 1);
  CHECK(total.errors == 0);
  CHECK(total.running == 0);
  // What is read to make copies equal is not what clients read.
  REQUIRE(rig.put(rig.handle({.access = layout::Access::kFetch})) == Status::NFS4_OK);
  CHECK(rig.read(0, 10'000).text.size() == 10'000);
  CHECK(rig.counters.total().read_bytes == reads * 65536);
  CHECK(rig.counters.total().partner_read_bytes == 10'000);
}

}  // namespace
}  // namespace weft::ds
