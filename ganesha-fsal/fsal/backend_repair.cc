// Backend: what makes copies equal again, and what it needs of the rest.
#include "ganesha-fsal/fsal/backend.h"

namespace weft::mds {

void Backend::start_repair(const weft_options& options) {
  copy_servers_ = std::make_unique<ClusterCopyServers>(*cluster_);
  Repairer::Limits limits;
  limits.bytes_per_second = std::uint64_t{options.resync_rate} << 20;
  repairer_ = std::make_unique<Repairer>(
      Repairer::Parts{.names = *names_,
                      .servers = *copy_servers_,
                      .here =
                          [this] {
                            std::vector<std::uint32_t> here;
                            for (const ServerView& view : cluster_->registry().list()) {
                              if (view.connected) here.push_back(view.record.id);
                            }
                            return here;
                          },
                      .pin = [this](FileId file) { return pin_writers(file); },
                      .compared = [this] { data_->retry_settling(); },
                      .limits = limits});
  repairer_->start();
}

Result<PinnedFile> Backend::pin_writers(FileId file) {
  auto target =
      mirrors_->begin_write(file, [](const InodeAttributes&) -> Result<layout::LayoutMap> {
        return fail(Errc::kStale, "no layout");
      });
  if (!target) return pass(target);
  const auto kept = std::make_shared<Mirrors::Target>(std::move(*target));
  return PinnedFile{kept->map, kept->leads, kept};
}

}  // namespace weft::mds
