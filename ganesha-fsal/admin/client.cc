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

// A path that a request would cut short names nothing.
Result<> check_path(const std::string& path) {
  if (path.size() <= kMaxArgumentBytes) return {};
  return fail(Errc::kNameTooLong, path.substr(0, 64) + "...");
}

}  // namespace

Result<StatusReport> Client::status() const {
  return ask<StatusReport>(path_, timeout_, {.operation = Operation::kStatus});
}

Result<std::vector<DataServerReport>> Client::data_servers() const {
  return ask<std::vector<DataServerReport>>(path_, timeout_,
                                            {.operation = Operation::kDataServers});
}

Result<FileReport> Client::file(const std::string& path) const {
  if (auto fine = check_path(path); !fine) return pass(fine);
  return ask<FileReport>(path_, timeout_, {Operation::kFile, path, {}});
}

Result<PolicyReport> Client::policy(const std::string& path) const {
  if (auto fine = check_path(path); !fine) return pass(fine);
  return ask<PolicyReport>(path_, timeout_, {Operation::kPolicy, path, {}});
}

Result<PolicyReport> Client::set_policy(const std::string& path, const std::string& policy) const {
  if (auto fine = check_path(path); !fine) return pass(fine);
  if (policy.size() > kMaxValueBytes) return fail(Errc::kInvalid, "a policy of over 512 bytes");
  return ask<PolicyReport>(path_, timeout_, {Operation::kSetPolicy, path, policy});
}

Result<MaintenanceReport> Client::maintain(const std::string& what, const std::string& whom) const {
  if (whom.size() > kMaxValueBytes) return fail(Errc::kInvalid, "a name of over 512 bytes");
  return ask<MaintenanceReport>(path_, timeout_, {Operation::kMaintain, what, whom});
}

}  // namespace weft::mds::admin
