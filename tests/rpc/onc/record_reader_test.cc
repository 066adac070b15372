#include "rpc/onc/record_reader.h"

#include <fcntl.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>

#include "rpc/onc/rpc_header.h"

using namespace weft;
using namespace weft::rpc;

namespace {

using Bytes = std::vector<std::byte>;

void append_fragment(Bytes& out, std::span<const std::byte> bytes, bool last) {
  auto mark = record_mark(bytes.size());
  if (!last) mark[0] &= std::byte{0x7f};
  out.insert(out.end(), mark.begin(), mark.end());
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Feeds `bytes` in portions of at most `portion`, collecting records.
Result<std::vector<Buffer>> feed(RecordReader& reader, std::span<const std::byte> bytes,
                                 std::size_t portion = SIZE_MAX) {
  std::vector<Buffer> out;
  for (;;) {
    for (;;) {
      auto record = reader.next();
      if (!record) return pass(record);
      if (!*record) break;
      out.push_back(std::move(**record));
    }
    if (bytes.empty()) return out;
    const auto targets = reader.targets();
    std::size_t got = 0;
    for (std::size_t i = 0; i < targets.count; ++i) {
      const std::size_t part =
          std::min({targets.parts[i].iov_len, bytes.size() - got, portion - got});
      std::memcpy(targets.parts[i].iov_base, bytes.data() + got, part);
      got += part;
    }
    reader.received(got);
    bytes = bytes.subspan(got);
  }
}

Bytes pattern(std::size_t size, unsigned seed) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 7 + seed);
  return out;
}

bool equal(const Buffer& buffer, const Bytes& bytes) {
  return std::equal(buffer.span().begin(), buffer.span().end(), bytes.begin(), bytes.end());
}

}  // namespace

