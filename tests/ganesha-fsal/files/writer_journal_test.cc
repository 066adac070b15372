#include "ganesha-fsal/files/writer_journal.h"

#include <future>
#include <memory>
#include <thread>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {
namespace {

using std::chrono::seconds;

constexpr auto kWrite = layout::Access::kReadWrite;

struct Fixture : NamespaceTest {
  Fixture() : f(file(kRootFileId, "f")) { start(); }

  void start() {
    files = std::make_unique<FileTable>(clock);
    journal.emplace(WriterJournal::Parts{
        .files = *files, .names = *names, .linger = seconds(5), .retry = seconds(5)});
    inherited = journal->open().value();
  }
  void restart() {
    journal.reset();
    names.reset();
    store.lose_power();
    open();
    start();
  }
  // Hands a layout out.
  layout::LayoutMap grant() {
    auto begun = journal->begin(f, striped({1, 2}));
    REQUIRE(begun);
    hold(*files);
    return begun->map;
  }
  // A layout is out, or it came back.
  void hold(FileTable& of) {
    FileTable::Changing(of, f)->layouts.grants.add(1, kWrite, clock.now());
  }
  void give_back(FileTable& of) { FileTable::Changing(of, f)->layouts.grants.remove(1); }
  std::size_t recorded() { return names->written_files(0, 100)->size(); }
  void pass(seconds time) {
    journal->sweep();
    clock.advance(time);
    journal->sweep();
  }

  const FileId f;
  std::unique_ptr<FileTable> files;
  ManualClock clock;
  std::optional<WriterJournal> journal;
  std::size_t inherited = 0;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a record is made once, and goes when nobody has needed it for a while") {
  const auto map = grant();
  CHECK(recorded() == 1);
  const auto before = store.commits();
  CHECK(grant() == map);
  CHECK(store.commits() == before);

