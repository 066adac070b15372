// What is noted for a reply to wait for, and what waits all the same.
#include "ganesha-fsal/meta/ops/owed.h"

#include <functional>
#include <thread>

#include "tests/ganesha-fsal/meta/held_sync.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

// A store that says for which commit it was waited.
class WatchedKv final : public KvStore {
 public:
  explicit WatchedKv(KvStore& under) : under_(under) {}
  [[nodiscard]] std::unique_ptr<Transaction> begin() override { return under_.begin(); }
  [[nodiscard]] const KvReader& latest() const override { return under_.latest(); }
  [[nodiscard]] std::unique_ptr<KvReader> snapshot() const override { return under_.snapshot(); }
  [[nodiscard]] Result<> wait_durable(CommitSeq seq) override {
    waited = std::max(waited, seq);
    return under_.wait_durable(seq);
  }
  [[nodiscard]] CommitSeq durable() const override { return knows ? under_.durable() : 0; }
  CommitSeq waited = 0;
  bool knows = false;  // what is durable

 private:
  KvStore& under_;
};

class OwedTest : public NamespaceTest {
 public:
  OwedTest() {
    names.reset();
    auto opened = Namespace::open(watched, {.now_ns = [this] { return now_ns.load(); }});
    REQUIRE(opened);
    names = std::move(*opened);
  }
  // What the operation has noted; it has waited for nothing that it depends on.
  CommitSeq noted(const std::function<void()>& operation) {
    Owed owed;
    const CommitSeq before = std::exchange(watched.waited, 0);
    {
      const Owed::Scope scope(owed);
      operation();
    }
    CHECK(watched.waited == 0);
    watched.waited = before;
    return owed.upto();
  }
  // What the operation has waited for in a scope all the same. It notes nothing later.
  CommitSeq waited(const std::function<void()>& operation) {
    Owed owed;
    watched.waited = 0;
    {
      const Owed::Scope scope(owed);
      operation();
    }
    CHECK(owed.upto() <= watched.waited);
    return watched.waited;
  }
  CommitSeq newest() {
    auto seq = watched.apply([](Transaction& transaction) -> Result<> {
      transaction.put("~", "~");
      return {};
    });
    REQUIRE(seq);
    return *seq;
  }

  WatchedKv watched{store};
};

}  // namespace

TEST_CASE_METHOD(NamespaceTest, "a create in a scope returns while the sync is held up") {
  HeldSync held(store);
  auto opened = Namespace::open(held);
  REQUIRE(opened);
  Namespace& here = **opened;
  REQUIRE(here.create(kSuperuser, kRootFileId, "first", {}));  // reserves file numbers
  Owed owed;
  held.hold();
  for (const char* name : {"a", "b", "c"}) {
    const Owed::Scope scope(owed);
    REQUIRE(here.create(kSuperuser, kRootFileId, name, {}));
  }
  std::atomic<bool> told{false};
  std::jthread reply([&] { told = here.settle(owed).has_value(); });
  REQUIRE(held.await_held());
  CHECK_FALSE(told);
  held.let_go();
  reply.join();
  CHECK(told);
}

TEST_CASE_METHOD(NamespaceTest, "what was settled survives a crash, in order") {
  for (std::uint64_t round = 0; round < 50; ++round) {
    Owed first;
    Owed second;
    const std::string name = std::to_string(round);
    {
      const Owed::Scope scope(first);
      REQUIRE(names->create(kSuperuser, kRootFileId, name, {}));
    }
    {
      const Owed::Scope scope(second);
      REQUIRE(names->remove(kSuperuser, kRootFileId, name));
      REQUIRE(names->create(kSuperuser, kRootFileId, name + "-later", {}));
    }
    CHECK(first.upto() < second.upto());
    REQUIRE(names->settle(round % 2 == 0 ? first : second));
    store.lose_power();
    open();
    const bool gone = !names->lookup(kRootFileId, name);
    const bool later = names->lookup(kRootFileId, name + "-later").has_value();
    CHECK((gone || !later));
    if (round % 2 != 0) CHECK((gone && later));
    check_clean();
  }
}

TEST_CASE_METHOD(OwedTest, "who sees a change that is not durable notes it as well") {
  const FileId folder = dir(kRootFileId, "folder");
  FileId made = 0;
  const CommitSeq created = noted(
      [&] { made = names->create(kSuperuser, folder, "file", {.hold = true})->attributes.id; });
  REQUIRE(created > 0);
  CHECK(noted([&] { REQUIRE(names->lookup(folder, "file")); }) >= created);
  CHECK(noted([&] { REQUIRE(names->getattr(made)); }) >= created);
  CHECK(noted([&] { REQUIRE(names->getattr(folder)); }) >= created);
  CHECK(noted([&] { REQUIRE(names->readdir(folder, 0, 10, true)); }) >= created);
  CHECK(noted([&] { REQUIRE(names->hold(made)); }) >= created);
  CHECK(noted([&] { CHECK_FALSE(names->create(kSuperuser, folder, "file", {})); }) >= created);
  // From the protocol layer's cache.
  CHECK(noted([&] { REQUIRE(names->tell(made)); }) >= created);
  CHECK(noted([&] { REQUIRE(names->tell(folder)); }) >= created);

  const CommitSeq removed = noted([&] { REQUIRE(names->remove(kSuperuser, folder, "file")); });
  CHECK(removed > created);
  CHECK(noted([&] { CHECK_FALSE(names->lookup(folder, "file")); }) >= removed);
  CHECK(noted([&] { CHECK_FALSE(names->remove(kSuperuser, folder, "file")); }) >= removed);
  CHECK(noted([&] { REQUIRE(names->tell(folder)); }) >= removed);

  // What was there already may be another's, too.
  const FileId other = file(folder, "other");
  const CommitSeq changed =
      noted([&] { REQUIRE(names->setattr(kSuperuser, other, {.mode = 0600})); });
  CHECK(noted([&] {
          REQUIRE(names->create(kSuperuser, folder, "other", {}, CreateHow::kUnchecked)->existed);
        }) >= changed);
}

