#include "ganesha-fsal/meta/schema/records.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

#include "ganesha-fsal/meta/schema/value.h"

using namespace weft;
using namespace weft::mds;

namespace {

InodeRecord sample() {
  InodeRecord record;
  record.attributes = {.id = 17,
                       .type = FileType::kSymlink,
                       .mode = 0777,
                       .uid = 1000,
                       .gid = 100,
                       .nlink = 2,
                       .size = 4,
                       .atime_ns = -1,
                       .mtime_ns = 2,
                       .ctime_ns = 3,
                       .btime_ns = 4,
                       .change = 5,
                       .rdev = {8, 1}};
  record.next_cookie = 9;
  record.xattr_bytes = 10;
  record.verifier = CreateVerifier{std::byte{1}, std::byte{2}};
  record.target = "a/bc";
  return record;
}

}  // namespace

TEST_CASE("an inode's durable form comes back equal") {
  CHECK(rc::check([] {
    InodeRecord record;
    InodeAttributes& a = record.attributes;
    a.id = *rc::gen::nonZero<std::uint64_t>();
    a.type = static_cast<FileType>(*rc::gen::inRange(1, 8));
    a.mode = *rc::gen::inRange<std::uint32_t>(0, 010000);
    a.uid = *rc::gen::arbitrary<std::uint32_t>();
    a.gid = *rc::gen::arbitrary<std::uint32_t>();
    a.nlink = *rc::gen::arbitrary<std::uint32_t>();
    a.size = *rc::gen::arbitrary<std::uint64_t>() >> 1;
    a.atime_ns = *rc::gen::arbitrary<std::int64_t>();
    a.mtime_ns = *rc::gen::arbitrary<std::int64_t>();
    a.change = *rc::gen::arbitrary<std::uint64_t>();
    record.next_cookie = 3 + (*rc::gen::arbitrary<std::uint64_t>() >> 1);
    if (a.type == FileType::kSymlink) record.target = "t" + *rc::gen::arbitrary<std::string>();
    if (*rc::gen::arbitrary<bool>()) record.verifier.emplace();
    auto back = decode_inode(encode(record));
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == record);
  }));
}

TEST_CASE("every shortened or lengthened inode is refused") {
  const std::string good = encode(sample());
  REQUIRE(decode_inode(good));
  CHECK(*decode_inode(good) == sample());
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(decode_inode(std::string_view(good).substr(0, size)).error() == Errc::kCorrupt);
  }
  CHECK(decode_inode(good + std::string(4, '\0')).error() == Errc::kCorrupt);
}

TEST_CASE("a later version is not supported, an earlier one than the first is damage") {
  std::string value = encode(sample());
  value[3] = 2;
  CHECK(decode_inode(value).error() == Errc::kNotSupported);
  value[3] = 0;
  CHECK(decode_inode(value).error() == Errc::kCorrupt);
  std::string super = encode(SuperblockInfo{.format = kRestoredFormat + 1});
  CHECK(decode_superblock(super).error() == Errc::kNotSupported);
}

TEST_CASE("records of a restore come back equal, and are nothing else") {
  const RestoreRecord restore{5, 6, 7, 8, 9, 10};
  CHECK(*decode_restore(encode(restore)) == restore);
  CHECK(decode_restore(encode(RestoreRecord{})).error() == Errc::kCorrupt);
  CHECK(decode_restore(encode(RestoreRecord{1, 0, 0, 0, 3, 2})).error() == Errc::kCorrupt);
  CHECK(decode_restore(encode(RestoreRecord{1U << 31})).error() == Errc::kCorrupt);
  using State = RestoredRecord::State;
  const RestoredRecord damaged{State::kDamaged, 1, 2};
  CHECK(*decode_restored(encode(damaged)) == damaged);
  CHECK(*decode_restored(encode(RestoredRecord{})) == RestoredRecord{});
  for (const RestoredRecord wrong :
       {RestoredRecord{State::kDamaged, 0, 0}, RestoredRecord{State::kUnchecked, 1, 0},
        RestoredRecord{static_cast<State>(3), 1, 0}}) {
    CHECK(decode_restored(encode(wrong)).error() == Errc::kCorrupt);
  }
}

TEST_CASE("the other records come back equal") {
  const EntryRecord entry{4, 17, FileType::kFifo};
  CHECK(*decode_entry(encode(entry)) == entry);
  const CookieRecord cookie{17, FileType::kDirectory, "name"};
  CHECK(*decode_cookie(encode(cookie)) == cookie);
  const ParentRecord parent{1, "name"};
  CHECK(*decode_parent(encode(parent)) == parent);
  const TruncateRecord truncate{4096, 5};
  CHECK(*decode_truncate(encode(truncate)) == truncate);
  const RemovalRecord removal{{1, 5, 9}};
  CHECK(*decode_removal(encode(removal)) == removal);
  const RemovalRecord fenced{{1, 5, 9}, 7};
  CHECK(*decode_removal(encode(fenced)) == fenced);
  // What knows of no fence is as it was before there were any.
  CHECK(encode(fenced).starts_with(encode(removal)));
  CHECK(*decode_counter(encode_counter(UINT64_MAX)) == UINT64_MAX);
}

TEST_CASE("values that no encoder makes are refused") {
  CHECK(decode_entry(encode(EntryRecord{2, 17, FileType::kFifo})).error() == Errc::kCorrupt);
  CHECK(decode_entry(encode(EntryRecord{3, 0, FileType::kFifo})).error() == Errc::kCorrupt);
  CHECK(decode_removal(encode(RemovalRecord{{5, 1}})).error() == Errc::kCorrupt);
  CHECK(decode_removal(encode(RemovalRecord{{5, 5}})).error() == Errc::kCorrupt);
  CHECK(decode_parent(encode(ParentRecord{1, ".."})).error() == Errc::kCorrupt);
  CHECK(decode_cookie(encode(CookieRecord{1, FileType::kFifo, "a/b"})).error() == Errc::kCorrupt);
  InodeRecord record = sample();
  record.target.clear();
  CHECK(decode_inode(encode(record)).error() == Errc::kCorrupt);
  record = sample();
  record.attributes.mode = 010000;
  CHECK(decode_inode(encode(record)).error() == Errc::kCorrupt);
}

TEST_CASE("a policy is kept in the one way it is written") {
  const layout::Policy policy = layout::parse_policy("copies=2 unit=64K").value();
  CHECK(decode_policy(encode(policy)).value() == policy);
  const auto of_text = [](std::string_view text) {
    xdr::Encoder out = value::begin(64);
    out.string(text);
    return decode_policy(value::finish(out));
  };
  CHECK(of_text("unit=64KiB copies=2").value() == policy);
  for (const char* bad : {"", "copies=2 unit=64KiB", "unit=65536 copies=2", "copies=9", "x=1"}) {
    CHECK(of_text(bad).error() == Errc::kCorrupt);
  }
}

TEST_CASE("what an entry may be named") {
  CHECK(is_entry_name("a"));
  CHECK(is_entry_name("..."));
  CHECK(is_entry_name(std::string(255, 'x')));
  CHECK(is_entry_name("\xff\xfe\n"));
  CHECK_FALSE(is_entry_name(""));
  CHECK_FALSE(is_entry_name("."));
  CHECK_FALSE(is_entry_name(".."));
  CHECK_FALSE(is_entry_name("a/b"));
  CHECK_FALSE(is_entry_name(std::string_view("a\0b", 3)));
  CHECK_FALSE(is_entry_name(std::string(256, 'x')));
}
