#include "ganesha-fsal/glue/server_options.h"

#include <utility>

namespace weft::mds {
namespace {

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

}  // namespace

ServerOptions server_options(const weft_options& options) {
  ServerOptions ours;
  ours.control_address = text_or_empty(options.control_address);
  ours.key_file = text_or_empty(options.key_file);
  ours.admin_socket = text_or_empty(options.admin_socket);
  ours.metrics_address = text_or_empty(options.metrics_address);
  ours.status_address = text_or_empty(options.status_address);
  ours.shared_root = options.shared_root;
  ours.recall_timeout = std::chrono::seconds(options.recall_timeout);
  ours.kept_layouts = options.kept_layouts;
  ours.by_load = options.by_load;
  ours.data_server_lease = std::chrono::seconds(options.data_server_lease);
  ours.proxy_memory = std::size_t{options.proxy_memory} << 20;
  ours.proxy_timeout = std::chrono::seconds(options.proxy_timeout);
  ours.shared_memory = options.shared_memory;
  ours.rdma = options.rdma;
  ours.resync_rate = std::uint64_t{options.resync_rate} << 20;
  ours.replace_after = std::chrono::seconds(options.replace_after);
  ours.scrub_every = std::chrono::seconds(options.scrub_every);
  return ours;
}

std::vector<OptionReport> option_reports(const weft_options& options, OptionsOf whose) {
  std::vector<OptionReport> reports;
  for (OptionValue& one : option_values(options, whose)) {
    reports.push_back({std::string(one.name), std::move(one.value), std::move(one.by_default)});
  }
  return reports;
}

layout::PlacementPolicy placement_policy(const weft_options& options) {
  layout::PlacementPolicy base;
  // A server is full for new files when it has no room for a stripe unit: how much is to be kept
  // free beyond that depends on its size, and is its file system's to say.
  base.reserve_bytes = options.stripe_unit;
  return layout::placement_policy(export_policy(options), layout_type(options), base);
}

}  // namespace weft::mds
