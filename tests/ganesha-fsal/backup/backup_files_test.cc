// What is a backup, and what is none.
#include "ganesha-fsal/backup/backup_files.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::backup;

namespace fs = std::filesystem;

namespace {

void write(const std::string& path, std::string_view text) { std::ofstream(path) << text; }
std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct BackupTest {
  BackupTest() {
    fs::create_directory(checkpoint);
    write(checkpoint + "/CURRENT", "MANIFEST-000004\n");
    write(checkpoint + "/000012.sst", std::string(3'000'000, 's'));
    write(conf, "EXPORT {}\n");
  }
  BackupJob job(const std::string& configuration = "") {
    return {
        .checkpoint = checkpoint,
        .configuration = configuration,
        .folder = folder,
        .about =
            {.system = "s", .version = "1", .boot_epoch = 7, .made_ns = 9, .key = "k", .files = {}},
        .confirm = {},
        .space = {}};
  }
  Result<Manifest> make(const std::string& configuration = "") {
    return make_backup(job(configuration));
  }
  [[nodiscard]] bool nothing_there() const {
    return !fs::exists(folder) && !fs::exists(folder + ".weft-partial");
  }
  mds::TempFolder temp;
  std::string checkpoint = temp.path("checkpoint");
  std::string conf = temp.path("ganesha.conf");
  std::string folder = temp.path("backup");
};

}  // namespace

TEST_CASE_METHOD(BackupTest, "a backup is whole, nobody else's to read, and says what it is of") {
  const auto made = make(conf);
  REQUIRE(made);
  struct stat about{};
  REQUIRE(::stat(folder.c_str(), &about) == 0);
  CHECK((about.st_mode & 07777) == 0700);
  const auto manifest = read_manifest(folder);
  REQUIRE(manifest);
  CHECK(manifest->boot_epoch == 7);
  CHECK(manifest->made_ns == 9);
  CHECK(manifest->files.size() == 3);
  CHECK(check_backup(folder, *manifest));
  CHECK(read(folder + "/ganesha.conf") == "EXPORT {}\n");
  const std::string store = temp.path("store");
  fs::create_directory(store);
  REQUIRE(copy_store(folder, *manifest, store));
  CHECK(read(store + "/CURRENT") == "MANIFEST-000004\n");
  CHECK(fs::file_size(store + "/000012.sst") == 3'000'000);
  CHECK_FALSE(fs::exists(store + "/ganesha.conf"));
  CHECK_FALSE(fs::exists(folder + ".weft-partial"));
}

TEST_CASE_METHOD(BackupTest, "what is there is left alone") {
  fs::create_directory(folder);
  CHECK(make().error() == Errc::kExists);
  CHECK(fs::is_empty(folder));
}

TEST_CASE_METHOD(BackupTest,
                 "a backup that fails leaves nothing, and an old part is no hindrance") {
  fs::create_directory(folder + ".weft-partial");
  write(folder + ".weft-partial/weft-backup", "half");
  fs::create_directory(checkpoint + "/a-folder");
  CHECK_FALSE(make());
  CHECK_FALSE(fs::exists(folder));
  CHECK_FALSE(fs::exists(folder + ".weft-partial"));
  fs::remove(checkpoint + "/a-folder");
  fs::create_symlink("/etc/passwd", checkpoint + "/link");
  CHECK_FALSE(make());
  fs::remove(checkpoint + "/link");
  CHECK(make());
}

