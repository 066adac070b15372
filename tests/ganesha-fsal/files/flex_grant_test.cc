// Which copies a flexfiles layout names, in which order, and with which handles.
#include "ganesha-fsal/files/flex_grant.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>

#include "rpc/peer/keys.h"

using namespace weft;
using namespace weft::mds;
using layout::CopyState;

namespace {

struct Rig {
  Rig() {
    map.type = layout::LayoutType::kFlexFiles;
    map.stripe_unit = 1 << 20;
    map.object_epoch = 3;
    map.duplication = layout::Duplication::kClientSync;
    map.reads = layout::ReadPolicy::kAllCopies;
    map.copies = {{.ds_ids = {1}}, {.ds_ids = {2}}};
    grant.file = 77;
    grant.client = 5;
    grant.object = map.object(1, 77);
    grant.client_epoch = 9;
    servers.here = [this](std::uint32_t ds_id) { return spares.contains(ds_id); };
    servers.spare = [this](std::uint32_t ds_id) { return spares[ds_id]; };
    servers.device = [](std::uint32_t ds_id) -> Result<layout::DeviceIdBytes> {
      return layout::pack({10, 1, 2, ds_id});
    };
  }
  layout::FlexLayout made() const {
    auto result = flex_layout(map, leads, grant, servers);
    REQUIRE(result);
    xdr::Encoder out;
    REQUIRE(encode(out, *result, false));
    return *result;
  }
  static std::vector<std::uint32_t> named(const layout::FlexLayout& from) {
    std::vector<std::uint32_t> ids;
    for (const auto& mirror : from.mirrors) {
      ids.push_back(static_cast<std::uint32_t>(layout::unpack(mirror.front().device)->number));
    }
    return ids;
  }
  // The data server a client reads first.
  std::uint32_t preferred() const {
    const auto from = made();
    const auto best = std::ranges::max_element(
        from.mirrors, {}, [](const auto& mirror) { return mirror.front().efficiency; });
    return named(from)[static_cast<std::size_t>(best - from.mirrors.begin())];
  }

  layout::LayoutMap map;
  std::vector<std::uint8_t> leads = {0};
  FlexGrant grant;
  FlexServers servers;
  std::map<std::uint32_t, double> spares{{1, 1}, {2, 1}};  // of the servers that are here
};

}  // namespace

TEST_CASE("a flexfiles layout names every current copy, with a handle of its own") {
  Rig rig;
  rig.grant.access = layout::Access::kReadWrite;
  const layout::FlexLayout layout = rig.made();
  CHECK(Rig::named(layout) == std::vector<std::uint32_t>{1, 2});
  CHECK(layout.flags == 0);
  for (std::uint32_t ds_id = 1; ds_id <= 2; ++ds_id) {
    const layout::FlexServer& server = layout.mirrors[ds_id - 1].front();
    const auto handle = layout::unseal(server.handle, rig.grant.key, rpc::peer::kHandleKeyId);
    REQUIRE(handle);
    CHECK(handle->ds_id == ds_id);
    CHECK(handle->object == rig.grant.object);
    CHECK(handle->access == layout::Access::kReadWrite);
    CHECK(handle->client_id == 5);
    CHECK(handle->object_epoch == 3);
    CHECK(handle->client_epoch == 9);
    CHECK(handle->duplication == layout::Duplication::kNone);
    CHECK(server.stateid == layout::WireStateid{});
  }
}

TEST_CASE("a copy that is not current, or whose server is away, is not read") {
  Rig rig;
  for (const auto state : {CopyState::kStale, CopyState::kResyncing}) {
    rig.map.copies[1].set_state(0, state);
    CHECK(Rig::named(rig.made()) == std::vector<std::uint32_t>{1});
  }
  rig.spares.erase(1);
  CHECK(flex_layout(rig.map, rig.leads, rig.grant, rig.servers).error() == Errc::kLayoutTryLater);
  rig.map.copies[1].set_state(0, CopyState::kCurrent);
  CHECK(Rig::named(rig.made()) == std::vector<std::uint32_t>{2});
}

TEST_CASE("no copy that is current is left out of a layout for writing") {
  Rig rig;
  rig.grant.access = layout::Access::kReadWrite;
  rig.spares.erase(2);
  CHECK(flex_layout(rig.map, rig.leads, rig.grant, rig.servers).error() == Errc::kBusy);
}

TEST_CASE("while a copy is not current, the leader brings it what is written") {
  Rig rig;
  rig.grant.access = layout::Access::kReadWrite;
  for (const auto state : {CopyState::kStale, CopyState::kResyncing}) {
    rig.map.copies[0].set_state(0, state);
    rig.leads = {1};
    const layout::FlexLayout layout = rig.made();
    CHECK(Rig::named(layout) == std::vector<std::uint32_t>{2});
    const auto handle = layout::unseal(layout.mirrors.front().front().handle, rig.grant.key,
                                       rpc::peer::kHandleKeyId);
    REQUIRE(handle);
    CHECK(handle->ds_id == 2);
    CHECK(handle->duplication == layout::Duplication::kServerSync);
    CHECK(handle->partners == std::array<std::uint32_t, 2>{1, 0});
    CHECK(handle->object_epoch == 3);
    CHECK(handle->client_id == 5);
  }
  rig.leads.clear();
  CHECK(flex_layout(rig.map, rig.leads, rig.grant, rig.servers).error() == Errc::kBusy);
}

TEST_CASE("while current copies are made equal, the leader brings what is written, too") {
  Rig rig;
  rig.grant.access = layout::Access::kReadWrite;
  rig.grant.led = true;
  rig.leads = {1};
  const layout::FlexLayout layout = rig.made();
  CHECK(Rig::named(layout) == std::vector<std::uint32_t>{2});
  const auto handle =
      layout::unseal(layout.mirrors.front().front().handle, rig.grant.key, rpc::peer::kHandleKeyId);
  REQUIRE(handle);
  CHECK(handle->duplication == layout::Duplication::kServerSync);
  CHECK(handle->partners == std::array<std::uint32_t, 2>{1, 0});
  rig.spares.erase(2);
  CHECK(flex_layout(rig.map, rig.leads, rig.grant, rig.servers).error() == Errc::kBusy);
}

TEST_CASE("readers of copies that are alike spread over them, unless one is to be read") {
  Rig rig;
  std::map<std::uint32_t, int> first;
  for (std::uint64_t client = 1; client <= 100; ++client) {
    rig.grant.client = 0x100000000 * client;  // as the protocol's server counts them up
    ++first[rig.preferred()];
  }
  CHECK(first[1] > 25);
  CHECK(first[2] > 25);
  rig.map.reads = layout::ReadPolicy::kOneCopy;
  std::set<std::uint32_t> one;
  for (std::uint64_t client = 1; client <= 20; ++client) {
    rig.grant.client = client;
    one.insert(rig.preferred());
  }
  CHECK(one.size() == 1);
}

TEST_CASE("a loaded copy is read last by everybody") {
  Rig rig;
  rig.spares[1] = 0.125;
  for (std::uint64_t client = 1; client <= 20; ++client) {
    rig.grant.client = client;
    CHECK(rig.preferred() == 2);
  }
}

TEST_CASE("mirrors of several data servers are not handed out") {
  Rig rig;
  rig.map.copies = {{.ds_ids = {1, 2}}};
  CHECK(flex_layout(rig.map, rig.leads, rig.grant, rig.servers).error() ==
        Errc::kLayoutUnavailable);
}
