// weft-restore: makes a metadata store of a backup. `weft restore` runs it.
//
// Exit status: 0 done, 1 the backup is damaged, 2 nothing could be done.
#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ganesha-fsal/backup/backup_files.h"
#include "ganesha-fsal/backup/prepare_store.h"
#include "ganesha-fsal/meta/kv/rocks_kv.h"
#include "rpc/base/clock.h"
#include "rpc/base/nearest.h"

namespace {

using namespace weft;
namespace fs = std::filesystem;

constexpr int kGood = 0;
constexpr int kDamaged = 1;
constexpr int kFailed = 2;

constexpr std::array<std::string_view, 5> kOptions = {"--check", "--help", "--json", "--to",
                                                      "--version"};
constexpr std::string_view kHelp =
    "usage: weft-restore [--json] [--check] [--to FOLDER] BACKUP\n"
    "Makes a metadata store of a backup that weft backup has made.\n"
    "  --to FOLDER  where to, Metadata_Path of the configuration (/var/lib/weft/mds);\n"
    "               it has to be empty, or not to be there\n"
    "  --check      only look whether the backup is whole\n"
    "  --json       say what was done as one JSON object\n"
    "  --version    print the version\n"
    "The metadata server must not run, not here and not elsewhere. What becomes of\n"
    "files that were made, changed or removed since the backup: weft(1).\n";

struct Arguments {
  bool json = false;
  bool check = false;
  std::string backup;
  std::string to = "/var/lib/weft/mds";
};

int complain(const Error& error) {
  fmt::print(stderr, "weft-restore: {}\n", error.describe());
  return error == Errc::kCorrupt ? kDamaged : kFailed;
}

int misused(const std::string& what) {
  fmt::print(stderr, "weft-restore: {}; weft-restore --help says more\n", what);
  return kFailed;
}

std::string marker_of(const std::string& folder) { return folder + "/" + mds::kRestoring; }

// Leaves the folder with nothing but the mark that it is not a store yet.
Result<> clear(const std::string& folder) {
  std::error_code failed;
  const bool begun = fs::exists(marker_of(folder), failed);
  std::vector<fs::path> there;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().filename() != "lost+found" && entry.path().filename() != mds::kRestoring) {
      there.push_back(entry.path());
    }
  }
  if (failed) return fail_errno(failed.value(), "read " + folder);
  if (!there.empty() && !begun) {
    return fail(Errc::kExists, folder + " is not empty: move what is there elsewhere");
  }
  for (const fs::path& path : there) {
    fs::remove_all(path, failed);
    if (failed) return fail_errno(failed.value(), "remove " + path.string());
  }
  const int marker =
      ::open(marker_of(folder).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (marker < 0) return fail_errno(errno, "create " + marker_of(folder));
  const bool synced = ::fsync(marker) == 0;
  const int why = errno;
  ::close(marker);
  if (!synced) return fail_errno(why, "sync " + marker_of(folder));
  return backup::sync_folder(folder);
}

Result<mds::Prepared> prepare(const std::string& folder, const backup::Manifest& manifest) {
  auto store = mds::open_rocks_kv(
      {.path = folder, .create_if_missing = false, .restoring = true, .clock = system_clock()});
  if (!store) return pass(store);
  return mds::prepare_restored(**store,
                               {.made_ns = manifest.made_ns,
                                .now_ns = system_clock().wall_ns(),
                                .device_salt = static_cast<std::uint32_t>(system_random().u64())});
}

Result<mds::Prepared> restore(const Arguments& arguments, const backup::Manifest& manifest) {
  const std::string& to = arguments.to;
  if (auto made = backup::make_store_folder(to, backup::service_user()); !made) return pass(made);
  if (auto empty = clear(to); !empty) return pass(empty);
  if (auto copied = backup::copy_store(arguments.backup, manifest, to); !copied) {
    return pass(copied);
  }
  auto prepared = prepare(to, manifest);
  if (!prepared) return prepared;
  if (auto given = backup::give_store(to, backup::service_user()); !given) return pass(given);
  if (auto synced = backup::sync_folder(to); !synced) return pass(synced);
  if (::unlink(marker_of(to).c_str()) != 0) return fail_errno(errno, "remove " + marker_of(to));
  if (auto synced = backup::sync_folder(to); !synced) return pass(synced);
  return prepared;
}

std::string about(const backup::Manifest& manifest) {
  const auto seconds = static_cast<std::time_t>(manifest.made_ns / 1'000'000'000);
  std::tm utc{};
  char text[32] = {};
  if (::gmtime_r(&seconds, &utc) != nullptr) {
    static_cast<void>(std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc));
  }
  return fmt::format("the backup of {} of system {}, made in run {} of its metadata server", text,
                     manifest.system, manifest.boot_epoch);
}

int run(const Arguments& arguments) {
  const auto manifest = backup::read_manifest(arguments.backup);
  if (!manifest) return complain(manifest.error());
  if (arguments.check) {
    if (auto whole = backup::check_backup(arguments.backup, *manifest); !whole) {
      return complain(whole.error());
    }
    if (arguments.json) {
      fmt::print("{}\n", write_json(to_json(*manifest)));
    } else {
      fmt::print("{} is whole\n", about(*manifest));
    }
    return kGood;
  }
  const auto prepared = restore(arguments, *manifest);
  if (!prepared) return complain(prepared.error());
  if (arguments.json) {
    fmt::print(
        "{{\"folder\": {}, \"files\": {}, \"laid_out\": {}, \"growing\": {}, \"stamp\": {}}}\n",
        write_json(Json(arguments.to)), prepared->files, prepared->laid_out, prepared->growing,
        prepared->stamp);
    return kGood;
  }
  fmt::print(
      "{} is {}\n"
      "{} inodes, {} files with objects at data servers, which are compared before they are "
      "served\n"
      "the cluster key has to be that with the fingerprint {} (weft key show), or what it was "
      "changed to\n"
      "next: start the metadata server; weft restored status\n",
      arguments.to, about(*manifest), prepared->files, prepared->laid_out, manifest->key);
  return kGood;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help") {
      fmt::print("{}", kHelp);
      return kGood;
    }
    if (argument == "--version") {
      fmt::print("{}\n", WEFT_VERSION);
      return kGood;
    }
    if (argument == "--json") {
      arguments.json = true;
    } else if (argument == "--check") {
      arguments.check = true;
    } else if (argument == "--to") {
      if (i + 1 == argc) return misused("--to needs a FOLDER");
      arguments.to = argv[++i];
    } else if (!argument.starts_with('-') && arguments.backup.empty()) {
      arguments.backup = argument;
    } else {
      return misused(unknown_word(argument, kOptions));
    }
  }
  if (arguments.backup.empty()) return misused("BACKUP is required");
  return run(arguments);
}