TEST_CASE_METHOD(BackupTest, "a checkpoint that somebody drops is not copied") {
  const int held = ::open(checkpoint.c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  CHECK_FALSE(make());
  ::close(held);
  CHECK(make());
}

TEST_CASE_METHOD(BackupTest, "a copy is not whole before the checkpoint was there to its end") {
  BackupJob asked = job();
  bool there = false;
  asked.confirm = [&]() -> Result<> {
    CHECK(fs::exists(folder + ".weft-partial/weft-backup"));
    CHECK_FALSE(fs::exists(folder));
    if (there) return {};
    return fail(Errc::kStale, "another took its place");
  };
  CHECK(make_backup(asked).error() == Errc::kStale);
  CHECK(nothing_there());
  there = true;
  REQUIRE(make_backup(asked));
  CHECK(check_backup(folder, *read_manifest(folder)));
}

TEST_CASE_METHOD(BackupTest, "a backup that does not fit is not begun") {
  // CURRENT, 000012.sst and ganesha.conf, in whole blocks, and what is to stay free.
  const std::uint64_t needed = 4096 + 3'002'368 + 4096 + kSpare;
  Space space{.free_bytes = needed, .block_bytes = 4096};
  const std::string above = fs::path(folder).parent_path();
  std::string asked_of;
  BackupJob asked = job(conf);
  asked.store_keeps_bytes = 100U << 20;
  asked.space = [&](const std::string& at) -> Result<Space> {
    asked_of = at;
    CHECK(nothing_there());
    return space;
  };
  const auto refused = [&] {
    const auto made = make_backup(asked);
    REQUIRE_FALSE(made);
    CHECK(made.error() == Errc::kNoSpace);
    CHECK(nothing_there());
    return made.error().text;
  };
  SECTION("elsewhere") {
    --space.free_bytes;
    CHECK(refused() == "the backup needs 19 MiB in " + above + ", and 18 MiB are free there");
    ++space.free_bytes;
    CHECK(make_backup(asked));
    CHECK(asked_of == above);
  }
  SECTION("on the store's file system, of which the store keeps some") {
    space.of_store = true;
    space.free_bytes += asked.store_keeps_bytes - 1;
    CHECK(refused().ends_with(
        "118 MiB are free there, of which 100 MiB stay free for the metadata store, which is on "
        "the same file system"));
    ++space.free_bytes;
    CHECK(make_backup(asked));
  }
  SECTION("the file system is asked, and whether it is the store's") {
    asked.space = {};
    asked.store_keeps_bytes = std::uint64_t{1} << 60;
    CHECK(refused().contains("metadata store"));
    asked.store_keeps_bytes = 0;
    CHECK(make_backup(asked));
  }
}

TEST_CASE_METHOD(BackupTest, "damage is noticed") {
  const auto made = make();
  REQUIRE(made);
  SECTION("no manifest") {
    fs::remove(folder + "/weft-backup");
    CHECK(read_manifest(folder).error() == Errc::kNotFound);
  }
  SECTION("a manifest that was changed") {
    std::string text = read(folder + "/weft-backup");
    text[text.find("\"boot_epoch\":7") + 13] = '8';
    write(folder + "/weft-backup", text);
    CHECK(read_manifest(folder).error() == Errc::kCorrupt);
  }
  SECTION("a file that was changed") {
    std::fstream(folder + "/store/000012.sst", std::ios::in | std::ios::out) << 'x';
    CHECK(check_backup(folder, *made).error() == Errc::kCorrupt);
    const std::string store = temp.path("store");
    fs::create_directory(store);
    CHECK(copy_store(folder, *made, store).error() == Errc::kCorrupt);
  }
  SECTION("a file that is missing") {
    fs::remove(folder + "/store/CURRENT");
    CHECK(check_backup(folder, *made).error() == Errc::kCorrupt);
  }
}

TEST_CASE("a manifest names files of a backup only") {
  const std::string sum(64, 'a');
  const auto with = [&](const std::string& name) {
    Manifest manifest;
    manifest.files = {{name, 1, sum}};
    return parse_manifest(write_manifest(manifest));
  };
  CHECK(with("store/CURRENT"));
  CHECK(with("ganesha.conf"));
  for (const char* name :
       {"store/..", "store/a/b", "../x", "/etc/passwd", "store/", "weft-backup"}) {
    CAPTURE(name);
    CHECK(with(name).error() == Errc::kCorrupt);
  }
  Manifest twice;
  twice.files = {{"store/a", 1, sum}, {"store/a", 1, sum}};
  CHECK(parse_manifest(write_manifest(twice)).error() == Errc::kCorrupt);
  Manifest later;
  later.format = kFormat + 1;
  CHECK(parse_manifest(write_manifest(later)).error() == Errc::kNotSupported);
}

TEST_CASE_METHOD(BackupTest, "a store that root wrote to is its folder's owner's", "[restore]") {
  if (::geteuid() != 0) SKIP("only root gives files away");
  const std::string folder = temp.path("mds");
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  write(folder + "/CURRENT", "x");
  const Owner service{.user = 4321, .group = 1234};
  const auto owner = [](const std::string& path) {
    struct stat about{};
    REQUIRE(::stat(path.c_str(), &about) == 0);
    return std::pair(about.st_uid, about.st_gid);
  };
  const auto all_are = [&](uid_t user, gid_t group) {
    CHECK(owner(folder) == std::pair(user, group));
    CHECK(owner(folder + "/CURRENT") == std::pair(user, group));
  };
  REQUIRE(give_store(folder, std::nullopt));
  all_are(0, 0);
  // A new disk is root's, and no store of a service.
  REQUIRE(give_store(folder, service));
  all_are(4321, 1234);
  REQUIRE(::chown((folder + "/CURRENT").c_str(), 0, 0) == 0);
  REQUIRE(give_store(folder, Owner{.user = 55, .group = 66}));
  all_are(4321, 1234);
}

TEST_CASE_METHOD(BackupTest, "a store's folder is made with the one that it is in", "[restore]") {
  const auto owner = [](const std::string& path) {
    struct stat about{};
    REQUIRE(::stat(path.c_str(), &about) == 0);
    CHECK((about.st_mode & 07777) == 0700);
    return std::pair(about.st_uid, about.st_gid);
  };
  const std::string parent = temp.path("weft");
  const bool root = ::geteuid() == 0;
  const Owner service{.user = root ? 4321 : ::geteuid(), .group = root ? 1234 : ::getegid()};
  for (int i = 0; i < 2; ++i) {  // one that is there stays
    REQUIRE(make_store_folder(parent + "/mds", service));
    CHECK(owner(parent) == std::pair(service.user, service.group));
    CHECK(owner(parent + "/mds") == std::pair(service.user, service.group));
  }
  // Beside it, of the same owner, whoever the service's user is.
  REQUIRE(make_store_folder(parent + "/more/", std::nullopt));
  CHECK(owner(parent + "/more") == std::pair(service.user, service.group));
  CHECK(make_store_folder(temp.path("none/of/these"), service).error() == Errc::kNotFound);
}
