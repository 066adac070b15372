// What holds at a directory or file of an export, and who said so.
#include "ganesha-fsal/files/policies.h"

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;
using From = PolicyKey::From;

namespace {

class PoliciesTest : public NamespaceTest {
 public:
  PoliciesTest() {
    options.stripe_unit = 64u << 10;
    options.reserve_bytes = 12'345;
    d = dir(kRootFileId, "d");
    sub = dir(d, "sub");
  }
  std::vector<PolicyKey> keys(FileId id) {
    auto found = policy_keys(*names, attributes(id), options);
    REQUIRE(found);
    return *found;
  }
  std::string text(FileId id) { return policy_text(*names, attributes(id), options).value(); }

  layout::PlacementPolicy options;
  FileId d = 0;
  FileId sub = 0;
};

}  // namespace

TEST_CASE_METHOD(PoliciesTest, "where nothing was set the export's options hold") {
  CHECK(text(sub) ==
        "stripes=all unit=64KiB copies=1 duplication=server-sync reads=all inline=0 skip=new "
        "first=turn");
  for (const PolicyKey& key : keys(sub)) CHECK(key.from == From::kExport);
  const auto placement = placement_for(*names, file(sub, "f"), options);
  REQUIRE(placement);
  CHECK(placement->stripe_unit == options.stripe_unit);
  CHECK(placement->reserve_bytes == 12'345);
}

TEST_CASE_METHOD(PoliciesTest, "each key says which directory it is from") {
  REQUIRE(set_policy(*names, d, "copies=2 stripes=4", options));
  REQUIRE(set_policy(*names, sub, "stripes=1", options));
  CHECK(keys(sub) == std::vector<PolicyKey>{{"stripes", "1", From::kDirectory, sub},
                                            {"unit", "64KiB", From::kExport, 0},
                                            {"copies", "2", From::kDirectory, d},
                                            {"duplication", "server-sync", From::kExport, 0},
                                            {"reads", "all", From::kExport, 0},
                                            {"inline", "0", From::kExport, 0},
                                            {"skip", "new", From::kExport, 0},
                                            {"first", "turn", From::kExport, 0}});
}

TEST_CASE_METHOD(PoliciesTest, "a file tells what it will get, and then what it has") {
  REQUIRE(set_policy(*names, d, "copies=2 stripes=4", options));
  const FileId f = file(sub, "f");
  REQUIRE(set_policy(*names, d, "copies=3", options));  // too late for it
  CHECK(text(f) ==
        "stripes=4 unit=64KiB copies=2 duplication=server-sync reads=all inline=0 skip=new "
        "first=turn");
  CHECK(keys(f).front().from == From::kMadeWith);
  const auto placement = placement_for(*names, f, options);
  REQUIRE(placement);
  CHECK(placement->copies == 2);
  CHECK(placement->stripe_count == 4);
  CHECK(placement->stripe_unit == options.stripe_unit);
  CHECK(placement->reserve_bytes == 12'345);

  layout_of(f, {1, 2}, {3, 4});
  CHECK(text(f) == "stripes=2 unit=1MiB copies=2 reads=one");
  CHECK(keys(f).front().from == From::kLayout);
}

TEST_CASE_METHOD(PoliciesTest,
                 "what an export cannot do is refused, and left out where it was set") {
  const auto refused = set_policy(*names, d, "duplication=client-sync", options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error() == Errc::kInvalid);
  CHECK(refused.error().text.find("duplication=client-sync") != std::string::npos);
  const auto misspelt = set_policy(*names, d, "copys=2", options);
  REQUIRE_FALSE(misspelt);
  CHECK(misspelt.error().text.find("\"copies\"") != std::string::npos);

  layout::PlacementPolicy flex = options;
  flex.type = layout::LayoutType::kFlexFiles;
  flex.stripe_count = 1;
  flex.duplication = layout::Duplication::kClientSync;
  const FileId striped = dir(d, "striped");
  REQUIRE(set_policy(*names, striped, "stripes=4", options));
  CHECK(placement_for(*names, file(striped, "f"), flex)->stripe_count == 1);
  CHECK(set_policy(*names, d, "duplication=client-async copies=2", flex).error() == Errc::kInvalid);
  REQUIRE(set_policy(*names, d, "duplication=client-sync copies=2", flex));
  const FileId f = file(d, "f");
  CHECK(placement_for(*names, f, flex)->duplication == layout::Duplication::kClientSync);
  const auto placement = placement_for(*names, f, options);
  REQUIRE(placement);
  CHECK(placement->duplication == layout::Duplication::kServerSync);
  CHECK(placement->copies == 2);
}

TEST_CASE_METHOD(PoliciesTest, "other things have no policy") {
  const auto link = names->symlink(kSuperuser, d, "l", "target", {});
  REQUIRE(link);
  CHECK(policy_keys(*names, link->attributes, options).error() == Errc::kWrongType);
  CHECK(set_policy(*names, file(d, "f"), "copies=2", options).error() == Errc::kNotDirectory);
}

TEST_CASE_METHOD(PoliciesTest, "a client is shown a directory's own policy, and what a file gets") {
  CHECK(shown_policy(*names, d, options).error() == Errc::kNotFound);
  REQUIRE(set_policy(*names, d, "copies=2", options));
  CHECK(*shown_policy(*names, d, options) == "copies=2");
  CHECK(shown_policy(*names, sub, options).error() == Errc::kNotFound);
  const FileId f = file(sub, "f");
  CHECK(*shown_policy(*names, f, options) == text(f));
}

TEST_CASE_METHOD(PoliciesTest, "a directory's policy is its owner's to change, a file's nobody's") {
  using How = Namespace::XattrHow;
  const auto change = [&](const Credentials& who, FileId id, std::string_view text,
                          How how = How::kEither) {
    return change_policy(*names, who, id, text, how, options);
  };
  const Credentials stranger{.uid = 4711, .gid = 4711};
  CHECK(change(stranger, d, "copies=2").error() == Errc::kPermission);
  CHECK(change(kSuperuser, d, "", How::kReplace).error() == Errc::kNotFound);
  CHECK(change(kSuperuser, d, "copies=none").error() == Errc::kInvalid);
  REQUIRE(change(kSuperuser, d, "copies=2", How::kCreate));
  CHECK(change(kSuperuser, d, "copies=3", How::kCreate).error() == Errc::kExists);
  CHECK(*shown_policy(*names, d, options) == "copies=2");

  const FileId f = file(d, "f");
  CHECK(change(kSuperuser, f, text(f)));
  CHECK(change(kSuperuser, f, "copies=3").error() == Errc::kPermission);
  CHECK(change(kSuperuser, f, "", How::kReplace).error() == Errc::kPermission);

  REQUIRE(change(kSuperuser, d, "", How::kReplace));
  CHECK(shown_policy(*names, d, options).error() == Errc::kNotFound);
}
