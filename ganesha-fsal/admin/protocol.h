// The admin socket's messages: what the `weft` command and the metadata server say to each other.
//
// A caller connects to the Unix socket, sends one request, gets one reply, and the connection
// ends. Both are framed by their length (u32, big-endian) and encoded in XDR:
//
//   request   u32 magic "WFTA" | u32 version (7) | u32 operation | string argument<4096> |
//             string value<512>
//   reply     u32 magic | u32 version | u32 0 | the report
//             u32 magic | u32 version | u32 1 | string code<64> | string text<4096>
//
// The decoders believe nothing: every string and list has a limit (see the .cc), and what is left
// over after a message is an error. Reports larger than the limits are cut when encoded (lists to
// their first elements, strings to their first bytes), never refused.
//
// Threading: pure functions on values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "rpc/base/error.h"

namespace weft::mds::admin {

constexpr std::uint32_t kMagic = 0x57465441;
constexpr std::uint32_t kVersion = 7;
constexpr std::size_t kMaxRequestBytes = std::size_t{8} << 10;
constexpr std::size_t kMaxReplyBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxArgumentBytes = 4096;
constexpr std::size_t kMaxValueBytes = 512;
constexpr const char* kDefaultSocket = "/run/weft/mds.sock";

enum class Operation : std::uint32_t {
  kStatus = 1,
  kDataServers = 2,
  kFile = 3,
  kPolicy = 4,
  kSetPolicy = 5,
  kMaintain = 6,
};

struct Request {
  Operation operation = Operation::kStatus;
  std::string argument;  // kFile, kPolicy, kSetPolicy: the path; kMaintain: what
  std::string value;     // kSetPolicy: the policy; kMaintain: whom

  friend bool operator==(const Request&, const Request&) = default;
};

using Bytes = std::vector<std::byte>;

[[nodiscard]] Bytes encode(const Request& request);
// kProtocol for anything malformed, kNotSupported for an operation or version not known.
[[nodiscard]] Result<Request> decode_request(std::span<const std::byte> bytes);

[[nodiscard]] Bytes encode_reply(const StatusReport& report);
[[nodiscard]] Bytes encode_reply(const std::vector<DataServerReport>& report);
[[nodiscard]] Bytes encode_reply(const FileReport& report);
[[nodiscard]] Bytes encode_reply(const PolicyReport& report);
[[nodiscard]] Bytes encode_reply(const MaintenanceReport& report);
[[nodiscard]] Bytes encode_reply(const Error& error);

// The error the other side sent, or kProtocol for anything malformed.
template <class Report>
[[nodiscard]] Result<Report> decode_reply(std::span<const std::byte> bytes);
extern template Result<StatusReport> decode_reply(std::span<const std::byte>);
extern template Result<std::vector<DataServerReport>> decode_reply(std::span<const std::byte>);
extern template Result<FileReport> decode_reply(std::span<const std::byte>);
extern template Result<PolicyReport> decode_reply(std::span<const std::byte>);
extern template Result<MaintenanceReport> decode_reply(std::span<const std::byte>);

}  // namespace weft::mds::admin
