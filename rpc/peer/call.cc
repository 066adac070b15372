#include "rpc/peer/call.h"

#include <array>
#include <utility>

#include "rpc/base/log_text.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc::peer {
namespace {

constexpr std::uint32_t kMessageCall = 0;
constexpr std::uint32_t kMessageReply = 1;
constexpr std::uint32_t kRpcVersion = 2;
constexpr std::uint32_t kAccepted = 0;
constexpr std::uint32_t kSuccess = 0;

struct StatusName {
  std::uint32_t status;
  Errc code;
};

constexpr std::array kStatuses = {
    StatusName{1, Errc::kInternal},     StatusName{2, Errc::kNotFound},
    StatusName{3, Errc::kAccess},       StatusName{4, Errc::kIo},
    StatusName{5, Errc::kNoSpace},      StatusName{6, Errc::kQuota},
    StatusName{7, Errc::kFileTooLarge}, StatusName{8, Errc::kCorrupt},
    StatusName{9, Errc::kStale},        StatusName{10, Errc::kFenced},
    StatusName{11, Errc::kInvalid},     StatusName{12, Errc::kProtocol},
    StatusName{13, Errc::kTooLarge},    StatusName{14, Errc::kNotSupported},
    StatusName{15, Errc::kTimedOut},    StatusName{16, Errc::kBusy},
    StatusName{17, Errc::kExists},      StatusName{18, Errc::kReadOnly},
    StatusName{19, Errc::kClosed},      StatusName{20, Errc::kCancelled},
};

// An empty authenticator: AUTH_NONE, no bytes.
void put_no_auth(xdr::Encoder& out) {
  out.u32(0);
  out.u32(0);
}

bool take_no_auth(xdr::Decoder& in) {
  const std::uint32_t flavor = in.u32();
  return in.opaque(0).empty() && in.ok() && flavor == 0;
}

Bytes rest(xdr::Decoder& in, std::span<const std::byte> payload) {
  const auto left = payload.subspan(in.position());
  return {left.begin(), left.end()};
}

Result<Call> decode_call(std::uint32_t xid, xdr::Decoder& in, std::span<const std::byte> payload,
                         std::uint32_t version) {
  const bool ours = in.u32() == kRpcVersion && in.u32() == kProgram && in.u32() == version;
  Call call{.xid = xid, .verb = in.u32(), .arguments = {}};
  const bool no_auth = take_no_auth(in) && take_no_auth(in);
  if (!in.ok() || !ours || !no_auth) return fail(Errc::kProtocol, "not a control call");
  call.arguments = rest(in, payload);
  return call;
}

Result<Reply> decode_reply(std::uint32_t xid, xdr::Decoder& in,
                           std::span<const std::byte> payload) {
  const bool accepted = in.u32() == kAccepted && take_no_auth(in) && in.u32() == kSuccess;
  const std::uint32_t status = in.u32();
  if (!in.ok() || !accepted) return fail(Errc::kProtocol, "not a control reply");
  if (status == 0) return Reply{xid, rest(in, payload)};
  const std::string text = in.string(kMaxErrorText);
  if (!in.ok() || in.remaining() != 0) return fail(Errc::kProtocol, "malformed control error");
  return Reply{xid, fail(errc_from_wire(status), log_text(text))};
}

}  // namespace

std::uint32_t wire_status(Errc code) {
  for (const StatusName& known : kStatuses) {
    if (known.code == code) return known.status;
  }
  return wire_status(Errc::kInternal);
}

Errc errc_from_wire(std::uint32_t status) {
  for (const StatusName& known : kStatuses) {
    if (known.status == status) return known.code;
  }
  return Errc::kInternal;
}

Bytes encode_call(std::uint32_t xid, std::uint32_t version, std::uint32_t verb,
                  std::span<const std::byte> arguments) {
  xdr::Encoder out(40 + arguments.size());
  out.u32(xid);
  out.u32(kMessageCall);
  out.u32(kRpcVersion);
  out.u32(kProgram);
  out.u32(version);
  out.u32(verb);
  put_no_auth(out);
  put_no_auth(out);
  Bytes bytes = out.take();
  bytes.insert(bytes.end(), arguments.begin(), arguments.end());
  return bytes;
}

Bytes encode_reply(std::uint32_t xid, const Result<Bytes>& results) {
  xdr::Encoder out(64);
  out.u32(xid);
  out.u32(kMessageReply);
  out.u32(kAccepted);
  put_no_auth(out);
  out.u32(kSuccess);
  if (!results) {
    out.u32(wire_status(results.error().code));
    out.string(std::string_view(results.error().text).substr(0, kMaxErrorText));
    return out.take();
  }
  out.u32(0);
  Bytes bytes = out.take();
  bytes.insert(bytes.end(), results->begin(), results->end());
  return bytes;
}

Result<std::variant<Call, Reply>> decode_message(std::span<const std::byte> payload,
                                                 std::uint32_t version) {
  xdr::Decoder in(payload);
  const std::uint32_t xid = in.u32();
  const std::uint32_t direction = in.u32();
  if (in.ok() && direction == kMessageCall) {
    auto call = decode_call(xid, in, payload, version);
    if (!call) return pass(call);
    return std::move(*call);
  }
  if (in.ok() && direction == kMessageReply) {
    auto reply = decode_reply(xid, in, payload);
    if (!reply) return pass(reply);
    return std::move(*reply);
  }
  return fail(Errc::kProtocol, "neither call nor reply");
}

Result<std::uint32_t> PendingCalls::add(Clock::time_point deadline, Done<Bytes>&& done) {
  if (calls_.size() >= limit_) return fail(Errc::kBusy, "too many control calls under way");
  while (calls_.contains(next_xid_)) ++next_xid_;
  const std::uint32_t xid = next_xid_++;
  calls_.emplace(xid, Waiting{deadline, std::move(done)});
  deadlines_.emplace(deadline, xid);
  return xid;
}

void PendingCalls::answer(Reply reply) {
  const auto found = calls_.find(reply.xid);
  if (found == calls_.end()) return;
  Waiting waiting = std::move(found->second);
  calls_.erase(found);
  auto [at, end] = deadlines_.equal_range(waiting.deadline);
  while (at != end && at->second != reply.xid) ++at;
  if (at != end) deadlines_.erase(at);
  waiting.done(std::move(reply.results));
}

void PendingCalls::expire(Clock::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    answer({deadlines_.begin()->second, fail(Errc::kTimedOut, "no answer to a control call")});
  }
}

void PendingCalls::fail_all(const Error& why) {
  // Completions may add calls: those are not of the connection that failed.
  auto calls = std::exchange(calls_, {});
  deadlines_.clear();
  for (auto& [xid, waiting] : calls) waiting.done(std::unexpected(why));
}

}  // namespace weft::rpc::peer
