#include "ganesha-fsal/admin/reply_room.h"

#include "rpc/xdr/describe_json.h"

namespace weft::mds::admin {
namespace {

template <class Record>
std::size_t bytes_of(const Record& record) {
  return write_json(to_json(record)).size();
}

bool take(std::size_t& room, std::size_t bytes) {
  if (bytes > room) return false;
  room -= bytes;
  return true;
}

std::string why_left_out(const ServerName& server) {
  return "one answer has no room for all: weft config show " + std::to_string(server.id);
}

void fit_options(std::vector<OptionReport>& options, std::string& why, const ServerName& server,
                 std::size_t& room) {
  std::size_t bytes = 0;
  for (const OptionReport& option : options) bytes += bytes_of(option);
  if (take(room, bytes)) return;
  options.clear();
  if (why.empty()) why = why_left_out(server);
}

std::size_t bytes_without_options(AboutTargetReport& target) {
  std::vector<OptionReport> options = std::move(target.options);
  target.options.clear();
  const std::size_t bytes = bytes_of(target);
  target.options = std::move(options);
  return bytes;
}

}  // namespace

void fit(ServersOptionsReport& report, ReplyRoom room) {
  for (ServerOptionsReport& one : report.servers) {
    fit_options(one.options, one.why, one.server, room.options);
  }
}

void fit(TargetsReport& report, ReplyRoom room) {
  for (ServerTargetsReport& server : report.servers) {
    std::size_t bytes = 0;
    for (AboutTargetReport& target : server.targets) {
      fit_options(target.options, target.why, server.server, room.options);
      bytes += bytes_without_options(target);
    }
    if (take(room.targets, bytes)) continue;
    server.targets.clear();
    if (server.why.empty()) server.why = why_left_out(server.server);
  }
}

}  // namespace weft::mds::admin
