// Policies of directories: kept over restarts, inherited, and taken by files when they are made.
#include "ganesha-fsal/meta/schema/keys.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

class PolicyTest : public NamespaceTest {
 public:
  void set(FileId dir, std::string_view text) {
    REQUIRE(names->set_policy(dir, layout::parse_policy(text).value()));
  }
  std::string policy(FileId id) {
    const auto kept = names->policy(id);
    REQUIRE(kept);
    return to_string(*kept);
  }
  [[nodiscard]] bool kept(FileId id) const {
    return store.latest().peek(keys::policy(id)).value().has_value();
  }
};

}  // namespace

TEST_CASE_METHOD(PolicyTest,
                 "a directory keeps its own keys, over restarts, until they are cleared") {
  const FileId d = dir(kRootFileId, "d");
  CHECK(policy(d).empty());
  set(d, "copies=2 unit=64KiB");
  CHECK(policy(d) == "unit=64KiB copies=2");
  open();
  CHECK(policy(d) == "unit=64KiB copies=2");
  set(d, "stripes=3");  // in place of what was there
  CHECK(policy(d) == "stripes=3");
  check_clean();
  set(d, "");
  CHECK(policy(d).empty());
  CHECK_FALSE(kept(d));
}

TEST_CASE_METHOD(PolicyTest, "a change of policy is a change of the directory") {
  const FileId d = dir(kRootFileId, "d");
  const InodeAttributes before = attributes(d);
  now_ns = 5'000;
  set(d, "copies=2");
  CHECK(attributes(d).change == before.change + 1);
  CHECK(attributes(d).ctime_ns == 5'000);
  CHECK(attributes(d).mtime_ns == before.mtime_ns);
}

TEST_CASE_METHOD(PolicyTest, "only a directory's policy can be set") {
  const FileId f = file(kRootFileId, "f");
  CHECK(names->set_policy(f, {.copies = 2}).error() == Errc::kNotDirectory);
  CHECK(names->set_policy(999, {.copies = 2}).error() == Errc::kStale);
}

TEST_CASE_METHOD(PolicyTest, "a file takes the nearest directory's word for each key") {
  const FileId a = dir(kRootFileId, "a");
  const FileId b = dir(a, "b");
  const FileId c = dir(b, "c");
  set(kRootFileId, "copies=2 stripes=4");
  set(b, "stripes=1 reads=one");
  CHECK(policy(file(kRootFileId, "f")) == "stripes=4 copies=2");
  CHECK(policy(file(a, "f")) == "stripes=4 copies=2");
  CHECK(policy(file(c, "f")) == "stripes=1 copies=2 reads=one");
  CHECK(policy(c).empty());  // its own

  const auto above = names->policies_above(c);
  REQUIRE(above);
  REQUIRE(above->size() == 2);
  CHECK((*above)[0].dir == b);
  CHECK(to_string((*above)[0].own) == "stripes=1 reads=one");
  CHECK((*above)[1].dir == kRootFileId);
  check_clean();
}

TEST_CASE_METHOD(PolicyTest,
                 "a file notes in which directory it was made, to begin where those do") {
  const FileId a = dir(kRootFileId, "a");
  const FileId sub = dir(a, "sub");
  set(a, "first=directory");
  const FileId f = file(a, "f");
  CHECK(policy(f) == "first=" + std::to_string(a));
  CHECK(policy(file(sub, "f")) == "first=" + std::to_string(sub));
  CHECK(policy(sub).empty());
  REQUIRE(names->rename(kSuperuser, a, "f", sub, "moved"));
  CHECK(policy(f) == "first=" + std::to_string(a));
  set(sub, "first=7");
  CHECK(policy(file(sub, "g")) == "first=7");
  check_clean();
}

TEST_CASE_METHOD(PolicyTest,
                 "a file keeps what it took, whatever becomes of names and directories") {
  const FileId a = dir(kRootFileId, "a");
  const FileId b = dir(kRootFileId, "b");
  const FileId early = file(a, "early");
  set(a, "copies=2");
  const FileId f = file(a, "f");
  REQUIRE(names->link(kSuperuser, f, b, "other"));
  REQUIRE(names->rename(kSuperuser, a, "f", b, "moved"));
  set(b, "copies=3");
  set(a, "");
  CHECK(policy(f) == "copies=2");
  CHECK(policy(early).empty());
  open();
  CHECK(policy(f) == "copies=2");
  // A directory takes its files along, and gives new ones what is above it then.
  const FileId sub = dir(a, "sub");
  REQUIRE(names->rename(kSuperuser, a, "sub", b, "sub"));
  CHECK(policy(file(sub, "f")) == "copies=3");
  check_clean();
}

TEST_CASE_METHOD(PolicyTest, "what is remembered of a directory ends with a change above it") {
  const FileId a = dir(kRootFileId, "a");
  const FileId b = dir(kRootFileId, "b");
  const FileId sub = dir(a, "sub");
  const FileId deep = dir(sub, "deep");
  set(a, "copies=2");
  CHECK(policy(file(deep, "1")) == "copies=2");
  set(a, "copies=3");
  CHECK(policy(file(deep, "2")) == "copies=3");
  set(sub, "stripes=1");
  CHECK(policy(file(deep, "3")) == "stripes=1 copies=3");
  REQUIRE(names->rename(kSuperuser, a, "sub", b, "sub"));
  CHECK(policy(file(deep, "4")) == "stripes=1");
  set(b, "copies=2");
  CHECK(policy(file(deep, "5")) == "stripes=1 copies=2");
  set(sub, "");
  CHECK(policy(file(deep, "6")) == "copies=2");
}

TEST_CASE_METHOD(PolicyTest, "a create does not walk up to the root again") {
  const FileId a = dir(kRootFileId, "a");
  const FileId deep = dir(dir(a, "sub"), "deep");
  set(a, "copies=2");
  CHECK(policy(file(deep, "1")) == "copies=2");
  // Behind the namespace's back: who looks sees it.
  REQUIRE(store.run([&](Transaction& transaction) -> Result<> {
    transaction.erase(keys::policy(a));
    return {};
  }));
  CHECK(policy(file(deep, "2")) == "copies=2");
  set(deep, "stripes=1");
  CHECK(policy(file(deep, "3")) == "stripes=1");
}

TEST_CASE("what was found while something changed is not remembered") {
  InheritedPolicies inherited;
  const layout::Policy two{.copies = 2};
  const auto known = [&] { return inherited.find(7).policy; };
  const auto before = inherited.find(7);
  CHECK_FALSE(before.policy);
  {
    const InheritedPolicies::Change change(inherited);
    inherited.keep(7, two, before.state);
    CHECK_FALSE(known());
  }
  inherited.keep(7, two, before.state);
  CHECK_FALSE(known());
  CHECK(inherited.changed_since(before.state));
  const auto again = inherited.find(7);
  CHECK_FALSE(inherited.changed_since(again.state));
  inherited.keep(7, two, again.state);
  CHECK(known() == two);
  const InheritedPolicies::Change change(inherited);
  CHECK_FALSE(known());
}

TEST_CASE_METHOD(PolicyTest, "what is removed takes its policy along") {
  const FileId d = dir(kRootFileId, "d");
  set(d, "copies=2");
  const FileId f = file(d, "f");
  REQUIRE(kept(f));
  REQUIRE(names->remove(kSuperuser, d, "f"));
  CHECK_FALSE(kept(f));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "d"));
  CHECK_FALSE(kept(d));
  check_clean();
}

TEST_CASE_METHOD(PolicyTest, "only regular files take a policy") {
  set(kRootFileId, "copies=2");
  const auto link = names->symlink(kSuperuser, kRootFileId, "l", "target", {.mode = 0777});
  REQUIRE(link);
  CHECK_FALSE(kept(link->attributes.id));
  CHECK_FALSE(kept(dir(kRootFileId, "d")));
}
