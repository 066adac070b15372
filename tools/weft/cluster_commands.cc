// status, ds list, layout show: what the metadata server knows.
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "ganesha-fsal/admin/client.h"
#include "tools/weft/commands.h"
#include "tools/weft/output.h"
#include "tools/weft/proc.h"
#include "tools/weft/report.h"
#include "tools/weft/table.h"

namespace weft::cli {

int status_command(const Settings& settings) {
  const mds::admin::Client client(settings.socket);
  auto status = client.status();
  if (!status) return complain_of_admin(settings.socket, status.error());
  auto servers = client.data_servers();
  if (!servers) return complain_of_admin(settings.socket, servers.error());
  const ServerSnapshot system{std::move(*status), std::move(*servers)};
  settings.json ? print(status_json(system)) : print(status_text(system));
  return kExitGood;
}

int ds_list_command(const Settings& settings) {
  auto servers = mds::admin::Client(settings.socket).data_servers();
  if (!servers) return complain_of_admin(settings.socket, servers.error());
  settings.json ? print(data_servers_json(*servers)) : print(data_servers_text(*servers));
  return kExitGood;
}

int layout_show_command(const Settings& settings, const std::string& file) {
  const auto mounts = read_mountstats();
  const std::string path = path_in_export(mounts ? *mounts : std::vector<MountStats>{}, file);
  auto report = mds::admin::Client(settings.socket).file(path);
  if (!report && report.error() == Errc::kNotFound && report.error().text.empty()) {
    return complain("the export has no " + printable(path));
  }
  if (!report) return complain_of_admin(settings.socket, report.error());
  settings.json ? print(file_json(*report)) : print(file_text(*report));
  return kExitGood;
}

}  // namespace weft::cli
