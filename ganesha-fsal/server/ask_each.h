// One question to every data server, for who wants to know what each has.
//
// Threading: any thread; it waits for the answers.
#pragma once

#include <functional>
#include <vector>

#include "ganesha-fsal/files/in_parallel.h"
#include "ganesha-fsal/server/admin_maintenance.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {

// A report for each data server, by id: take(report, answer) writes what it said into its own,
// whose `why` says why there is no answer. Data servers that do not answer cost their deadline
// once, not one after the other.
template <class Report, class Request, class Take>
std::vector<Report> ask_each(MetadataServer& server, const Request& request, const Take& take) {
  constexpr std::size_t kAtOnce = 16;
  const std::vector<ServerView> data_servers = server.cluster().registry().list();
  std::vector<Report> reports(data_servers.size());
  in_parallel(data_servers.size(), kAtOnce, [&](std::size_t at) {
    const ServerView& view = data_servers[at];
    Report& report = reports[at];
    report.server = name_of(view);
    if (!view.connected) {
      report.why = "it is not connected";
      return;
    }
    if (auto answer = server.cluster().ask(view.record.id, request); answer) {
      take(report, *answer);
    } else {
      report.why = answer.error().describe();
    }
  });
  return reports;
}

}  // namespace weft::mds
