// The admin socket's messages: what the `weft` command and the metadata server say to each other.
//
// A caller connects to the Unix socket, sends one request, gets one reply, and the connection
// ends. Each is a JSON object in a line of its own:
//
//   {"weft_admin":12,"request":"file","argument":"/export/f","value":""}
//   {"weft_admin":12,"reply":{...}}                        the report (admin/source.h)
//   {"weft_admin":12,"error":{"code":"...","text":"..."}}
//
// The readers believe nothing: lines, texts, lists and the depth have limits. Reports larger than
// the limits are cut when written (lists to their first elements, texts to their first bytes),
// never refused.
//
// Threading: pure functions on values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ganesha-fsal/admin/source.h"
#include "rpc/base/error.h"
#include "rpc/xdr/describe_json.h"

namespace weft::mds::admin {

constexpr std::uint32_t kVersion = 12;
constexpr std::size_t kMaxRequestBytes = std::size_t{32} << 10;  // of a line, as the next
constexpr std::size_t kMaxReplyBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxArgumentBytes = 4096;
constexpr std::size_t kMaxValueBytes = 512;
constexpr const char* kDefaultSocket = "/run/weft/mds.sock";

enum class Operation : std::uint32_t {
  kStatus = 1,       // SystemReport
  kDataServers = 2,  // DataServersReport
  kFile = 3,         // FileReport
  kPolicy = 4,       // PolicyReport, as the next
  kSetPolicy = 5,
  kMaintain = 6,      // MaintenanceReport
  kChangePolicy = 7,  // PolicyReport
};
// "status", "data-servers", "file", "policy", "set-policy", "maintain", "change-policy".
[[nodiscard]] std::string_view to_string(Operation operation);

struct Request {
  Operation operation = Operation::kStatus;
  std::string argument;  // of a file or a policy: the path; kMaintain: what
  std::string value;     // kSetPolicy: the policy; kChangePolicy: keys of it; kMaintain: whom

  friend bool operator==(const Request&, const Request&) = default;
};
template <class Io>
void describe(Io& io, Request& r) {
  io("request", r.operation, among(Operation::kStatus, Operation::kChangePolicy));
  io("argument", r.argument, at_most(kMaxArgumentBytes));
  io("value", r.value, at_most(kMaxValueBytes));
  io.check(!r.argument.contains('\0') && !r.value.contains('\0'));
}

struct DataServersReport {
  std::vector<DataServerReport> data_servers;
};
template <class Io>
void describe(Io& io, DataServersReport& r) {
  io("data_servers", r.data_servers, cut_at(kLongList));
}

// Lines, with their ends.
[[nodiscard]] std::string request_line(const Request& request);
[[nodiscard]] std::string error_line(const Error& error);
[[nodiscard]] std::string reply_line(Json report);
template <class Report>
[[nodiscard]] std::string reply_line(const Report& report) {
  return reply_line(to_json(report));
}

// kProtocol for anything malformed, kNotSupported when the other side speaks another version.
[[nodiscard]] Result<Request> read_request(std::string_view line);
// The report; or the error that the other side sent; or one as above.
[[nodiscard]] Result<Json> read_reply(std::string_view line);
template <class Report>
[[nodiscard]] Result<Report> read_reply(std::string_view line) {
  auto report = read_reply(line);
  if (!report) return pass(report);
  return from_json<Report>(*report, "reply of the metadata server");
}

}  // namespace weft::mds::admin
