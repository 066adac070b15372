// The admin socket's messages: what the `weft` command and the metadata server say to each other.
//
// A caller connects to the Unix socket, sends one request, gets one reply, and the connection
// ends. Each is a JSON object in a line of its own:
//
//   {"weft_admin":14,"request":"file","path":"/export/f"}  the request (admin/requests.h)
//   {"weft_admin":14,"reply":{...}}                        the report (admin/source.h)
//   {"weft_admin":14,"error":{"code":"...","text":"..."}}
//
// A reply is of the request's version. One that a server does not speak it answers with an error of
// its own version, and the caller asks again in that one, if it speaks it. Each speaks the present
// version and the one before, so that a `weft` and a metadata server understand each other while a
// system is upgraded: what a version adds to reports is newer() there (rpc/xdr/newer.h), and
// requests that it adds are answered kNotSupported by an older server.
//
// The readers believe nothing: lines, texts, lists and the depth have limits. Reports larger than
// the limits are cut when written (lists to their first elements, texts to their first bytes),
// never refused.
//
// Threading: pure functions on values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ganesha-fsal/admin/requests.h"
#include "rpc/base/error.h"
#include "rpc/xdr/describe_json.h"

namespace weft::mds::admin {

constexpr std::uint32_t kVersion = 14;
constexpr std::uint32_t kLeastVersion = 13;
constexpr std::size_t kMaxRequestBytes = std::size_t{32} << 10;  // of a line, as the next
constexpr std::size_t kMaxReplyBytes = std::size_t{16} << 20;
constexpr const char* kDefaultSocket = "/run/weft/mds.sock";

// Lines, with their ends.
[[nodiscard]] std::string request_line(const char* name, Json fields,
                                       std::uint32_t version = kVersion);
template <Request R>
[[nodiscard]] std::string request_line(const R& request, std::uint32_t version = kVersion) {
  return request_line(R::kName, to_json(request), version);
}
[[nodiscard]] std::string error_line(const Error& error, std::uint32_t version = kVersion);
[[nodiscard]] std::string reply_line(Json report, std::uint32_t version = kVersion);
template <class Report>
[[nodiscard]] std::string reply_line(const Report& report) {
  return reply_line(to_json(report));
}

// kProtocol for anything malformed, kNotSupported when the other side speaks another version.
struct NamedRequest {
  std::uint32_t version = kVersion;
  std::string name;
  Json message;  // with the request's fields
};
[[nodiscard]] Result<NamedRequest> read_request(std::string_view line);
// Which version a reply is of, if that is another than `asked`, and one that we speak: the request
// is to be made in that one.
[[nodiscard]] std::optional<std::uint32_t> other_version(std::string_view line,
                                                         std::uint32_t asked = kVersion);
// The report; or the error that the other side sent; or one as above.
[[nodiscard]] Result<Json> read_reply(std::string_view line);
template <class Report>
[[nodiscard]] Result<Report> read_reply(std::string_view line) {
  auto report = read_reply(line);
  if (!report) return pass(report);
  return from_json<Report>(*report, "reply of the metadata server");
}

}  // namespace weft::mds::admin