  pass(seconds(60));
  CHECK(recorded() == 1);  // still out
  give_back(*files);
  pass(seconds(4));
  CHECK(recorded() == 1);
  grant();  // opened again: the time begins anew
  give_back(*files);
  pass(seconds(4));
  CHECK(recorded() == 1);
  pass(seconds(1));
  CHECK(recorded() == 0);
  CHECK(journal->size() == 0);
  grant();
  CHECK(recorded() == 1);
}

TEST_CASE_METHOD(Fixture, "the map that a record in the journal was made with is kept") {
  keep_maps(*files, *names);
  REQUIRE(names->ensure_layout(f, striped({1, 2})));
  const auto begun = journal->begin(f, no_layout);
  REQUIRE(begun);
  REQUIRE(files->map(f).map != nullptr);
  CHECK(*files->map(f).map == begun->map);
  names.reset();
}

TEST_CASE_METHOD(Fixture, "a pin that comes while the record is swept is counted") {
  const auto none = [](const auto&) -> Result<layout::LayoutMap> {
    return fail(Errc::kIo, "none");
  };
  REQUIRE_FALSE(journal->begin(f, none));  // the record may have been made; the file has no map
  journal->sweep();
  clock.advance(seconds(5));
  std::promise<void> locked;
  std::promise<void> go;
  std::jthread holds_lock([&] {
    static_cast<void>(names->ensure_layout(f, [&](const auto&) -> Result<layout::LayoutMap> {
      locked.set_value();
      go.get_future().wait();
      return fail(Errc::kIo, "none");
    }));
  });
  locked.get_future().wait();
  std::jthread sweeps([&] { journal->sweep(); });
  while (!FileTable::Looking(*files, f)->journal.ending) std::this_thread::yield();
  {
    ++FileTable::Changing(*files, f)->journal.pins;
    const WriterJournal::Pin pin(*journal, f);
    go.set_value();
    sweeps.join();
    CHECK(journal->size() == 0);
    CHECK(FileTable::Looking(*files, f)->journal.pins == 1);
  }
  CHECK(files->size() == 0);
}

TEST_CASE_METHOD(Fixture, "a record stays while a layout is about to be handed out") {
  {
    auto begun = journal->begin(f, striped({1}));
    REQUIRE(begun);
    pass(seconds(60));
    CHECK(recorded() == 1);
  }
  pass(seconds(5));
  CHECK(recorded() == 0);
}

TEST_CASE_METHOD(Fixture, "a record stays while the file's size is in doubt") {
  grant();
  give_back(*files);
  journal->doubt(f);
  pass(seconds(60));
  CHECK(recorded() == 1);
  const auto due = journal->due(false, 10);
  REQUIRE(due.size() == 1);
  journal->doubt(f);  // another writer, while the first is being settled
  journal->settled(due[0]);
  pass(seconds(60));
  CHECK(recorded() == 1);
  journal->settled(*journal->unsettled(f));
  CHECK_FALSE(journal->unsettled(f));
  pass(seconds(5));
  CHECK(recorded() == 0);
  journal->doubt(f);  // nothing to doubt any more
  CHECK(journal->size() == 0);
}

TEST_CASE_METHOD(Fixture, "a record stays while nobody has learned how far the file goes") {
  grant();
  FileTable::Changing(*files, f)->size.doubt = 1;
  give_back(*files);
  pass(seconds(60));
  CHECK(recorded() == 1);  // of a data server that is away, and this one may be started anew
  FileTable::Changing(*files, f)->size.doubt = 0;
  pass(seconds(5));
  CHECK(recorded() == 0);
}

TEST_CASE_METHOD(Fixture, "what fails to settle is tried again, not at once") {
  grant();
  journal->doubt(f);
  journal->not_settled(f);
  CHECK(journal->due(false, 10).empty());
  clock.advance(seconds(5));
  CHECK(journal->due(false, 10).size() == 1);
  journal->not_settled(f);
  journal->retry_all();
  CHECK(journal->due(false, 10).size() == 1);
}

TEST_CASE_METHOD(Fixture,
                 "a record of an earlier run is inherited, and taken over above its epoch") {
  const auto map = grant();
  restart();
  CHECK(inherited == 1);
  CHECK(journal->inherited(f));
  CHECK(journal->due(false, 10).empty());
  REQUIRE(journal->due(true, 10).size() == 1);
  give_back(*files);
  pass(seconds(60));
  CHECK(recorded() == 1);

  const auto taken = grant();
  CHECK(taken.object_epoch == map.object_epoch + 1);
  CHECK(grant().object_epoch == taken.object_epoch);
  CHECK(journal->inherited(f));  // those of before are not fenced by that
  journal->settled(*journal->unsettled(f));
  CHECK_FALSE(journal->inherited(f));
  give_back(*files);
  pass(seconds(5));
  CHECK(recorded() == 0);
  check_clean();
}

TEST_CASE_METHOD(Fixture, "a file that is gone leaves nothing behind") {
  grant();
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  CHECK(journal->begin(f, no_layout).error() == Errc::kStale);
  give_back(*files);
  pass(seconds(5));
  CHECK(journal->size() == 0);
  check_clean();
}

TEST_CASE_METHOD(Fixture, "sweeps and grants at once never leave a layout without its record") {
  std::atomic<bool> stop = false;
  FileTable of{system_clock()};
  WriterJournal busy({.files = of, .names = *names, .linger = seconds(0)});
  std::jthread sweeper([&] {
    while (!stop) busy.sweep();
  });
  for (int i = 0; i < 2000; ++i) {
    {
      auto begun = busy.begin(f, striped({1}));
      REQUIRE(begun);
      hold(of);
    }
    std::this_thread::yield();
    if (recorded() != 1) {
      stop = true;
      FAIL("a layout is out and not in the journal");
    }
    give_back(of);
  }
  stop = true;
}

TEST_CASE_METHOD(Fixture, "records are bounded, and a sweep ends all that nobody needs") {
  FileTable of{system_clock()};
  WriterJournal few({.files = of, .names = *names, .linger = seconds(0), .most = 2});
  const FileId g = file(kRootFileId, "g");
  const FileId h = file(kRootFileId, "h");
  REQUIRE(few.begin(f, striped({1})));
  REQUIRE(few.begin(g, striped({1})));
  CHECK(few.begin(h, striped({1})).error() == Errc::kBusy);
  CHECK(few.begin(g, striped({1})));
  few.sweep();
  CHECK(few.size() == 0);
  CHECK(of.size() == 0);
  CHECK(few.begin(h, striped({1})));
}

TEST_CASE_METHOD(Fixture, "one sweep ends thousands of records that nobody needs") {
  FileTable of{system_clock()};
  WriterJournal many({.files = of, .names = *names, .linger = seconds(0)});
  constexpr std::size_t kFiles = 5000;
  for (std::size_t i = 0; i < kFiles; ++i) {
    REQUIRE(many.begin(file(kRootFileId, "one of many " + std::to_string(i)), striped({1})));
  }
  CHECK(many.size() == kFiles);
  many.sweep();
  CHECK(many.size() == 0);
  CHECK(of.size() == 0);
  CHECK(recorded() == 0);
}

}  // namespace weft::mds
