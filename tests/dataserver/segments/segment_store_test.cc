#include "dataserver/segments/segment_store.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/segments/segment_rig.h"
#include "tests/dataserver/store/store_model.h"

namespace weft::ds {
namespace {

using test::SegmentRig;
using test::strips_of;

const layout::ObjectId kObject{.fileid = 7, .generation = 1};
const layout::ObjectId kOther{.fileid = 8, .generation = 1};
const std::vector<std::uint64_t> kRow{0, 4, 8, 12};

std::string strip_of(const std::string& bytes, std::uint64_t index) {
  return bytes.substr(index * kStrip, kStrip);
}

// A rig with one segment: strips 0, 4, 8, 12 of an object of 16, less half a strip.
struct OneSegment : SegmentRig {
  OneSegment() {
    bytes.resize(bytes.size() - kStrip / 2);
    REQUIRE(write(kObject, 0, bytes).has_value());
    client_reads_strips(kObject, kRow, 3);
    idle_second();
    REQUIRE(view().segments.load() == 1);
    REQUIRE(view().bytes.load() == 4 * kStrip);
  }
  void check_all() {
    for (std::uint64_t i = 0; i < 16; ++i) {
      CHECK(client_reads(kObject, i * kStrip) == strip_of(bytes, i));
    }
  }
  std::string bytes = strips_of(16);
};

TEST_CASE("a store with segments is a store like another") {
  SegmentRig rig;
  CHECK(test::behaves_like_strings(rig));
}

TEST_CASE("what is read together comes together") {
  OneSegment rig;
  // The first read brings all of it, by one read of the partition.
  const std::uint64_t before = rig.partition.reads;
  for (const std::uint64_t index : kRow) {
    CHECK(rig.reads_for(kObject, index * kStrip, kStrip, strip_of(rig.bytes, index)) == 0);
  }
  CHECK(rig.partition.reads - before == 1);
  CHECK(rig.view().waits.load() == 1);
  CHECK(rig.view().hits.load() == 3);
  CHECK(rig.view().hit_bytes.load() == 4 * kStrip);
  CHECK(rig.segments->table().memory_bytes() == 4 * kStrip);
  // Parts of strips, too; and what is partly elsewhere comes from beneath.
  CHECK(rig.reads_for(kObject, 4 * kStrip + 100, 1000, rig.bytes.substr(4 * kStrip + 100, 1000)) ==
        0);
  CHECK(rig.reads_for(kObject, 4 * kStrip + 100, kStrip,
                      rig.bytes.substr(4 * kStrip + 100, kStrip)) == 1);
  rig.check_all();
}

TEST_CASE("a read is told where the object ends") {
  OneSegment rig;
  CHECK(rig.read(kObject, 0, 100)->object_end == rig.bytes.size());
  REQUIRE(rig.write(kObject, 20 * kStrip, "x").has_value());
  CHECK(rig.view().segments.load() == 1);
  CHECK(rig.read(kObject, 0, 100)->object_end == 20 * kStrip + 1);
  CHECK(rig.view().hits.load() >= 1);
  // After a restart nobody remembers.
  rig.restart();
  CHECK(rig.read(kObject, 0, 100)->object_end == 20 * kStrip + 1);
  CHECK(rig.view().waits.load() == 1);
}

TEST_CASE("a group over several objects, with their ends in it, is one segment") {
  SegmentRig rig;
  REQUIRE(rig.write(kObject, 0, std::string(1000, 'o')).has_value());
  REQUIRE(rig.write(kOther, 0, std::string(70'000, 'p')).has_value());
  for (int pass = 0; pass < 3; ++pass) {
    CHECK(rig.client_reads(kObject, 0) == std::string(1000, 'o'));
    CHECK(rig.client_reads(kOther, kStrip) == std::string(70'000 - kStrip, 'p'));
  }
  rig.idle_second();
  REQUIRE(rig.view().segments.load() == 1);
  const std::uint64_t before = rig.store.reads;
  CHECK(rig.client_reads(kOther, kStrip) == std::string(70'000 - kStrip, 'p'));
  CHECK(rig.client_reads(kObject, 0) == std::string(1000, 'o'));
  CHECK(rig.client_reads(kObject, 10, 5) == "ooooo");
  CHECK(rig.store.reads == before);
  // A hole that comes to be behind a strip's end is none of the segment's.
  REQUIRE(rig.write(kObject, 3 * kStrip, "x").has_value());
  CHECK(rig.client_reads(kObject, 0) == std::string(1000, 'o') + std::string(kStrip - 1000, '\0'));
}

TEST_CASE("a group with strips behind an object's end is a segment, too") {
  SegmentRig rig;
  std::string bytes = strips_of(9);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  rig.client_reads_strips(kObject, {0, 4, 8, 12, 16}, 4);
  rig.idle_second();
  REQUIRE(rig.view().segments.load() == 1);
  CHECK(rig.view().bytes.load() == 3 * kStrip);
  for (const std::uint64_t index : {0, 4, 8}) {
    CHECK(rig.reads_for(kObject, index * kStrip, kStrip, strip_of(bytes, index)) == 0);
  }
  CHECK(rig.reads_for(kObject, 12 * kStrip, kStrip, "") == 1);
  // It is made once.
  rig.client_reads_strips(kObject, {0, 4, 8, 12, 16}, 1);
  rig.idle_second();
  CHECK(rig.view().built.load() == 1);
  // What comes to be there is of the group: the segment gives way to another.
  REQUIRE(rig.write(kObject, 12 * kStrip, "x").has_value());
  bytes.resize(12 * kStrip);
  bytes += 'x';
  CHECK(rig.view().segments.load() == 0);
  CHECK(rig.client_reads(kObject, 12 * kStrip) == "x");
  rig.idle_second();
  CHECK(rig.view().bytes.load() == 4 * kStrip);
  rig.restart();
  for (const std::uint64_t index : {0, 4, 8, 12}) {
    CHECK(rig.reads_for(kObject, index * kStrip, kStrip, strip_of(bytes, index)) == 0);
  }
}

TEST_CASE("a group that is mostly behind an object's end is no segment") {
  SegmentRig rig;
  REQUIRE(rig.write(kObject, 0, strips_of(1)).has_value());
  rig.client_reads_strips(kObject, {0, 4, 8, 12, 16}, 4);
  rig.idle_second();
  CHECK(rig.view().segments.load() == 0);
}

TEST_CASE("an object of a group comes to be, and goes") {
  SegmentRig rig;
  constexpr layout::ObjectId kThird{.fileid = 9, .generation = 1};
  REQUIRE(rig.write(kObject, 0, "first").has_value());
  REQUIRE(rig.write(kThird, 0, "third").has_value());
  const auto read_row = [&](const std::string& second) {
    CHECK(rig.client_reads(kObject, 0) == "first");
    CHECK(rig.client_reads(kOther, 0).starts_with(second));
    CHECK(rig.client_reads(kThird, 0) == "third");
  };
  for (int pass = 0; pass < 3; ++pass) read_row("error");
  rig.idle_second();
  REQUIRE(rig.view().bytes.load() == 2 * kStrip);
  read_row("error");
  REQUIRE(rig.write(kOther, 0, "second").has_value());
  CHECK(rig.view().segments.load() == 0);
  read_row("second");
  rig.idle_second();
  CHECK(rig.view().bytes.load() == 3 * kStrip);
  read_row("second");
  REQUIRE(rig.remove(kOther).has_value());
  read_row("error");
  rig.idle_second();
  CHECK(rig.view().bytes.load() == 2 * kStrip);
  read_row("error");
  rig.restart();
  read_row("error");
}

TEST_CASE("a change removes the whole segment before it goes on") {
  const auto check = [](const char* what, auto change, auto expect) {
    INFO(what);
    OneSegment rig;
    rig.check_all();
    rig.partition.hold = true;
    bool ended = false;
    change(rig, [&ended](const auto& result) {
      CHECK(result.has_value());
      ended = true;
    });
    CHECK_FALSE(ended);
    CHECK(rig.partition.held() == 1);
    // Nothing of it is used any more, in memory either.
    CHECK(rig.reads_for(kObject, 0, 100, rig.bytes.substr(0, 100)) == 1);
    rig.partition.finish(0);
    CHECK(ended);
    rig.partition.hold = false;
    expect(rig.bytes);
    rig.check_all();
    CHECK(rig.view().invalidated.load() == 1);
    CHECK(rig.view().segments.load() == 0);
    CHECK(rig.view().bytes.load() == 0);
    CHECK(rig.segments->table().memory_bytes() == 0);
    rig.restart();
    CHECK(rig.view().segments.load() == 0);
    rig.check_all();
  };
  const std::string change(100, '!');
  check(
      "write",
      [&](OneSegment& rig, auto done) {
        std::vector<Buffer> data;
        data.push_back(rig.buffer(change));
        rig.segments->write(kObject, 8 * kStrip + 5, std::move(data), Stability::kUnstable,
                            std::move(done));
      },
      [&](std::string& bytes) { bytes.replace(8 * kStrip + 5, 100, change); });
  check(
      "piped",
      [&](OneSegment& rig, auto done) {
        auto piped = PipedBytes::open(rig.pool()).value();
        piped.put(std::as_bytes(std::span(change))).value();
        rig.segments->write({.object = kObject,
                             .offset = 9 * kStrip - 50,
                             .piped = std::move(piped),
                             .wanted = Stability::kFileSync},
                            std::move(done));
      },
      [&](std::string& bytes) { bytes.replace(9 * kStrip - 50, 100, change); });
  check(
      "truncate",
      [&](OneSegment& rig, auto done) {
        rig.segments->truncate(kObject, 15 * kStrip, std::move(done));
      },
      [](std::string& bytes) { bytes.resize(15 * kStrip); });
  check(
      "punch",
      [&](OneSegment& rig, auto done) { rig.segments->punch(kObject, 0, 10, std::move(done)); },
      [](std::string& bytes) { bytes.replace(0, 10, std::string(10, '\0')); });
  check(
      "allocate",
      [&](OneSegment& rig, auto done) {
        rig.segments->allocate(kObject, 0, 16 * kStrip, std::move(done));
      },
      [](std::string& bytes) { bytes.resize(16 * kStrip); });
}

TEST_CASE("an object that is removed is not there, and leaves no segment") {
  OneSegment rig;
  REQUIRE(rig.remove(kObject).has_value());
  CHECK(rig.read(kObject, 0, 10).error() == Errc::kNotFound);
  CHECK(rig.view().bytes.load() == 0);
  REQUIRE(rig.write(kObject, 0, "new").has_value());
  CHECK(rig.client_reads(kObject, 0) == "new");
}

TEST_CASE("a write between the strips of a segment leaves it alone") {
  OneSegment rig;
  REQUIRE(rig.write(kObject, kStrip, std::string(3 * kStrip, '!')).has_value());
  rig.bytes.replace(kStrip, 3 * kStrip, std::string(3 * kStrip, '!'));
  CHECK(rig.view().segments.load() == 1);
  rig.check_all();
  REQUIRE(rig.write(kObject, 4 * kStrip - 1, "!!").has_value());
  CHECK(rig.view().segments.load() == 0);
}

TEST_CASE("two writes to a segment both wait for its removal") {
  OneSegment rig;
  rig.partition.hold = true;
  int ended = 0;
  for (const std::uint64_t index : {0, 8}) {
    std::vector<Buffer> data;
    data.push_back(rig.buffer("!"));
    rig.segments->write(kObject, index * kStrip, std::move(data), Stability::kFileSync,
                        [&ended](const Result<WriteResult>&) { ++ended; });
  }
  CHECK(ended == 0);
  rig.partition.finish_all();
  CHECK(ended == 2);
}

TEST_CASE("a write whose segment cannot be removed fails, and the next tries again") {
  OneSegment rig;
  rig.partition.hold = true;
  Result<> answer;
  const auto begin = [&] {
    std::vector<Buffer> data;
    data.push_back(rig.buffer("!"));
    rig.segments->write(
        kObject, 0, std::move(data), Stability::kFileSync,
        [&](Result<WriteResult> result) { answer = result ? Result<>{} : Result<>(pass(result)); });
  };
  begin();
  rig.partition.refuse(0, false);
  CHECK(answer.error() == Errc::kIo);
  CHECK(rig.client_reads(kObject, 0) == strip_of(rig.bytes, 0));
  CHECK(rig.view().segments.load() == 0);
  CHECK(rig.view().bytes.load() == 4 * kStrip);  // its file may be there still
  begin();
  rig.partition.finish(0);
  CHECK(answer.has_value());
  CHECK(rig.view().bytes.load() == 0);
}

TEST_CASE("segments outlive a restart") {
  OneSegment rig;
  rig.restart();
  CHECK(rig.opened.has_value());
  CHECK(rig.view().segments.load() == 1);
  for (const std::uint64_t index : kRow) {
    CHECK(rig.reads_for(kObject, index * kStrip, kStrip, strip_of(rig.bytes, index)) == 0);
  }
  rig.check_all();
}

TEST_CASE("an index that is torn is dropped with its segments, and no data") {
  for (const bool cut : {true, false}) {
    OneSegment rig;
    for (auto& [file, what] : rig.partition.files) {
      if (file.generation != 2) continue;
      if (cut) what.now.resize(what.now.size() / 2);
      if (!cut) what.now[20] ^= 1;
    }
    rig.restart();
    CHECK(rig.opened.has_value());
    CHECK(rig.files() == 0);
    CHECK(rig.view().segments.load() == 0);
    rig.check_all();
    // And it begins anew.
    rig.client_reads_strips(kObject, kRow, 3);
    rig.idle_second();
    rig.restart();
    CHECK(rig.view().segments.load() == 1);
    rig.check_all();
  }
}

TEST_CASE("of two indices the newest whole one counts, and a file that neither names is removed") {
  OneSegment rig;
  const auto index = std::ranges::find_if(
      rig.partition.files, [](const auto& file) { return file.first.generation == 2; });
  const auto id = index->first;
  const auto what = index->second;
  rig.partition.files[{.fileid = id.fileid + 1, .generation = 2, .fsid = id.fsid}].now = "torn";
  rig.partition.files[{.fileid = 99, .generation = 1, .fsid = id.fsid}].now = "a segment";
  rig.partition.files[kObject].now = "of somebody else";
  rig.restart();
  CHECK(rig.view().segments.load() == 1);
  CHECK(rig.files() == 2);
  rig.check_all();
  rig.client_reads_strips(kObject, {1, 3, 5}, 3);
  rig.idle_second();
  CHECK(rig.view().segments.load() == 2);
  CHECK(rig.partition.files.rbegin()->first.fileid >= id.fileid + 2);
  CHECK(rig.files() == 3);
  rig.restart();
  CHECK(rig.view().segments.load() == 2);
  rig.check_all();
}

TEST_CASE("a segment that does not read as it was written is dropped") {
  for (const int how : {0, 1, 2}) {
    OneSegment rig;
    for (auto& [file, what] : rig.partition.files) {
      if (file.generation != 1) continue;
      if (how == 0) what.now[3 * kStrip] ^= 1;
      if (how == 1) what.now.resize(what.now.size() - 1);
      if (how == 2) rig.partition.broken = Errc::kIo;
    }
    rig.check_all();
    CHECK(rig.view().damaged.load() == 1);
    CHECK(rig.view().segments.load() == 0);
    CHECK(rig.view().bytes.load() == 0);
    CHECK(rig.files() == 1);
  }
}

TEST_CASE("a segment that a change removes while it is read is not damaged") {
  OneSegment rig;
  REQUIRE(rig.stat(kObject).has_value());
  rig.partition.hold = true;
  std::optional<Result<ReadResult>> answer;
  rig.segments->read(kObject, 0, 100,
                     [&](Result<ReadResult> result) { answer.emplace(std::move(result)); });
  REQUIRE(rig.partition.held() == 1);
  std::vector<Buffer> data;
  data.push_back(rig.buffer("!"));
  rig.segments->write(kObject, 0, std::move(data), Stability::kFileSync,
                      [](const Result<WriteResult>& result) { CHECK(result.has_value()); });
  REQUIRE(rig.partition.held() == 2);
  rig.partition.finish(1);
  rig.partition.finish(0);
  CHECK(rig.partition.held() == 0);
  REQUIRE(answer.has_value());
  REQUIRE(answer->has_value());
  CHECK(static_cast<char>((*answer)->payload.flatten().value().data()[0]) == '!');
  CHECK(rig.view().damaged.load() == 0);
  CHECK(rig.view().invalidated.load() == 1);
}

TEST_CASE("nobody starts whose partition can be neither read nor cleared") {
  OneSegment rig;
  rig.partition.hold = true;
  rig.segments = std::make_unique<SegmentStore>(rig.store, rig.partition, rig.options);
  std::optional<Result<>> opened;
  rig.segments->open([&](Result<> result) { opened.emplace(std::move(result)); });
  rig.partition.refuse(0, false);  // the listing
  REQUIRE(opened.has_value());
  CHECK(opened->error() == Errc::kIo);
}

TEST_CASE("several readers wait for one read of a segment") {
  OneSegment rig;
  REQUIRE(rig.client_reads(kObject, kStrip, 10).size() == 10);
  CHECK(rig.stat(kObject).has_value());
  rig.partition.hold = true;
  int answered = 0;
  for (const std::uint64_t index : kRow) {
    rig.segments->read(kObject, index * kStrip, 100, [&, index](Result<ReadResult> result) {
      const auto got = result->payload.flatten().value();
      CHECK(std::memcmp(got.data(), rig.bytes.data() + index * kStrip, 100) == 0);
      ++answered;
    });
  }
  CHECK(rig.partition.held() == 1);
  CHECK(answered == 0);
  rig.partition.finish_all();
  CHECK(answered == 4);
  CHECK(rig.view().loads.load() == 1);
}

TEST_CASE("memory is bounded, with what replies still hold") {
  SegmentRig rig(
      {.size = 64 * test::kMiB, .cache_bytes = 8 * kStrip, .idle = std::chrono::seconds(1)});
  const std::string bytes = strips_of(60);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  for (std::uint64_t first = 0; first < 3; ++first) {
    rig.client_reads_strips(kObject, {first, first + 10, first + 20, first + 30}, 4);
    REQUIRE(rig.client_reads(kOther, 0).starts_with("error"));
  }
  rig.idle_second();
  REQUIRE(rig.view().segments.load() == 3);
  const auto& table = rig.segments->table();
  std::vector<ReadResult> replies;
  for (std::uint64_t first = 0; first < 3; ++first) {
    CHECK(rig.client_reads(kObject, first * kStrip) == strip_of(bytes, first));
    replies.push_back(rig.read(kObject, first * kStrip, 10).value());
    CHECK(table.memory_bytes() <= 8 * kStrip);
  }
  // Two are in memory, or in replies: the third came from beneath.
  CHECK(rig.view().loads.load() == 2);
  replies.clear();
  CHECK(rig.client_reads(kObject, 2 * kStrip) == strip_of(bytes, 2));
  CHECK(rig.view().loads.load() == 3);
  CHECK(table.memory_bytes() <= 8 * kStrip);
}

TEST_CASE("a read over segments that do not fit into memory together brings each once") {
  SegmentRig rig(
      {.size = 64 * test::kMiB, .cache_bytes = 8 * kStrip, .idle = std::chrono::seconds(1)});
  const std::string bytes = strips_of(60);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  for (std::uint64_t first = 0; first < 3; ++first) {
    rig.client_reads_strips(kObject, {first, first + 10, first + 20, first + 30}, 4);
    REQUIRE(rig.client_reads(kOther, 0).starts_with("error"));
  }
  rig.idle_second();
  REQUIRE(rig.view().segments.load() == 3);
  rig.partition.hold = true;
  std::optional<std::string> got;
  rig.segments->read(kObject, 10 * kStrip, 3 * kStrip, [&](Result<ReadResult> result) {
    const auto all = result->payload.flatten().value();
    got.emplace(reinterpret_cast<const char*>(all.data()), all.size());
  });
  rig.partition.finish_all();
  REQUIRE(got.has_value());
  CHECK(*got == bytes.substr(10 * kStrip, 3 * kStrip));
  CHECK(rig.view().loads.load() == 3);
}

TEST_CASE("a segment of a time with more memory sends no other out of it") {
  SegmentRig rig(
      {.size = 64 * test::kMiB, .cache_bytes = 8 * kStrip, .idle = std::chrono::seconds(1)});
  const std::string bytes = strips_of(60);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  rig.client_reads_strips(kObject, {0, 10, 20, 30, 40, 50}, 4);
  REQUIRE(rig.client_reads(kOther, 0).starts_with("error"));
  rig.client_reads_strips(kObject, {1, 11, 21}, 4);
  rig.idle_second();
  REQUIRE(rig.view().segments.load() == 2);
  rig.options.cache_bytes = 4 * kStrip;
  rig.restart();
  CHECK(rig.client_reads(kObject, kStrip) == strip_of(bytes, 1));
  CHECK(rig.client_reads(kObject, 0) == strip_of(bytes, 0));
  CHECK(rig.reads_for(kObject, 11 * kStrip, kStrip, strip_of(bytes, 11)) == 0);
  CHECK(rig.view().loads.load() == 1);
}

TEST_CASE("the partition is bounded: what was used longest ago makes room") {
  SegmentRig rig(
      {.size = 8 * kStrip, .cache_bytes = 16 * test::kMiB, .idle = std::chrono::seconds(1)});
  const std::string bytes = strips_of(60);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  for (std::uint64_t first = 0; first < 4; ++first) {
    rig.client_reads_strips(kObject, {first, first + 10, first + 20, first + 30}, 4);
    rig.idle_second();
    CHECK(rig.view().bytes.load() <= 8 * kStrip);
    CHECK(rig.files() <= 3);
    CHECK(rig.view().segments.load() == (first == 0 ? 1 : 2));
    CHECK(rig.client_reads(kObject, first * kStrip) == strip_of(bytes, first));
  }
  CHECK(rig.view().replaced.load() >= 2);
}

TEST_CASE("a new pattern over strips of a segment takes its place") {
  OneSegment rig;
  rig.client_reads_strips(kObject, {8, 10, 12, 14}, 5);
  rig.idle_second();
  CHECK(rig.view().segments.load() == 1);
  CHECK(rig.view().replaced.load() == 1);
  CHECK(rig.reads_for(kObject, 10 * kStrip, kStrip, strip_of(rig.bytes, 10)) == 0);
  CHECK(rig.reads_for(kObject, 0, kStrip, strip_of(rig.bytes, 0)) == 1);
  rig.check_all();
}

TEST_CASE("what is one piece of an object anyway is left there") {
  SegmentRig rig;
  REQUIRE(rig.write(kObject, 0, strips_of(16)).has_value());
  rig.client_reads_strips(kObject, {0, 1, 2, 3, 4, 5}, 5);
  rig.idle_second();
  CHECK(rig.view().built.load() == 0);
}

TEST_CASE("a piece of one object that is read by columns is a segment") {
  SegmentRig rig;
  REQUIRE(rig.write(kObject, 0, strips_of(16)).has_value());
  rig.client_reads_strips(kObject, {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}, 5);
  rig.idle_second();
  CHECK(rig.view().built.load() == 1);
}

// --- When ----------------------------------------------------------------------------------------

TEST_CASE("segments are written when the disk has been idle for long enough") {
  SegmentRig rig(
      {.size = 16 * test::kMiB, .cache_bytes = 16 * test::kMiB, .idle = std::chrono::seconds(5)});
  REQUIRE(rig.write(kObject, 0, strips_of(16)).has_value());
  rig.client_reads_strips(kObject, kRow, 3);
  for (int i = 0; i < 4; ++i) rig.idle_second();
  rig.device_queue = 1;  // somebody else's
  rig.idle_second();
  rig.device_queue = 0;
  for (int i = 0; i < 4; ++i) rig.idle_second();
  rig.store.hold = true;
  rig.segments->read(kObject, kStrip, 10, [](const Result<ReadResult>&) {});
  rig.idle_second();
  rig.store.finish_all();
  rig.store.hold = false;
  for (int i = 0; i < 4; ++i) rig.idle_second();
  CHECK(rig.view().built.load() == 0);
  rig.idle_second();
  CHECK(rig.view().built.load() == 1);
}

TEST_CASE("an operation that comes ends the work, which goes on later") {
  SegmentRig rig;
  const std::string bytes = strips_of(40);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  for (std::uint64_t first = 0; first < 3; ++first) {
    rig.client_reads_strips(kObject, {first, first + 10, first + 20, first + 30}, 4);
  }
  rig.store.hold = true;
  rig.idle_second();
  REQUIRE(rig.store.held() == 1);
  rig.store.finish(0);
  REQUIRE(rig.store.held() == 1);  // the second strip
  rig.segments->read(kObject, kStrip, 10, [](const Result<ReadResult>&) {});
  rig.store.finish_all();
  CHECK(rig.view().built.load() == 0);
  CHECK(rig.segments->idle());
  rig.store.hold = false;
  rig.idle_second();
  CHECK(rig.view().built.load() == 3);
  CHECK(rig.files() == 4);
}

TEST_CASE("a change of a strip that is being copied makes the copy worthless") {
  SegmentRig rig;
  std::string bytes = strips_of(16);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  rig.client_reads_strips(kObject, kRow, 3);
  // While it is written; what was read of the object is old then.
  rig.partition.hold = true;
  rig.idle_second();
  REQUIRE(rig.partition.held() == 1);
  REQUIRE(rig.write(kObject, 4 * kStrip, "!").has_value());
  bytes[4 * kStrip] = '!';
  rig.partition.finish_all();
  rig.partition.hold = false;
  CHECK(rig.view().built.load() == 0);
  CHECK(rig.files() == 0);
  for (const std::uint64_t index : kRow) {
    CHECK(rig.client_reads(kObject, index * kStrip) == strip_of(bytes, index));
  }
}

TEST_CASE("an object that is removed and made again while its group is written is not in it") {
  SegmentRig rig;
  REQUIRE(rig.write(kObject, 0, strips_of(16)).has_value());
  rig.client_reads_strips(kObject, kRow, 3);
  rig.partition.hold = true;
  rig.idle_second();
  REQUIRE(rig.partition.held() == 1);
  REQUIRE(rig.remove(kObject).has_value());
  const std::string bytes = strips_of(16, 'A');
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  rig.partition.finish_all();
  rig.partition.hold = false;
  CHECK(rig.view().built.load() == 0);
  CHECK(rig.files() == 0);
  rig.restart();
  for (const std::uint64_t index : kRow) {
    CHECK(rig.client_reads(kObject, index * kStrip) == strip_of(bytes, index));
  }
}

TEST_CASE("on a full disk one segment is tried, and nothing is left of it") {
  SegmentRig rig;
  const std::string bytes = strips_of(40);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  for (std::uint64_t first = 0; first < 3; ++first) {
    rig.client_reads_strips(kObject, {first, first + 10, first + 20, first + 30}, 4);
    REQUIRE(rig.client_reads(kOther, 0).starts_with("error"));
  }
  rig.partition.broken_writes = Errc::kNoSpace;
  const std::uint64_t before = rig.store.reads;
  rig.idle_second();
  CHECK(rig.view().built.load() == 0);
  CHECK(rig.files() == 0);
  CHECK(rig.store.reads - before == 4);
  CHECK(rig.client_reads(kObject, 0) == strip_of(bytes, 0));
  rig.partition.broken_writes = {};
  rig.idle_second();
  CHECK(rig.view().built.load() == 3);
  CHECK(rig.files() == 4);
}

TEST_CASE("an index that cannot be written leaves nothing, and the one before it counts") {
  OneSegment rig;
  REQUIRE(rig.files() == 2);
  rig.client_reads_strips(kObject, {1, 5, 9}, 3);
  // The segment finds room, and the index does not.
  rig.partition.hold = true;
  rig.idle_second();
  rig.partition.finish(0);
  rig.partition.finish(0);
  rig.partition.broken_writes = Errc::kNoSpace;
  rig.partition.hold = false;
  rig.partition.finish_all();
  CHECK(rig.view().segments.load() == 2);
  CHECK(rig.files() == 3);
  for (int second = 0; second < 5; ++second) rig.idle_second();
  CHECK(rig.files() == 3);
  rig.restart();
  CHECK(rig.view().segments.load() == 1);
  CHECK(rig.files() == 2);
  rig.check_all();
}

TEST_CASE("what is being changed is not copied") {
  SegmentRig rig;
  REQUIRE(rig.write(kObject, 0, strips_of(16)).has_value());
  rig.client_reads_strips(kObject, kRow, 3);
  // It has been told to the store beneath, and was refused; it may be carried out later.
  rig.store.hold = true;
  std::vector<Buffer> data;
  data.push_back(rig.buffer("!"));
  rig.segments->write(kObject, 0, std::move(data), Stability::kUnstable,
                      [](const Result<WriteResult>&) {});
  rig.store.refuse_early(0);
  rig.store.hold = false;
  rig.idle_second();
  CHECK(rig.view().built.load() == 0);
  rig.store.carry_out_late();
  rig.client_reads(kObject, kStrip, 1);
  rig.idle_second();
  CHECK(rig.view().built.load() == 1);
  CHECK(rig.client_reads(kObject, 0).front() == '!');
}

TEST_CASE("a segment is of what is durable") {
  SegmentRig rig;
  const std::string old = strips_of(16);
  REQUIRE(rig.write(kObject, 0, old, Stability::kFileSync).has_value());
  REQUIRE(rig.write(kObject, 0, "unstable").has_value());
  rig.client_reads_strips(kObject, kRow, 3);
  rig.idle_second();
  REQUIRE(rig.view().built.load() == 1);
  rig.store.lose_unstable();
  rig.restart();
  CHECK(rig.client_reads(kObject, 0) == rig.store.files[kObject].now.substr(0, kStrip));
}

TEST_CASE("what the disk never got does not live on in a segment") {
  SegmentRig rig;
  REQUIRE(rig.write(kObject, 0, strips_of(16), Stability::kFileSync).has_value());
  REQUIRE(rig.write(kObject, 0, "unstable").has_value());
  rig.store.pages_lost = true;  // long ago, and everybody was told
  rig.client_reads_strips(kObject, kRow, 3);
  rig.idle_second();
  REQUIRE(rig.view().built.load() == 1);
  rig.store.lose_unstable();
  rig.restart();
  CHECK(rig.client_reads(kObject, 0) == rig.store.files[kObject].durable.substr(0, kStrip));
}

TEST_CASE("what was lost while it was copied does not live on in a segment") {
  SegmentRig rig;
  REQUIRE(rig.write(kObject, 0, strips_of(16), Stability::kFileSync).has_value());
  REQUIRE(rig.write(kObject, 0, "unstable").has_value());
  rig.client_reads_strips(kObject, kRow, 3);
  rig.store.hold = true;
  rig.idle_second();
  rig.store.finish(0);  // of its reads the first
  rig.store.lose_unstable();
  rig.store.finish_all();
  rig.store.hold = false;
  CHECK(rig.client_reads(kObject, 0) == rig.store.files[kObject].now.substr(0, kStrip));
  CHECK(rig.view().built.load() == 0);
}

TEST_CASE("where an object ends is asked for again once writes may have been lost") {
  OneSegment rig;
  REQUIRE(rig.commit(kObject).has_value());
  REQUIRE(rig.write(kObject, 20 * kStrip, "x").has_value());
  CHECK(rig.read(kObject, 0, 100)->object_end == 20 * kStrip + 1);
  rig.store.lose_unstable();
  CHECK(rig.read(kObject, 0, 100)->object_end == rig.bytes.size());
}

}  // namespace
}  // namespace weft::ds
