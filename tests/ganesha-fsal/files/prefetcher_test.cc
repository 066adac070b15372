// Which data servers are told of expected reads, and of which.
#include "ganesha-fsal/files/prefetcher.h"

#include <set>

#include "tests/ganesha-fsal/files/mirrors_fixture.h"

namespace weft::mds {
namespace {

struct Expectations final : DataServers {
  void fence(std::span<const std::uint32_t>, std::vector<control::Fence>, Done<void>) override {}
  void send(std::uint32_t ds_id, std::uint32_t verb, rpc::peer::Bytes arguments,
            Done<rpc::peer::Bytes> done) override {
    REQUIRE(verb == control::Prefetch::kVerb);
    auto request = control::decode<control::Prefetch>(arguments);
    REQUIRE(request);
    for (const control::Range& range : request->ranges) told.emplace_back(ds_id, range);
    if (slow && !request->ranges.empty()) return done(fail(Errc::kTimedOut, "slow"));
    if (!willing.contains(ds_id)) return done(fail(Errc::kNotSupported, "no"));
    done(rpc::peer::Bytes{});
  }
  std::set<std::uint32_t> willing;
  bool slow = false;  // nothing is answered in time, but for what is asked first
  std::vector<std::pair<std::uint32_t, control::Range>> told;
};

// File n has one byte at data server n % 2.
struct PrefetcherTest {
  std::vector<std::uint32_t> told(std::set<std::uint32_t> willing, bool up = true) {
    servers.willing = std::move(willing);
    Prefetcher prefetcher(
        {.after =
             [](FileId, std::string_view name, FileOrder, std::size_t) {
               const FileId file = std::stoull(std::string(name));
               return std::vector<NamedFile>{{std::to_string(file + 1), file + 1},
                                             {std::to_string(file + 2), file + 2}};
             },
         .reads = [](FileId file) -> Result<ExpectedReads> {
           return ExpectedReads{{static_cast<std::uint32_t>(file % 2), {{.fileid = file}, 0, 1}}};
         },
         .servers = servers});
    if (up) prefetcher.server_up(0);
    if (up) prefetcher.server_up(1);
    for (FileId file = 1; file < 20; ++file) prefetcher.opened(5, 9, std::to_string(file), file);
    prefetcher.stop();
    std::vector<std::uint32_t> ids;
    for (const auto& [ds_id, range] : servers.told) {
      CHECK(range.object.fileid % 2 == ds_id);
      ids.push_back(ds_id);
    }
    return ids;
  }
  Expectations servers;
};

}  // namespace

TEST_CASE_METHOD(PrefetcherTest, "data servers that read ahead are told what is expected") {
  const auto ids = told({0, 1});
  CHECK(std::ranges::count(ids, 0U) >= 8);
  CHECK(std::ranges::count(ids, 1U) >= 8);
}

TEST_CASE_METHOD(PrefetcherTest, "one that does not is asked once and told nothing") {
  const auto ids = told({1});
  CHECK(std::ranges::count(ids, 0U) == 0);
  CHECK(std::ranges::count(ids, 1U) >= 8);
}

TEST_CASE_METHOD(PrefetcherTest, "one that is slow for a while is told what comes later") {
  servers.slow = true;
  const auto ids = told({0, 1});
  CHECK(std::ranges::count(ids, 0U) >= 8);
  CHECK(std::ranges::count(ids, 1U) >= 8);
}

TEST_CASE_METHOD(PrefetcherTest, "before they are up nobody is told") {
  CHECK(told({0, 1}, false).empty());
}

TEST_CASE_METHOD(MirrorsTest, "what is expected is where a layout for reading would have it read") {
  const auto all = [&](std::uint64_t most) {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> out;  // server, offset
    const auto reads = reads_expected(files, *names, *mirrors, f, most);
    REQUIRE(reads);
    for (const auto& [ds_id, range] : *reads) out.emplace_back(ds_id, range.offset);
    return out;
  };
  CHECK(all(1 << 20).empty());  // it has no objects
  REQUIRE(names->ensure_layout(f, make()));
  CHECK(all(1 << 20).empty());  // it has no bytes
  const std::uint32_t unit = (*names->layout(f))->stripe_unit;
  REQUIRE(names->grow_size({f, 3 * unit + 1, {}}));
  const auto view = mirrors->look(f);
  REQUIRE(view);
  REQUIRE(layouts.grant(f, 5, Access::kRead));
  const auto servers = mirrors->servers_for(f, *view, Access::kRead, 58);
  REQUIRE(servers);
  const auto found = all(std::uint64_t{100} * unit);
  REQUIRE(found.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(found[i].second == i * unit);
    CHECK(found[i].first == servers->ds_ids[(i + servers->first_index) % servers->ds_ids.size()]);
  }
  CHECK(all(unit + 1).size() == 2);
}

}  // namespace weft::mds
