#include "tools/weft/config_show.h"

#include <spdlog/fmt/fmt.h>

#include "ganesha-fsal/admin/client.h"
#include "tools/weft/output.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

std::string or_dash(const std::string& text) { return text.empty() ? "-" : printable(text); }

std::string options_text(const std::vector<mds::OptionReport>& options) {
  Table table({"OPTION", "VALUE", "DEFAULT"});
  for (const mds::OptionReport& option : options) {
    table.add({printable(option.name), or_dash(option.value),
               option.is_default() ? "yes" : "no: " + or_dash(option.by_default)});
  }
  return table.empty() ? "all are the defaults\n" : table.text();
}

Json options_json(const std::vector<mds::OptionReport>& options) {
  Json rows = Json::array();
  for (const mds::OptionReport& option : options) {
    rows.push_back(to_json(option));
    rows.back()["is_default"] = option.is_default();
  }
  return rows;
}

}  // namespace

std::string config_text(const mds::ConfigReport& report) {
  std::string out = "metadata server\n" + options_text(report.options);
  for (const mds::ExportReport& one : report.exports) {
    out += fmt::format("\nexport {} {}\n", one.id, printable(one.path)) + options_text(one.options);
  }
  return out;
}

Json config_json(const mds::ConfigReport& report) {
  Json exports = Json::array();
  for (const mds::ExportReport& one : report.exports) {
    exports.push_back({{"id", one.id}, {"path", one.path}, {"options", options_json(one.options)}});
  }
  return {{"options", options_json(report.options)}, {"exports", exports}};
}

mds::ConfigReport only_changed(mds::ConfigReport report) {
  std::erase_if(report.options, &mds::OptionReport::is_default);
  for (mds::ExportReport& one : report.exports) {
    std::erase_if(one.options, &mds::OptionReport::is_default);
  }
  return report;
}

int config_show_command(const Settings& settings, bool changed) {
  auto report = mds::admin::Client(settings.socket).ask(mds::admin::GetConfig{});
  if (!report) return complain_of_admin(settings.socket, report.error());
  if (changed) report = only_changed(std::move(*report));
  settings.json ? print(config_json(*report)) : print(config_text(*report));
  return kExitGood;
}

}  // namespace weft::cli