TEST_CASE("records come out whole, however they are cut into fragments and portions") {
  REQUIRE(rc::check([] {
    BufferPool pool(std::size_t{64} << 20);
    RecordReader reader(pool, {.max_record_bytes = 200'000, .max_fragments = 8});
    std::vector<Bytes> sent;
    Bytes wire;
    const int records = *rc::gen::inRange(1, 6);
    for (int i = 0; i < records; ++i) {
      Bytes record;
      const int fragments = *rc::gen::inRange(1, 5);
      for (int f = 0; f < fragments; ++f) {
        const auto part = pattern(*rc::gen::element<std::size_t>(0, 3, 100, 511, 600, 9000, 40000),
                                  static_cast<unsigned>(i + f));
        append_fragment(wire, part, f + 1 == fragments);
        record.insert(record.end(), part.begin(), part.end());
      }
      sent.push_back(std::move(record));
    }
    const auto portion = *rc::gen::element<std::size_t>(1, 5, 1000, 8192, 100'000);
    auto got = feed(reader, wire, portion);
    RC_ASSERT(got.has_value());
    RC_ASSERT(got->size() == sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) RC_ASSERT(equal((*got)[i], sent[i]));
    RC_ASSERT(!reader.partial());
  }));
}

TEST_CASE("a mark of 4 GiB is refused before any memory is taken for it") {
  BufferPool pool(std::size_t{1} << 20);
  RecordReader reader(pool, {});
  const Bytes mark(4, std::byte{0xff});
  CHECK(feed(reader, mark).error() == Errc::kTooLarge);
  CHECK(pool.in_use_bytes() == 0);
}

TEST_CASE("a large record takes memory only once its head is here") {
  BufferPool pool(std::size_t{4} << 20);
  RecordReader reader(pool, {});
  Bytes wire;
  append_fragment(wire, pattern(1 << 20, 1), true);
  REQUIRE(feed(reader, std::span(wire).first(500)));
  CHECK(pool.in_use_bytes() == 0);
  CHECK(reader.partial());
  auto got = feed(reader, std::span(wire).subspan(500));
  REQUIRE(got);
  CHECK(got->size() == 1);
}

TEST_CASE("fragments beyond their limits are refused, empty ones too") {
  BufferPool pool(std::size_t{4} << 20);
  {
    RecordReader reader(pool, {.max_record_bytes = 1000, .max_fragments = 8});
    Bytes wire;
    for (int i = 0; i < 9; ++i) append_fragment(wire, {}, false);
    CHECK(feed(reader, wire).error() == Errc::kProtocol);
  }
  {
    RecordReader reader(pool, {.max_record_bytes = 1000, .max_fragments = 8});
    Bytes wire;
    append_fragment(wire, pattern(600, 0), false);
    append_fragment(wire, pattern(600, 0), true);
    CHECK(feed(reader, wire).error() == Errc::kTooLarge);
  }
}

TEST_CASE("an exhausted pool loses nothing: the record comes when memory is back") {
  BufferPool pool(std::size_t{1} << 20);
  auto hog = pool.allocate(std::size_t{1} << 20);  // a block of 1 MiB and 16 KiB does not fit
  if (!hog) hog = pool.allocate(900'000);
  std::vector<Buffer> rest;
  for (;;) {
    auto small = pool.allocate(1);
    if (!small) break;
    rest.push_back(std::move(*small));
  }
  RecordReader reader(pool, {});
  Bytes wire;
  const Bytes record = pattern(3000, 9);
  append_fragment(wire, record, true);
  CHECK(feed(reader, wire).error() == Errc::kBusy);
  rest.clear();
  auto got = reader.next();
  REQUIRE(got);
  REQUIRE(*got);
  CHECK(equal(**got, record));
}

TEST_CASE("bulk data that can be located begins on a page boundary") {
  BufferPool pool(std::size_t{4} << 20);
  const auto at_300 = [](std::span<const std::byte>) -> std::size_t { return 300; };
  RecordReader reader(pool, {}, at_300);
  Bytes wire;
  const Bytes record = pattern(300 + 65536, 3);
  append_fragment(wire, record, true);
  auto got = feed(reader, wire, 4096);
  REQUIRE(got);
  REQUIRE(got->size() == 1);
  CHECK(equal(got->front(), record));
  CHECK(reinterpret_cast<std::uintptr_t>(got->front().data() + 300) % 4096 == 0);
}

namespace {

// As nfs4::locate_payload does: the bulk data's position is the record's second word.
std::size_t second_word(std::span<const std::byte> head) {
  return head.size() < 8 ? 0 : std::to_integer<std::size_t>(head[7]);
}

// Head of 12 bytes that ends with the length, and `size` bytes.
Bytes bulk(std::size_t size, unsigned seed) {
  Bytes out = pattern(12 + size, seed);
  const auto length = record_mark(size);
  std::copy(length.begin(), length.end(), out.begin() + 8);
  out[8] &= std::byte{0x7f};
  out[7] = std::byte{12};
  return out;
}

struct PipingReader {
  explicit PipingReader(std::size_t memory = std::size_t{8} << 20)
      : pool(memory), reader(pool, {1 << 20, 8, 16 << 10}, second_word) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
    REQUIRE(::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) > 0);
    out = OwnedFd(ends[0]);
    in = OwnedFd(ends[1]);
  }
  // The stream's next bytes: staged ones by copying, piped ones by way of a pipe, `most` at a time.
  void feed(std::span<const std::byte>& bytes, std::size_t most) {
    if (reader.piping()) {
      const std::size_t part = std::min({bytes.size(), most, reader.body_left()});
      REQUIRE(::write(in.get(), bytes.data(), part) == static_cast<ssize_t>(part));
      REQUIRE(reader.receive_piped(out.get()) == static_cast<long>(part));
      bytes = bytes.subspan(part);
      return;
    }
    const auto targets = reader.targets();
    const std::size_t part = std::min({bytes.size(), most, targets.parts[0].iov_len});
    std::memcpy(targets.parts[0].iov_base, bytes.data(), part);
    reader.received(part);
    bytes = bytes.subspan(part);
  }
  // The whole record, and how much of it was piped.
  std::pair<Bytes, std::size_t> record(std::span<const std::byte>& bytes, std::size_t most = 5000) {
    for (;;) {
      auto record = reader.next();
      REQUIRE(record);
      if (!*record) {
        REQUIRE(!bytes.empty());
        feed(bytes, most);
        continue;
      }
      Bytes whole((*record)->span().begin(), (*record)->span().end());
      auto piped = reader.take_piped();
      const std::size_t size = piped.size();
      const Buffer rest = piped.to_buffer().value();
      whole.insert(whole.end(), rest.span().begin(), rest.span().end());
      return {whole, size};
    }
  }
  BufferPool pool;
  RecordReader reader;
  OwnedFd out;
  OwnedFd in;
};

Bytes stream(const std::vector<Bytes>& records) {
  Bytes out;
  for (const Bytes& one : records) append_fragment(out, one, true);
  return out;
}

}  // namespace

TEST_CASE("bulk data goes to a pipe when it is large, whole words, and the record's end") {
  std::vector<Bytes> records = {bulk(50'000, 1), bulk(16 << 10, 2), bulk((16 << 10) - 4, 3),
                                bulk(50'001, 4), bulk(50'000, 5),   bulk(20'000, 6)};
  records[4].resize(records[4].size() + 4);  // something follows
  const std::vector<std::size_t> piped = {50'000, 16 << 10, 0, 0, 0, 20'000};
  for (const std::size_t most : {512UL, 5000UL, 1UL << 20}) {
    PipingReader rig;
    const Bytes wire = stream(records);
    std::span<const std::byte> bytes(wire);
    for (std::size_t i = 0; i < records.size(); ++i) {
      const auto [whole, size] = rig.record(bytes, most);
      CHECK(whole == records[i]);
      CHECK(size == piped[i]);
    }
    CHECK(bytes.empty());
    CHECK(!rig.reader.partial());
    CHECK(rig.pool.in_use_bytes() == 0);
  }
}

TEST_CASE("a record that outgrows its pipe goes on in memory, and so do later ones") {
  PipingReader rig(std::size_t{2} << 20);
  const std::vector<Bytes> records = {bulk(50'000, 1), bulk(50'000, 2)};
  const Bytes wire = stream(records);
  std::span<const std::byte> bytes(wire);
  while (!rig.reader.piping()) {
    REQUIRE(rig.reader.next());
    if (!rig.reader.piping()) rig.feed(bytes, 5000);
  }
  rig.feed(bytes, 5000);
  rig.reader.pipe_full();
  {
    // No memory now: nothing is lost, and it is tried again.
    std::vector<Buffer> hog;
    while (auto block = rig.pool.allocate(60'000)) hog.push_back(std::move(*block));
    CHECK(rig.reader.next().error() == Errc::kBusy);
    CHECK(rig.reader.partial());
  }
  for (const Bytes& expected : records) {
    const auto [whole, size] = rig.record(bytes);
    CHECK(whole == expected);
    CHECK(size == 0);
  }
  CHECK(rig.pool.in_use_bytes() == 0);
}

TEST_CASE("a stranger's record takes memory when it is whole, and is small") {
  BufferPool pool(std::size_t{4} << 20);
  RecordReader reader(pool, {.standing = Standing::kStranger});
  Bytes wire;
  append_fragment(wire, pattern(4096, 1), true);
  REQUIRE(feed(reader, std::span(wire).first(4000)));
  CHECK(pool.in_use_bytes() == 0);
  auto got = feed(reader, std::span(wire).subspan(4000));
  REQUIRE(got);
  REQUIRE(got->size() == 1);
  CHECK(equal(got->front(), pattern(4096, 1)));
  CHECK_FALSE(reader.take_skipped());

  Bytes large;
  append_fragment(large, pattern(4097, 1), true);
  CHECK(feed(reader, large).error() == Errc::kTooLarge);
}

TEST_CASE("small fragments do not make a large record of a stranger's") {
  BufferPool pool(std::size_t{4} << 20);
  RecordReader reader(
      pool, {.standing = Standing::kStranger, .look = [](auto, auto) { return Glance::kTake; }});
  Bytes wire;
  append_fragment(wire, pattern(4000, 1), false);
  append_fragment(wire, pattern(90, 1), false);
  append_fragment(wire, pattern(4000, 1), true);
  CHECK(feed(reader, wire).error() == Errc::kTooLarge);
}

TEST_CASE("a stranger's large record is what its head shows") {
  BufferPool pool(std::size_t{16} << 20);
  Glance glance = Glance::kTake;
  std::size_t looked = 0;
  RecordReader reader(pool, {.standing = Standing::kStranger,
                             .look = [&](std::span<const std::byte> head, Standing) {
                               looked = head.size();
                               return glance;
                             }});
  const Bytes large = pattern(300'000, 3);
  Bytes wire;
  append_fragment(wire, large, true);
  const Bytes small = pattern(100, 5);
  append_fragment(wire, small, true);

  SECTION("a client's") {
    auto got = feed(reader, wire, 5000);
    REQUIRE(got);
    REQUIRE(got->size() == 2);
    CHECK(equal(got->front(), large));
  }
  SECTION("a server's, which finds memory that clients may not fill") {
    std::vector<Buffer> most;
    while (has_room(pool, PoolShare::kClients, 0)) {
      most.push_back(pool.allocate(std::size_t{128} << 10).value());
    }
    CHECK(feed(reader, wire, 5000).error() == Errc::kBusy);
    RecordReader again(pool, {.standing = Standing::kStranger,
                              .look = [&](std::span<const std::byte> head, Standing) {
                                looked = head.size();
                                return Glance::kTakeOfServer;
                              }});
    auto got = feed(again, wire, 5000);
    REQUIRE(got);
    REQUIRE(got->size() == 2);
    CHECK(equal(got->front(), large));
  }
  SECTION("not worth memory: thrown away but for its head, and what follows is whole") {
    glance = Glance::kSkip;
    const std::size_t portion = GENERATE(1, 7, 5000, 100'000'000);
    auto first = feed(reader, std::span(wire).first(large.size()), portion);
    REQUIRE(first);
    CHECK(first->empty());
    CHECK(pool.in_use_bytes() <= 4096);
    auto got = feed(reader, std::span(wire).subspan(large.size(), 4), portion);
    REQUIRE(got);
    REQUIRE(got->size() == 1);
    CHECK(reader.take_skipped());
    CHECK_FALSE(reader.take_skipped());
    CHECK(equal(got->front(), Bytes(large.begin(), large.begin() + RecordReader::kHead)));
    got = feed(reader, std::span(wire).subspan(large.size() + 4), portion);
    REQUIRE(got);
    REQUIRE(got->size() == 1);
    CHECK(equal(got->front(), small));
    CHECK_FALSE(reader.take_skipped());
  }
  SECTION("nobody's") {
    glance = Glance::kRefuse;
    CHECK(feed(reader, wire).error() == Errc::kTooLarge);
  }
  CHECK(looked == RecordReader::kHead);
}

TEST_CASE("a client's large record is looked at, too, a small one and a server's are not") {
  BufferPool pool(std::size_t{4} << 20);
  Glance glance = Glance::kTake;
  std::vector<Standing> looked;
  RecordReader reader(pool, {.look = [&](std::span<const std::byte>, Standing of) {
                        looked.push_back(of);
                        return glance;
                      }});
  reader.set_standing(Standing::kClient);
  const Bytes large = pattern(300'000, 3);
  Bytes wire;
  append_fragment(wire, large, true);
  const auto bytes_got = [&] {
    auto got = feed(reader, wire, 5000);
    REQUIRE(got);
    REQUIRE(got->size() == 1);
    return got->front().size();
  };
  CHECK(bytes_got() == large.size());
  glance = Glance::kRefuse;  // for strangers
  CHECK(bytes_got() == large.size());
  glance = Glance::kSkip;
  CHECK(bytes_got() == RecordReader::kHead);
  CHECK(reader.take_skipped());
  CHECK(looked == std::vector(3, Standing::kClient));

  reader.set_standing(Standing::kServer);
  CHECK(bytes_got() == large.size());
  reader.set_standing(Standing::kClient);
  wire.clear();
  append_fragment(wire, pattern(4096, 3), true);
  CHECK(bytes_got() == 4096);
  CHECK(looked.size() == 3);
}

TEST_CASE("memory that clients may not fill is left for servers") {
  BufferPool pool(std::size_t{8} << 20);
  Bytes wire;
  append_fragment(wire, pattern(900'000, 1), true);
  const auto fill = [&](Standing standing, std::vector<std::unique_ptr<RecordReader>>& readers) {
    for (;;) {
      readers.push_back(
          std::make_unique<RecordReader>(pool, RecordReader::Limits{.standing = standing}));
      auto part = feed(*readers.back(), std::span(wire).first(5000));
      if (!part) {
        CHECK(part.error() == Errc::kBusy);
        return;
      }
    }
  };
  std::vector<std::unique_ptr<RecordReader>> clients;
  fill(Standing::kClient, clients);
  CHECK(pool.in_use_bytes() > std::size_t{4} << 20);
  CHECK(pool.in_use_bytes() <= (std::size_t{6} << 20) + (std::size_t{256} << 10));  // whole blocks
  // A stranger still gets a session, and servers what they need.
  RecordReader stranger(pool, {.standing = Standing::kStranger});
  Bytes hello;
  append_fragment(hello, pattern(200, 1), true);
  auto greeted = feed(stranger, hello);
  REQUIRE(greeted);
  CHECK(greeted->size() == 1);
  RecordReader server(pool, {});
  auto answer = feed(server, wire);
  REQUIRE(answer);
  CHECK(answer->size() == 1);
}

TEST_CASE("one host does not hold all that is left when memory is short") {
  BufferPool pool(std::size_t{64} << 20);
  auto hog = pool.allocate(std::size_t{33} << 20);  // more than half
  REQUIRE(hog);
  Bytes wire;
  append_fragment(wire, pattern(900'000, 1), true);
  const auto host = std::make_shared<HostShare>();
  const RecordReader::Limits client{.standing = Standing::kClient};
  std::vector<std::unique_ptr<RecordReader>> readers;
  int refused = 0;
  for (int i = 0; i < 10; ++i) {
    readers.push_back(std::make_unique<RecordReader>(pool, client, nullptr, host));
    if (!feed(*readers.back(), std::span(wire).first(5000))) ++refused;
  }
  CHECK(refused == 8);
  const auto other = std::make_shared<HostShare>();
  RecordReader honest(pool, client, nullptr, other);
  auto got = feed(honest, wire);
  REQUIRE(got);
  CHECK(got->size() == 1);
  CHECK(other->bytes == 0);
  // One that is whole, or given up, counts no more.
  auto rest = feed(*readers.front(), std::span(wire).subspan(5000));
  REQUIRE(rest);
  CHECK(rest->size() == 1);
  readers.clear();
  CHECK(host->bytes == 0);
}
