#include "ganesha-fsal/admin/client.h"

#include "ganesha-fsal/admin/protocol.h"
#include "ganesha-fsal/admin/socket.h"

namespace weft::mds::admin {
namespace {

template <class Report>
Result<Report> ask(const std::string& path, std::chrono::milliseconds timeout,
                   const Request& request) {
  const Deadline deadline = after(timeout);
  auto fd = connect_to(path);
  if (!fd) return pass(fd);
  if (auto sent = send_frame(fd->get(), encode(request), deadline); !sent) return pass(sent);
  auto reply = receive_frame(fd->get(), kMaxReplyBytes, deadline);
  if (!reply) return pass(reply);
  return decode_reply<Report>(*reply);
}

}  // namespace

Result<StatusReport> Client::status() const {
  return ask<StatusReport>(path_, timeout_, {Operation::kStatus, {}});
}

Result<std::vector<DataServerReport>> Client::data_servers() const {
  return ask<std::vector<DataServerReport>>(path_, timeout_, {Operation::kDataServers, {}});
}

Result<FileReport> Client::file(const std::string& path) const {
  if (path.size() > kMaxArgumentBytes) return fail(Errc::kNameTooLong, path.substr(0, 64) + "...");
  return ask<FileReport>(path_, timeout_, {Operation::kFile, path});
}

}  // namespace weft::mds::admin
