// What the metadata server tells of configurations as they run, its own and data servers'
// (requests.h); as source.h.
//
// Threading: plain values.
#pragma once

#include <algorithm>

#include "ganesha-fsal/admin/source.h"

namespace weft::mds {

// An option as a configuration file has it. Of files with secrets these are paths, not what is in
// them.
struct OptionReport {
  std::string name;
  std::string value;
  std::string by_default;

  [[nodiscard]] bool is_default() const { return value == by_default; }
  friend bool operator==(const OptionReport&, const OptionReport&) = default;
};
template <class Io>
void describe(Io& io, OptionReport& r) {
  io("name", r.name, cut_at(kMaxReportText));
  io("value", r.value, cut_at(kMaxReportPath));
  io("default", r.by_default, cut_at(kMaxReportText));
}

struct ExportReport {
  std::uint32_t id = 0;
  std::string path;                   // as clients mount it
  std::vector<OptionReport> options;  // of its own, which are taken when a file is made
};
template <class Io>
void describe(Io& io, ExportReport& r) {
  io("id", r.id);
  io("path", r.path, cut_at(kMaxReportPath));
  io("options", r.options, cut_at(kShortList));
}

constexpr std::size_t kMostOptions = 128;  // of a data server

// Those that hold at a data server, by the keys of its configuration file.
struct ServerOptionsReport {
  ServerName server;
  std::vector<OptionReport> options;
  std::string why;  // they are not known; empty otherwise
};
template <class Io>
void describe(Io& io, ServerOptionsReport& r) {
  io("server", r.server);
  io("options", r.options, cut_at(kMostOptions));
  io("why", r.why, cut_at(kMaxReportText));
}

struct ServersOptionsReport {
  std::vector<ServerOptionsReport> servers;  // by id
};
template <class Io>
void describe(Io& io, ServersOptionsReport& r) {
  io("servers", r.servers, cut_at(kLongList));
}

// A target as a program, as it told a data server of its.
struct AboutTargetReport {
  std::string address;  // empty: of all that the data server may have
  std::string version;
  std::vector<OptionReport> options;
  std::string why;  // they are not known; empty otherwise
};
template <class Io>
void describe(Io& io, AboutTargetReport& r) {
  io("address", r.address, cut_at(kMaxReportText));
  io("version", r.version, cut_at(kMaxReportText));
  io("options", r.options, cut_at(kMostOptions));
  io("why", r.why, cut_at(kMaxReportText));
}
struct ServerTargetsReport {
  ServerName server;
  std::vector<AboutTargetReport> targets;
  std::string why;  // as of options
};
template <class Io>
void describe(Io& io, ServerTargetsReport& r) {
  io("server", r.server);
  io("targets", r.targets, cut_at(kShortList));
  io("why", r.why, cut_at(kMaxReportText));
}
struct TargetsReport {
  std::vector<ServerTargetsReport> servers;  // by id
};
template <class Io>
void describe(Io& io, TargetsReport& r) {
  io("servers", r.servers, cut_at(kLongList));
}
// In ServerTargetsReport::why.
constexpr const char* kTooOldForTargets = "too old to tell of its targets";
// Of that data server; empty: they are known, or it was not asked.
inline std::string why_no_targets(const TargetsReport& report, std::uint32_t id) {
  const auto is_it = [id](const ServerTargetsReport& one) { return one.server.id == id; };
  const auto found = std::ranges::find_if(report.servers, is_it);
  return found == report.servers.end() ? "" : found->why;
}

struct ConfigReport {
  // What exports share that have one metadata store: as the first of them said.
  std::vector<OptionReport> options;
  std::vector<ExportReport> exports;
};
template <class Io>
void describe(Io& io, ConfigReport& r) {
  io("options", r.options, cut_at(kShortList));
  io("exports", r.exports, cut_at(kLongList));
}

}  // namespace weft::mds
