// Files whose clients write all copies themselves (flexfiles layout).
#include <catch2/catch_test_macros.hpp>

#include "tests/ganesha-fsal/files/mirrors_fixture.h"

namespace weft::mds {

namespace {

// A file whose clients write both copies themselves, at data servers 1 and 3.
class FlexFixture : public MirrorsTest {
 public:
  Result<Mirrors::Target> begin_flex() {
    return mirrors->begin_write(f, [](const InodeAttributes&) -> Result<layout::LayoutMap> {
      layout::LayoutMap made;
      made.type = layout::LayoutType::kFlexFiles;
      made.stripe_unit = 1 << 20;
      made.copies = {{CopyState::kCurrent, 0, {1}, {}}, {CopyState::kCurrent, 0, {3}, {}}};
      made.duplication = layout::Duplication::kClientSync;
      return made;
    });
  }
  // Whether it names all copies.
  bool grant_flex(ClientId client) {
    REQUIRE(begin_flex());
    REQUIRE(layouts.grant(f, client, Access::kReadWrite));
    return mirrors->may_name_all(f);
  }
  Result<Mirrors::Target> repair() {
    return mirrors->begin_write(f, no_layout, Mirrors::Use::kRepair);
  }
};

}  // namespace

TEST_CASE_METHOD(FlexFixture, "who comes while a copy is marked again goes by its new exclusion") {
  REQUIRE(begin_flex());
  fence_at_once = true;
  const auto left_out = [&] { return mirrors->exclude(f, 3, Mirrors::Cause::kNoAnswer); };
  if (!left_out()) REQUIRE(left_out());
  const auto begun = names->begin_resync(names->stale_objects(3, {}, 1)->front());
  REQUIRE((begun && *begun));
  REQUIRE(names->clear_stale((*begun)->object).value());

  fence_at_once = false;
  std::optional<Result<Mirrors::Target>> meanwhile;
  choosing = [&] {
    CHECK(state_of(3) == CopyState::kStale);
    meanwhile.emplace(begin_flex());
  };
  CHECK(left_out().error() == Errc::kBusy);
  REQUIRE(meanwhile.has_value());
  REQUIRE_FALSE(meanwhile->has_value());
  CHECK(meanwhile->error() == Errc::kBusy);
}

TEST_CASE_METHOD(FlexFixture, "a copy that clients write is left out before others go on without") {
  fence_at_once = true;
  reach[3] = Reach::kWait;
  CHECK(begin_flex().error() == Errc::kBusy);
  CHECK(state_of(3) == CopyState::kCurrent);
  reach[3] = Reach::kGone;
  CHECK(begin_flex().error() == Errc::kBusy);
  CHECK(state_of(3) == CopyState::kStale);
  CHECK(dirty(3) == kWhole);
  CHECK(begin_flex().error() == Errc::kBusy);  // the other copy is fenced
  const auto target = begin_flex();
  REQUIRE(target);
  CHECK(target->leads == Leads{0});
  check_clean();
}

TEST_CASE_METHOD(FlexFixture, "a client says that a copy missed what it wrote") {
  grant_flex(5);
  grant_flex(6);
  REQUIRE(layouts.grant(f, 7, Access::kRead));
  REQUIRE(mirrors->missed_by_client(f, 3));  // does not wait
  CHECK(state_of(3) == CopyState::kStale);
  CHECK(dirty(3) == kWhole);  // nobody knows what others wrote at one copy only
  REQUIRE(recalls.calls.size() == 3);
  for (const auto& call : recalls.calls) CHECK((call.only != Access::kRead || call.client == 7));
  REQUIRE(mirrors->missed_by_client(f, 3));
  CHECK(mirrors->missed_by_client(f, 1).error() == Errc::kLayoutTryLater);
  CHECK(state_of(1) == CopyState::kCurrent);

  CHECK(begin_flex().error() == Errc::kBusy);
  for (const ClientId client : {5, 6}) layouts.returned(f, client, Access::kReadWrite);
  CHECK(begin_flex().error() == Errc::kBusy);
  layouts.returned(f, 7, Access::kRead);
  for (std::size_t at = 0; at < fences.size(); ++at) {
    if (fences[at].ds_ids == std::vector<std::uint32_t>{1}) fences[at].done({});
  }
  const auto target = begin_flex();
  REQUIRE(target);
  CHECK(target->leads == Leads{0});
  check_clean();
}

TEST_CASE_METHOD(FlexFixture,
                 "who says again and again that a copy misses writes stops no repair") {
  fence_at_once = true;
  grant_flex(5);
  REQUIRE(mirrors->missed_by_client(f, 3));
  const auto stale = names->stale_objects(3, {}, 1)->front();
  auto begun = names->begin_resync(stale);
  REQUIRE((begun && *begun));
  SECTION("that makes all of it equal") {
    const std::uint32_t before = epoch();
    REQUIRE(mirrors->missed_by_client(f, 3));
    CHECK(state_of(3) == CopyState::kResyncing);
    CHECK(epoch() == before);
  }
  SECTION("but one of a part begins anew, with all") {
    REQUIRE(names->shrink_stale((*begun)->object, {{0, 4096}}).value());
    REQUIRE(mirrors->missed_by_client(f, 3));
    CHECK(state_of(3) == CopyState::kStale);
    CHECK(dirty(3) == kWhole);
    begun = names->begin_resync(stale);
    REQUIRE((begun && *begun));
    REQUIRE(mirrors->missed_by_client(f, 3));
  }
  CHECK(names->clear_stale((*begun)->object).value());
  CHECK(state_of(3) == CopyState::kCurrent);
}

TEST_CASE_METHOD(FlexFixture, "clients that write copies are not asked when a server crashed") {
  doubt = 3h;
  start();
  grant_flex(5);
  REQUIRE(mirrors->missed_by_client(f, 3));  // before its connection is lost for us
  CHECK(state_of(3) == CopyState::kStale);
  reach[3] = Reach::kWait;
  CHECK(begin_flex().error() == Errc::kBusy);
  reach[3] = Reach::kGone;
  dead.insert(3);
  fence_at_once = true;
  for (FenceCall& call : std::exchange(fences, {})) call.done({});
  const auto target = begin_flex();
  REQUIRE(target);
  CHECK(target->leads == Leads{0});
  CHECK(recalls.calls.empty());
  check_clean();
}

TEST_CASE_METHOD(FlexFixture, "layouts for writing that name a server that is gone are recalled") {
  grant_flex(5);
  reach[3] = Reach::kGone;
  mirrors->tick();
  CHECK(state_of(3) == CopyState::kStale);
  CHECK(dirty(3) == kWhole);
  REQUIRE(recalls.calls.size() == 1);
  CHECK(recalls.calls[0].only != Access::kRead);
}

TEST_CASE_METHOD(FlexFixture, "what the server itself writes past a copy that clients write") {
  grant_flex(5);
  CHECK(missed(1, 3).error() == Errc::kBusy);
  CHECK(dirty(3) == kWhole);
  REQUIRE(recalls.calls.size() == 1);
  CHECK(recalls.calls[0].only != Access::kRead);  // a layout for writing may be read with
  layouts.returned(f, 5, Access::kReadWrite);
  CHECK(missed(1, 3));
}

TEST_CASE_METHOD(FlexFixture, "copies are made equal when no client writes them itself") {
  CHECK(grant_flex(5));
  REQUIRE(layouts.grant(f, 6, Access::kRead));
  CHECK(repair().error() == Errc::kBusy);
  REQUIRE(recalls.calls.size() == 1);
  CHECK(recalls.calls[0].client == 5);
  CHECK(recalls.calls[0].only == Access::kReadWrite);
  CHECK(repair().error() == Errc::kBusy);
  CHECK(recalls.calls.size() == 1);
  layouts.returned(f, 5, Access::kReadWrite);
  {
    const auto pinned = repair();
    REQUIRE(pinned);
    CHECK_FALSE(grant_flex(5));
    CHECK(repair());  // another one
    CHECK(recalls.calls.size() == 1);
  }
  CHECK(repair());
  CHECK(recalls.calls.size() == 1);
  CHECK(grant_flex(7));
  CHECK(repair().error() == Errc::kBusy);
  CHECK(recalls.calls.size() == 3);  // nobody knows which is which
  for (const ClientId client : {5, 7}) layouts.returned(f, client, Access::kReadWrite);
  CHECK(repair());
  check_clean();
}

TEST_CASE_METHOD(FlexFixture, "a client that is asked to stop writing copies may be fenced first") {
  CHECK(grant_flex(5));
  CHECK(repair().error() == Errc::kBusy);
  layouts.revoke(f, 5, "late");
  CHECK(repair());
}

TEST_CASE_METHOD(FlexFixture, "while copies are to be compared no client writes them itself") {
  CHECK(grant_flex(5));
  journal->doubt(f);
  CHECK_FALSE(grant_flex(6));
  SECTION("until they have been") {
    journal->settled(*journal->unsettled(f));
    CHECK(grant_flex(6));
  }
  SECTION("and after a restart") {
    fence_at_once = true;
    restart();
    CHECK(journal->inherited(f));
    CHECK(begin_flex().error() == Errc::kBusy);  // writers of before are being fenced
    CHECK_FALSE(grant_flex(6));
    CHECK(repair());
    CHECK(recalls.calls.empty());
    journal->settled(*journal->unsettled(f));
    CHECK(grant_flex(7));
  }
}

TEST_CASE_METHOD(FlexFixture, "a commit through this server asks nobody to stop writing copies") {
  CHECK(grant_flex(5));
  const auto pinned = mirrors->begin_write(f, no_layout, Mirrors::Use::kPin);
  REQUIRE(pinned);
  CHECK(grant_flex(6));
  CHECK(recalls.calls.empty());
}

}  // namespace weft::mds