TEST_CASE_METHOD(OwedTest, "nobody notes what is known to be durable") {
  const FileId one = file(kRootFileId, "one");
  REQUIRE(store.durable() > 0);
  const auto read = [&] { REQUIRE(names->getattr(one)); };
  CHECK(noted(read) > 0);  // this store does not know
  watched.knows = true;
  CHECK(noted(read) == 0);
  const CommitSeq changed =
      noted([&] { REQUIRE(names->setattr(kSuperuser, one, {.mode = 0600})); });
  CHECK(changed > store.durable());
  CHECK(noted(read) == changed);
}

TEST_CASE_METHOD(OwedTest, "every operation that only a reply tells of is noted") {
  const FileId folder = dir(kRootFileId, "folder");
  const FileId one = file(folder, "one");
  const CreateRequest as{.mode = 0644};
  const std::function<void()> operations[] = {
      [&] { REQUIRE(names->mkdir(kSuperuser, folder, "d", as)); },
      [&] { REQUIRE(names->symlink(kSuperuser, folder, "s", "x", as)); },
      [&] { REQUIRE(names->mknod(kSuperuser, folder, "f", FileType::kFifo, {}, as)); },
      [&] { REQUIRE(names->link(kSuperuser, one, folder, "l")); },
      [&] { REQUIRE(names->rename(kSuperuser, folder, "l", kRootFileId, "m")); },
      [&] { REQUIRE(names->grow_size({.id = one, .end = 10})); },
      [&] { REQUIRE(names->set_xattr(one, "user.a", "b", Namespace::XattrHow::kEither)); },
      [&] { REQUIRE(names->remove_xattr(one, "user.a")); },
      [&] { REQUIRE(names->set_policy(folder, {.stripes = 2})); },
      [&] { REQUIRE(names->remove(kSuperuser, folder, "one")); },
  };
  for (const auto& operation : operations) {
    const CommitSeq before = newest();
    CHECK(noted(operation) > before);
  }
}

TEST_CASE_METHOD(OwedTest, "what acts at data servers before the reply waits in a scope, too") {
  const FileId one = file(kRootFileId, "one");
  const std::function<void()> operations[] = {
      [&] { REQUIRE(names->ensure_layout(one, striped({1, 2}, {3, 4}))); },
      [&] { REQUIRE(names->begin_writing(one, no_layout)); },
      [&] { REQUIRE(names->setattr(kSuperuser, one, {.size = 5})->truncate); },
      [&] { REQUIRE(names->finish_truncate(**names->pending_truncate(one))); },
      [&] { REQUIRE(names->bump_object_epoch(one)); },
      [&] { REQUIRE(names->bump_client_epoch(77)); },
      [&] { REQUIRE(names->mark_stale({.id = one, .copy = 1, .ds_id = 3, .dirty = {{0, 9}}})); },
      [&] { REQUIRE(*names->begin_resync({.id = one, .copy = 1, .ds_id = 3})); },
  };
  for (const auto& operation : operations) {
    const CommitSeq before = newest();
    CHECK(waited(operation) > before);
  }
  const CommitSeq removed = noted([&] { REQUIRE(names->remove(kSuperuser, kRootFileId, "one")); });
  CHECK(waited([&] { CHECK(names->pending_removals(std::nullopt, 10)->size() == 1); }) >= removed);
  CHECK(waited([&] { REQUIRE(names->settle(one)); }) >= removed);
}

TEST_CASE_METHOD(OwedTest, "nobody waits for what is told to nobody") {
  const FileId one = file(kRootFileId, "one");
  REQUIRE(names->begin_writing(one, striped({1})));
  const CommitSeq before = newest();
  REQUIRE(names->end_writing(std::vector<FileId>{one}));
  CHECK(noted([&] { REQUIRE(names->getattr(one)); }) < before);
}

TEST_CASE_METHOD(OwedTest, "a file that is made held lives on without a name") {
  auto made = names->create(kSuperuser, kRootFileId, "file", {.hold = true});
  REQUIRE(made);
  const FileId id = made->attributes.id;
  // One that is there is not held by that.
  REQUIRE(names->create(kSuperuser, kRootFileId, "file", {.hold = true}, CreateHow::kUnchecked));
  CHECK_FALSE(names->create(kSuperuser, kRootFileId, "file", {.hold = true}));
  auto removed = names->remove(kSuperuser, kRootFileId, "file");
  REQUIRE(removed);
  CHECK(removed->orphaned);
  CHECK(attributes(id).nlink == 0);
  REQUIRE(names->release(id));
  CHECK(names->getattr(id).error() == Errc::kStale);
  check_clean();
}
