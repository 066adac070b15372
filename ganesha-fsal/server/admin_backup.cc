#include "ganesha-fsal/server/admin_backup.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <set>

#include "ganesha-fsal/server/admin_reports.h"
#include "rpc/control/messages.h"

namespace weft::mds {
namespace {

using State = RestoredRecord::State;

constexpr std::size_t kMostListed = 1000;     // damaged files
constexpr std::size_t kMostCounted = 10'000;  // restored files, for the status
constexpr std::size_t kPage = 1000;

Result<CheckpointReport> begin(MetadataServer& server) {
  // Nothing that the checkpoint has not is of before.
  const std::int64_t made_ns = server.environment().clock.wall_ns();
  auto checkpoint = server.backups().begin();
  if (!checkpoint) return pass(checkpoint);
  const SuperblockInfo& super = server.names().superblock();
  return CheckpointReport{.folder = std::move(checkpoint->folder),
                          .system = control::to_string(super.cluster_uuid),
                          .version = WEFT_VERSION,
                          .boot_epoch = super.boot_epoch,
                          .made_ns = made_ns,
                          .key = rpc::peer::fingerprint_text(server.keys().first()),
                          .id = std::move(checkpoint->id),
                          .store_keeps_bytes = server.store_health().keeps_bytes};
}

Result<MaintenanceReport> end(MetadataServer& server, const admin::EndBackup& request) {
  if (auto ended = server.backups().end(request.checkpoint); !ended) return pass(ended);
  return MaintenanceReport{.action = admin::EndBackup::kName};
}

// Calls `visit` for every file that is not found to fit.
template <class Visit>
Result<> each_restored(Namespace& names, const Visit& visit) {
  FileId after = 0;
  for (;;) {
    auto page = names.restored_files(after, kPage);
    if (!page) return pass(page);
    for (const Namespace::RestoredFile& file : *page) visit(file);
    if (page->size() < kPage) return {};
    after = page->back().id;
  }
}

Result<RestoredReport> status(MetadataServer& server) {
  Namespace& names = server.names();
  RestoredReport report;
  if (!names.restore()) return report;
  report.restored = true;
  report.made_ns = names.restore()->made_ns;
  report.restored_ns = names.restore()->restored_ns;
  auto grown = names.restored_grown();
  if (!grown) return pass(grown);
  report.grown = *grown;
  std::set<FileId> damaged;
  auto looked = each_restored(names, [&](const Namespace::RestoredFile& file) {
    if (file.record.state == State::kUnchecked) {
      ++report.unchecked;
      return;
    }
    ++report.damaged;
    if (report.files.size() >= kMostListed) return;
    report.files.push_back({file.id, "", file.record.missing, file.record.cut});
    damaged.insert(file.id);
  });
  if (!looked) return pass(looked);
  auto paths = names.names_of(damaged);
  if (!paths) return pass(paths);
  for (DamagedFileReport& file : report.files) {
    if (const auto path = paths->find(file.fileid); path != paths->end()) file.path = path->second;
  }
  return report;
}

// A number, or a path as clients see it.
Result<FileId> file_of(MetadataServer& server, const std::string& text) {
  FileId id = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, id);
  if (parsed.ec == std::errc() && parsed.ptr == end) return id;
  const auto where = server.environment().find_path(text);
  if (!where) return in_no_export(server, text);
  auto top = server.names().path_of(where->root);
  if (!top) return pass(top);
  auto found = server.names().lookup_path(*top + where->path);
  if (!found) return pass(found);
  return found->id;
}

Result<MaintenanceReport> accept(MetadataServer& server, const admin::AcceptRestored& request) {
  std::set<FileId> files;
  if (request.file.empty()) {
    auto looked = each_restored(server.names(), [&](const Namespace::RestoredFile& file) {
      if (file.record.state == State::kDamaged) files.insert(file.id);
    });
    if (!looked) return pass(looked);
  } else {
    auto file = file_of(server, request.file);
    if (!file) return pass(file);
    files.insert(*file);
  }
  std::size_t failed = 0;
  Error first{Errc::kInternal, ""};
  for (const FileId file : files) {
    auto accepted = server.data().accept_restored(file);
    if (accepted || failed++ > 0) continue;
    first = accepted.error();
    if (files.size() > 1) first.text = fmt::format("file {}: {}", file, first.text);
  }
  if (failed > 0 && files.size() > 1) {
    first.text = fmt::format("{} files are served as they are, {} {} not: {}",
                             files.size() - failed, failed, failed > 1 ? "are" : "is", first.text);
  }
  if (failed > 0) return std::unexpected(first);
  MaintenanceReport report{.action = request.kName};
  report.files = files.size();
  return report;
}

}  // namespace

void add_backup(MetadataServer& server, admin::Table& table) {
  table.on<admin::BeginBackup>([&server](auto&) { return begin(server); });
  table.on<admin::EndBackup>(
      [&server](const admin::EndBackup& request) { return end(server, request); });
  table.on<admin::GetRestored>([&server](auto&) { return status(server); });
  table.on<admin::AcceptRestored>(
      [&server](const admin::AcceptRestored& request) { return accept(server, request); });
}

void add_restored(const Namespace& names, StatusReport& report) {
  report.restored = names.restore().has_value();
  const auto files = names.restored_files(0, kMostCounted);
  if (!files) return;
  for (const Namespace::RestoredFile& file : *files) {
    const bool damaged = file.record.state == State::kDamaged;
    ++(damaged ? report.restored_damaged : report.restored_unchecked);
  }
}

}  // namespace weft::mds
