// backup, and what became of a metadata store that came back from one.
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>

#include "ganesha-fsal/admin/client.h"
#include "ganesha-fsal/backup/backup_files.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/commands.h"
#include "tools/weft/output.h"
#include "tools/weft/report.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

// What is in memory and log of the metadata server is written to tables first.
constexpr std::chrono::minutes kPatience{10};

std::string time_text(std::int64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm utc{};
  char text[32] = {};
  if (::gmtime_r(&seconds, &utc) == nullptr) return "?";
  static_cast<void>(std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc));
  return text;
}

backup::BackupJob job_of(const mds::CheckpointReport& checkpoint, const std::string& configuration,
                         const std::string& folder) {
  return {.checkpoint = checkpoint.folder,
          .configuration = configuration,
          .folder = folder,
          .about = {.system = checkpoint.system,
                    .version = checkpoint.version,
                    .boot_epoch = checkpoint.boot_epoch,
                    .made_ns = checkpoint.made_ns,
                    .key = checkpoint.key,
                    .files = {}},
          .store_keeps_bytes = checkpoint.store_keeps_bytes,
          .confirm = {},
          .space = {}};
}

// What EndBackup answers of a checkpoint that went before.
bool says_gone(const Result<>& ended) {
  return !ended && (ended.error() == Errc::kNoSpace || ended.error() == Errc::kStale);
}

}  // namespace

std::string restored_text(const mds::RestoredReport& report) {
  if (!report.restored) return "this metadata store never came back from a backup\n";
  std::string out = fmt::format(
      "restored on {} from a backup of {}\n"
      "{} files are still to be compared with their objects\n"
      "{} files are longer than at the backup: they were written since\n"
      "{} files have lost bytes since the backup\n",
      time_text(report.restored_ns), time_text(report.made_ns), report.unchecked, report.grown,
      report.damaged);
  for (const mds::DamagedFileReport& file : report.files) {
    out += wrapped(fmt::format("  fileid {}: ", file.fileid),
                   fmt::format("{}: {} objects gone, {} cut",
                               file.path.empty() ? "no name found" : printable(file.path),
                               file.missing, file.cut));
  }
  if (report.damaged > report.files.size()) {
    out += fmt::format("  and {} more\n", report.damaged - report.files.size());
  }
  if (report.damaged > 0) {
    out +=
        "These answer I/O errors. Remove them, write them anew, or\n"
        "weft restored accept FILE: what is gone is zeros then.\n";
  }
  return out +
         "Files made since have no name any more;\n"
         "weft audit start --check tells of their objects\n";
}

int backup_command(const Settings& settings, const BackupOptions& options) {
  std::string configuration = options.configuration;
  struct stat there{};
  if (::stat(configuration.c_str(), &there) != 0) {
    if (options.configuration_named) return complain("there is no " + configuration);
    configuration.clear();
  }
  // What is in a backup is read without following links; where this one leads is the caller's word.
  std::error_code unknown;
  const auto real = std::filesystem::canonical(configuration, unknown);
  if (!unknown) configuration = real;
  const mds::admin::Client client(settings.socket, kPatience);
  const auto checkpoint = client.ask(mds::admin::BeginBackup{});
  if (!checkpoint) return complain_of_admin(settings.socket, checkpoint.error());
  std::optional<Result<>> ended;
  const auto end = [&]() -> Result<> {
    const auto answer = client.ask(mds::admin::EndBackup{checkpoint->id});
    ended = answer ? Result<>() : std::unexpected(answer.error());
    return *ended;
  };
  backup::BackupJob job = job_of(*checkpoint, configuration, options.folder);
  // An older server cannot say whether it is still the same checkpoint.
  if (!checkpoint->id.empty()) {
    job.confirm = [&]() -> Result<> {
      if (auto there = end(); there || says_gone(there)) return there;
      return fail(ended->error().code,
                  "the metadata server did not say that the checkpoint was there until it was "
                  "copied: " +
                      ended->error().text);
    };
  }
  const auto made = backup::make_backup(job);
  // If it cannot be told, it drops the checkpoint by itself.
  if (!ended) static_cast<void>(end());
  // What is missing in a checkpoint that went is no reason.
  if (!made) return complain((says_gone(*ended) ? ended->error() : made.error()).describe());
  std::uint64_t bytes = 0;
  for (const backup::File& file : made->files) bytes += file.bytes;
  if (settings.json) {
    print(Json{{"folder", options.folder},
               {"system", made->system},
               {"boot_epoch", made->boot_epoch},
               {"made_ns", made->made_ns},
               {"files", made->files.size()},
               {"bytes", bytes},
               {"configuration", !configuration.empty()}});
    return kExitGood;
  }
  print(fmt::format("{}: the metadata store as of {}, {} files, {} KiB\n{}\n", options.folder,
                    time_text(made->made_ns), made->files.size(), (bytes + 1023) / 1024,
                    configuration.empty()
                        ? options.configuration + " is not there, and so not in it"
                        : configuration + " is in it; keys are not"));
  if (!*ended) print("the metadata server was not told that it is done: " + ended->error().text);
  return kExitGood;
}

int restored_status_command(const Settings& settings) {
  const mds::admin::Client client(settings.socket, kPatience);
  const auto report = client.ask(mds::admin::GetRestored{});
  if (!report) return complain_of_admin(settings.socket, report.error());
  settings.json ? print(to_json(*report)) : print(restored_text(*report));
  return kExitGood;
}

}  // namespace weft::cli
