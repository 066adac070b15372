// status, ds list, layout show, policy: what the metadata server knows, and is told.
#include <cstdlib>
#include <memory>

#include "ganesha-fsal/admin/client.h"
#include "tools/weft/commands.h"
#include "tools/weft/output.h"
#include "tools/weft/proc.h"
#include "tools/weft/report.h"
#include "tools/weft/table.h"

namespace weft::cli {

int status_command(const Settings& settings) {
  const auto system = mds::admin::Client(settings.socket).ask(mds::admin::GetStatus{});
  if (!system) return complain_of_admin(settings.socket, system.error());
  settings.json ? print(status_json(*system)) : print(status_text(*system));
  return kExitGood;
}

int ds_list_command(const Settings& settings) {
  const auto report = mds::admin::Client(settings.socket).ask(mds::admin::GetDataServers{});
  if (!report) return complain_of_admin(settings.socket, report.error());
  const auto& servers = report->data_servers;
  settings.json ? print(data_servers_json(servers)) : print(data_servers_text(servers));
  return kExitGood;
}

int ds_add_command(const Settings& settings) {
  if (settings.json) {
    print(Json{{"adds_itself", true},
               {"program", "weft-ds"},
               {"configuration", "weft-ds.toml"},
               {"needs", {"cluster.mds", "cluster.key_file"}}});
    return kExitGood;
  }
  print(std::string(
      "A data server adds itself: weft token, on this machine, prints the command to run on\n"
      "its machine, weft join. Or start weft-ds there with [cluster] naming the metadata\n"
      "server's Control_Address and the system's key file (weft-ds.toml(5)). It registers,\n"
      "and gets new files from then on. weft ds list shows it. weft ds rebalance moves files\n"
      "to it that are there already.\n"));
  return kExitGood;
}

int show_maintenance(const Settings& settings, const Result<mds::MaintenanceReport>& report) {
  if (!report) return complain_of_admin(settings.socket, report.error());
  settings.json ? print(to_json(*report)) : print(maintenance_text(*report));
  return kExitGood;
}

namespace {

// As clients see it in the export.
std::string exported(const std::string& path) {
  const auto mounts = read_mountstats();
  return path_in_export(mounts ? *mounts : std::vector<MountStats>{}, path);
}

int complain_of_path(const Settings& settings, const std::string& path, const Error& error) {
  if (error == Errc::kNotFound && error.text.empty()) {
    return complain("the export has no " + printable(path));
  }
  return complain_of_admin(settings.socket, error);
}

int show_policy(const Settings& settings, const std::string& path,
                const Result<mds::PolicyReport>& report) {
  if (!report) return complain_of_path(settings, path, report.error());
  settings.json ? print(policy_json(*report)) : print(policy_text(*report));
  return kExitGood;
}

}  // namespace

int layout_show_command(const Settings& settings, const std::string& file) {
  const std::string path = exported(file);
  auto report = mds::admin::Client(settings.socket).ask(mds::admin::GetFile{path});
  if (!report) return complain_of_path(settings, path, report.error());
  settings.json ? print(to_json(*report)) : print(file_text(*report));
  return kExitGood;
}

int scrub_command(const Settings& settings, const std::string& file, bool only_tell) {
  return maintain_command(settings, mds::admin::Scrub{.path = file.empty() ? "" : exported(file),
                                                      .only_tell = only_tell});
}

int scrub_resolve_command(const Settings& settings, const std::string& file,
                          const std::string& from) {
  const bool number = !file.empty() && file.find_first_not_of("0123456789") == std::string::npos;
  return maintain_command(
      settings, mds::admin::ResolveScrub{.file = number ? file : exported(file), .server = from});
}

int restored_accept_command(const Settings& settings, const std::string& file) {
  const bool number = file.find_first_not_of("0123456789") == std::string::npos;
  return maintain_command(settings, mds::admin::AcceptRestored{number ? file : exported(file)});
}

int scrub_status_command(const Settings& settings) {
  const auto system = mds::admin::Client(settings.socket).ask(mds::admin::GetStatus{});
  if (!system) return complain_of_admin(settings.socket, system.error());
  const mds::ScrubReport& scrub = system->status.scrub;
  settings.json ? print(to_json(scrub)) : print(scrub_text(scrub));
  return kExitGood;
}

int policy_show_command(const Settings& settings, const std::string& path) {
  const std::string whole = exported(path);
  return show_policy(settings, whole,
                     mds::admin::Client(settings.socket).ask(mds::admin::GetPolicy{whole}));
}

int policy_change_command(const Settings& settings, const std::string& path,
                          const std::string& keys) {
  const std::string whole = exported(path);
  return show_policy(
      settings, whole,
      mds::admin::Client(settings.socket).ask(mds::admin::ChangePolicy{whole, keys}));
}

int policy_set_command(const Settings& settings, const std::string& path,
                       const std::string& policy) {
  const std::string whole = exported(path);
  return show_policy(settings, whole,
                     mds::admin::Client(settings.socket).ask(mds::admin::SetPolicy{whole, policy}));
}

}  // namespace weft::cli
