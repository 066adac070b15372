// Files with several copies, read, written and changed through the metadata server.
#include <future>

#include "ganesha-fsal/meta/schema/keys.h"
#include "tests/ganesha-fsal/files/file_io_fixture.h"

namespace weft::mds {

TEST_CASE_METHOD(FileIoTest, "a proxied write is in the journal, and at both copies") {
  const auto data = pattern(200'000, 1);
  REQUIRE(write(0, data));
  CHECK(server->journal().size() == 1);
  CHECK(objects(1).object == data);
  CHECK(objects(2).object == data);
  CHECK(objects(1).writes * objects(2).writes == 0);
  CHECK(read(0, 200'000) == data);
  CHECK(sync_at(f));
  CHECK(objects(1).commits + objects(2).commits == 1);
  CHECK(objects(leader()).commits == 1);
  check_clean();
}

TEST_CASE_METHOD(FileIoTest, "a leader without room is the client's error, and both copies stay") {
  REQUIRE(write(0, pattern(100, 1)));
  objects(leader()).failure = rpc::nfs4::Status::NFS4ERR_NOSPC;
  CHECK(write(0, pattern(100, 2)).error() == Errc::kNoSpace);
  CHECK(map().copies[0].state == layout::CopyState::kCurrent);
  CHECK(map().copies[1].state == layout::CopyState::kCurrent);
  // It may have been written in part: the copies are to be compared.
  CHECK(server->journal().unsettled(f));
}

TEST_CASE_METHOD(FileIoTest, "of a broken disk the client hears when it has the last copy") {
  REQUIRE(write(0, pattern(100, 1)));
  const std::uint32_t broken = leader();
  const auto data = pattern(100, 2);
  objects(broken).failure = rpc::nfs4::Status::NFS4ERR_IO;
  REQUIRE(write(0, data));
  CHECK(state_at(broken) == layout::CopyState::kStale);
  CHECK(read(0, 100) == data);
  objects(3 - broken).failure = rpc::nfs4::Status::NFS4ERR_IO;
  CHECK(write(0, data).error() == Errc::kIo);
  CHECK(state_at(3 - broken) == layout::CopyState::kCurrent);
}

TEST_CASE_METHOD(FileIoTest, "a leader that dies in a write is left out, and the write goes on") {
  const auto before = write(0, pattern(100, 1));
  REQUIRE(before);
  const std::uint32_t lost = leader();
  const std::uint32_t left = 3 - lost;
  hang(lost);
  const auto data = pattern(200'000, 2);
  std::thread loss([&] {
    await_held(lost);
    lose(lost);
  });
  const auto written = write(0, data);
  loss.join();
  REQUIRE(written);
  CHECK(state_at(lost) == layout::CopyState::kStale);
  CHECK(state_at(left) == layout::CopyState::kCurrent);
  CHECK(objects(left).last_write.object_epoch == map().object_epoch);
  CHECK(read(0, 200'000) == data);
  CHECK_FALSE(server->journal().unsettled(f));
  // What was not committed through the lost one is written again.
  CHECK(written->verifier != before->verifier);
  CHECK(sync_at(f));
  CHECK(server->proxy().verifier() == written->verifier);
  CHECK(objects(left).commits == 1);
  CHECK(server->journal().unsettled(f));  // others may lack what it had brought to one
  check_clean();
}

TEST_CASE_METHOD(FileIoTest, "what a leader that died had before COMMIT is written again") {
  const auto written = write(0, pattern(100, 1));
  REQUIRE(written);
  const std::uint32_t lost = leader();
  lose(lost);
  CHECK(sync_at(f));
  CHECK(server->proxy().verifier() != written->verifier);
  CHECK(objects(lost).commits == 0);
}

TEST_CASE_METHOD(FileIoTest, "a COMMIT is begun, and waits without a thread") {
  std::promise<void> answered;
  std::shared_ptr<FileData::BegunSync> begun;
  const auto begin = [&] {
    auto got = server->data().begin_sync(f, [&] { answered.set_value(); });
    REQUIRE(got);
    begun = *got;
  };
  SECTION("for each leader") {
    REQUIRE(write(0, pattern(100, 1)));
    FakeObjects& led = objects(leader());
    std::unique_lock held(led.mutex);
    begin();
    REQUIRE(begun->later);
    held.unlock();
    answered.get_future().wait();
    CHECK(server->data().end_sync(*begun));
    CHECK(led.commits == 1);
  }
  SECTION("and whoever ends it goes on without a leader that is lost") {
    REQUIRE(write(0, pattern(100, 1)));
    const std::uint32_t lost = leader();
    hang(lost);
    begin();
    await_held(lost);
    lose(lost);
    answered.get_future().wait();
    CHECK(server->data().end_sync(*begun));
    CHECK(state_at(lost) == layout::CopyState::kStale);
    CHECK(objects(3 - lost).commits == 1);
  }
  SECTION("or is done at once when there is nothing to commit") {
    begin();
    CHECK_FALSE(begun->later);
    CHECK(server->data().end_sync(*begun));
  }
}

TEST_CASE_METHOD(FileIoTest, "a fenced answer means that the map has changed") {
  REQUIRE(write(0, pattern(100, 1)));
  const std::uint32_t led = leader();
  {
    const std::lock_guard lock(objects(led).mutex);
    objects(led).least_epoch = map().object_epoch + 1;
  }
  std::thread change([&] {
    std::this_thread::sleep_for(200ms);
    REQUIRE(names->bump_object_epoch(f));
  });
  CHECK(write(0, pattern(100, 2)));
  change.join();
  CHECK(state_at(led) == layout::CopyState::kCurrent);
  CHECK(objects(led).last_write.object_epoch == map().object_epoch);
}

TEST_CASE_METHOD(FileIoTest, "of a file with one copy, too, a fenced answer means a new map") {
  policy.copies = 1;
  const auto data = pattern(100, 1);
  REQUIRE(write(0, data));
  FakeObjects& one = objects(map().copies[0].ds_ids[0]);
  const auto fence = [&] {
    REQUIRE(names->bump_object_epoch(f));
    one.least_epoch = map().object_epoch;
  };
  SECTION("of a read") {
    std::promise<void> answered;
    std::unique_lock held(one.mutex);
    const auto begun = server->data().begin_read(f, 0, 100, [&] { answered.set_value(); });
    fence();
    held.unlock();
    REQUIRE(begun);
    answered.get_future().wait();
    const auto got = server->data().end_read(**begun);
    REQUIRE(got);
    CHECK(got->data.flatten().value() == data);
  }
  SECTION("of a write") {
    const auto other = pattern(100, 2);
    const std::span<const std::byte> bytes(other);
    const ProxyIo::Pieces pieces(&bytes, 1);
    std::promise<void> answered;
    std::unique_lock held(one.mutex);
    const auto begun = server->data().begin_write(f, 0, pieces, ProxyIo::Stability::kUnstable,
                                                  policy, [&] { answered.set_value(); });
    fence();
    held.unlock();
    REQUIRE(begun);
    answered.get_future().wait();
    CHECK(server->data().end_write(**begun, pieces));
    CHECK(one.object == other);
  }
  SECTION("of a COMMIT") {
    std::unique_lock held(one.mutex);
    auto synced = std::async(std::launch::async, [&] { return sync_at(f); });
    std::this_thread::sleep_for(100ms);
    fence();
    held.unlock();
    CHECK(synced.get());
  }
  SECTION("unless it has not") {
    one.least_epoch = 1000;
    CHECK(read_at(f, 0, 100).error() == Errc::kAccess);
    CHECK(write(0, data).error() == Errc::kAccess);
    CHECK(sync_at(f).error() == Errc::kAccess);
  }
}

TEST_CASE_METHOD(FileIoTest, "without any copy's server the client is to ask again") {
  REQUIRE(write(0, pattern(100, 1)));
  lose(1);
  lose(2);
  const auto refused = write(0, pattern(100, 2));
  REQUIRE_FALSE(refused);
  CHECK((refused.error() == Errc::kBusy || refused.error() == Errc::kLayoutTryLater));
  // Neither was left out of what the other does not have.
  CHECK((state_at(1) == layout::CopyState::kCurrent || state_at(2) == layout::CopyState::kCurrent));
}

TEST_CASE_METHOD(FileIoTest, "no move begins while what was read of the map is still to be used") {
  policy.copies = 1;
  REQUIRE(write(0, pattern(1000, 1)));
  const std::uint32_t from = map().copies[0].ds_ids[0];
  std::optional<Result<layout::LayoutMap>> moved;
  store.after_peek([&](std::string_view key) {
    if (key == keys::layout(f) && !moved) moved = server->data().begin_move(f, from, 3 - from);
  });
  SECTION("by a write") { CHECK(write_at(f, 0, pattern(1000, 2))); }
  SECTION("to allocate") { CHECK(server->data().allocate(f, 0, 1000, policy)); }
  SECTION("to punch a hole") { CHECK(server->data().punch(f, 0, 500)); }
  store.after_peek(nullptr);
  REQUIRE(moved);
  CHECK(moved->error() == Errc::kBusy);
}

TEST_CASE_METHOD(FileIoTest, "a truncate goes on without a server that is gone") {
  REQUIRE(write(0, pattern(1000, 1)));
  lose(2);
  REQUIRE(truncate(10, 5));
  CHECK(control[0]->sizes[f] == 10);
  CHECK(state_at(2) == layout::CopyState::kStale);
  const auto stale = names->stale_objects(2, std::nullopt, 10);
  REQUIRE(stale->size() == 1);
  CHECK(stale->at(0).dirty.front().offset <= 10);
  CHECK(stale->at(0).dirty.back().end >= 1000);
}

TEST_CASE_METHOD(FileIoTest, "a truncate of mirrored data waits for every writer") {
  REQUIRE(write(0, pattern(1000, 1)));
  SECTION("layouts, the caller's own too") {
    REQUIRE(grant(f, 5, layout::Access::kReadWrite));
    CHECK(truncate(10, 5).error() == Errc::kBusy);
    CHECK(server->layouts().grants_of(f).at(0).state == GrantState::kRecalled);
    CHECK(attributes(f).size == 1000);
    server->layouts().returned(f, 5, layout::Access::kReadWrite);
    CHECK(truncate(10, 5));
  }
  SECTION("proxied writes under way") {
    const std::uint32_t slow = leader();
    hang(slow);
    std::thread writer([&] { CHECK_FALSE(write(0, pattern(100, 2))); });
    await_held(slow);
    CHECK(truncate(10, 5).error() == Errc::kBusy);
    CHECK(attributes(f).size == 1000);
    nfs[slow - 1]->let_go(rpc::nfs4::Status::NFS4ERR_NOSPC);
    writer.join();
    CHECK(truncate(10, 5));
  }
  CHECK(attributes(f).size == 10);
  // One that did not answer was left out, and gets the cut when it is repaired.
  const auto at = map();
  for (const layout::Copy& copy : at.copies) {
    if (copy.state != layout::CopyState::kCurrent) continue;
    CHECK(control[copy.ds_ids[0] - 1]->sizes[f] == 10);
  }
}

TEST_CASE_METHOD(FileIoTest, "holes are asked for, and what is not said in time is data") {
  policy.copies = GENERATE(1, 2);
  REQUIRE(write(0, pattern(1000, 1)));
  REQUIRE(sync_at(f));
  const auto seek = [&](std::uint64_t from, bool hole) {
    return server->data().seek(f, from, hole, 1000).value();
  };
  CHECK(seek(10, false) == 10);  // servers that do not know of such a question
  CHECK(seek(10, true) == 1000);
  int asked = 0;
  for (const auto& one : control) {
    one->seek = [&](const control::Seek& request) {
      ++asked;
      if (request.offset == 500) return control::SeekAnswer{600, true};
      return control::SeekAnswer{request.hole ? 100U : request.offset + 300, false};
    };
  }
  CHECK(seek(10, true) == 100);
  CHECK(seek(10, false) == 310);
  CHECK(seek(500, false) == 900);  // in two steps
  CHECK(seek(900, false) == 1000);
  if (policy.copies == 2) {
    asked = 0;
    REQUIRE(grant(f, 5, layout::Access::kReadWrite));
    CHECK(seek(10, false) == 10);  // one copy may be ahead of the other
    CHECK(asked == 0);
  }
}

TEST_CASE_METHOD(FileIoTest, "a large file uses what its objects do, as far as they say in time") {
  policy.copies = 1;
  REQUIRE(write(0, pattern(1000, 1)));
  InodeAttributes file = attributes(f);
  Clock::time_point now{};
  UsedSpace space({.files = server->files(),
                   .names = server->names(),
                   .cluster = server->cluster(),
                   .now = [&] { return now; }});
  CHECK(space.of(file).bytes == 4096);
  file.size = UsedSpace::kLargeFile + 1;
  const auto used = space.of(file);
  CHECK(used.now);
  CHECK(used.bytes < 4096);
  const auto again = space.of(file);
  CHECK_FALSE(again.now);  // not asked for again at once
  CHECK(again.bytes == used.bytes);
  now += 1s;
  CHECK(space.of(file).now);
}

TEST_CASE_METHOD(FileIoTest, "a hole is punched at both copies while nobody writes") {
  REQUIRE(write(0, pattern(1000, 1)));
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  CHECK(server->data().punch(f, 100, 200).error() == Errc::kBusy);
  server->layouts().returned(f, 5, layout::Access::kReadWrite);
  REQUIRE(server->data().punch(f, 100, 200));
  CHECK(control[0]->ranges.size() == 1);
  CHECK(control[0]->ranges == control[1]->ranges);
}

TEST_CASE_METHOD(FileIoTest,
                 "what is duplicated later is committed at every copy before a change") {
  policy.duplication = layout::Duplication::kServerAsync;
  REQUIRE(write(0, pattern(1000, 1)));
  REQUIRE(truncate(10, 5));
  CHECK(objects(1).commits == 1);
  CHECK(objects(2).commits == 1);
}

TEST_CASE_METHOD(FileIoTest, "with asynchronous duplication reads go where the writes went") {
  policy.duplication = layout::Duplication::kServerAsync;
  const auto data = pattern(200'000, 1);
  REQUIRE(write(0, data));
  const std::uint32_t led = leader();
  objects(3 - led).object.clear();  // nothing has come there yet
  CHECK(read(0, 200'000) == data);
  CHECK(objects(3 - led).reads == 0);
}

namespace {

struct NoLinger : FileIoTest {
  NoLinger() : FileIoTest(Waits{.journal_linger = 0ms}) {}
};

}  // namespace

TEST_CASE_METHOD(
    NoLinger, "what was not committed under a layout is read at its leader, and then committed") {
  policy.duplication = layout::Duplication::kServerAsync;
  const auto data = pattern(200'000, 1);
  REQUIRE(write(0, data));
  REQUIRE(sync_at(f));
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  const std::uint32_t led = leader();
  objects(3 - led).object.clear();  // it is on its way there yet
  objects(1).commits = objects(2).commits = 0;
  server->data().layout_ended(f, 5, layout::Access::kReadWrite, false);
  CHECK(read(0, 200'000) == data);
  CHECK(objects(3 - led).reads == 0);
  CHECK(leader() == led);
  server->journal().sweep();
  CHECK(server->journal().size() == 1);
  SECTION("when its leader answers") {
    CHECK_FALSE(server->data().duplicate_left());
    CHECK(objects(led).commits == 1);
    CHECK_FALSE(server->mirrors().owes(f));
    CHECK_FALSE(server->journal().unsettled(f));
    server->journal().sweep();
    CHECK(server->journal().size() == 0);
  }
  SECTION("when its leader was restarted, and may have forgotten it: the copies are compared") {
    auto& leads = control[led - 1];
    leads->disconnect();
    leads = std::make_unique<FakeServer>(*leads, 7, port());
    REQUIRE(await_that([&] { return server->cluster().registry().find(led)->boot == 7; }));
    await_up(led);
    CHECK_FALSE(server->data().duplicate_left());
    CHECK_FALSE(server->mirrors().owes(f));
    REQUIRE(server->journal().unsettled(f));
    server->journal().sweep();
    CHECK(server->journal().size() == 1);
  }
  SECTION("not before") {
    objects(led).failure = rpc::nfs4::Status::NFS4ERR_NOSPC;
    static_cast<void>(server->data().duplicate_left());
    CHECK(server->mirrors().owes(f));
  }
}

TEST_CASE_METHOD(FileIoTest, "a write is answered with the verifier of before it was sent") {
  const auto first = write(0, pattern(100, 1));
  REQUIRE(first);
  CHECK(first->verifier == server->proxy().verifier());
  {
    const std::lock_guard lock(objects(leader()).mutex);
    objects(leader()).verifier = 2;  // it restarted; only the answer tells
  }
  const auto second = write(0, pattern(100, 2));
  REQUIRE(second);
  CHECK(second->verifier == first->verifier);
  CHECK(second->verifier != server->proxy().verifier());
}

}  // namespace weft::mds
