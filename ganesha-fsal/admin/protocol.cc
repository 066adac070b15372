#include "ganesha-fsal/admin/protocol.h"

namespace weft::mds {

std::string_view to_string(DsState state) {
  switch (state) {
    case DsState::kUp: return "up";
    case DsState::kSuspect: return "suspect";
    case DsState::kDown: return "down";
    case DsState::kUnknown: return "unknown";
  }
  return "unknown";
}

std::string_view to_string(EventLevel level) {
  switch (level) {
    case EventLevel::kNote: return "note";
    case EventLevel::kWarning: return "warning";
    case EventLevel::kError: return "error";
  }
  return "";
}

namespace admin {
namespace {

constexpr const char* kVersionName = "weft_admin";
constexpr int kMaxDepth = 16;  // of arrays and objects within each other

struct WireError {
  std::string code;
  std::string text;
};
template <class Io>
void describe(Io& io, WireError& r) {
  io("code", r.code, cut_at(64));
  io("text", r.text, cut_at(4096));
}

std::string line_of(Json members, std::uint32_t version) {
  Json message = Json::object();
  message[kVersionName] = version;
  message.update(members);
  return write_json(std::move(message)) + "\n";
}

// The version that the message says, if it is one of ours.
std::optional<std::uint32_t> spoken(const Json& message) {
  const Json& version = message.at(kVersionName);
  if (!version.is_number_unsigned()) return std::nullopt;
  const auto number = version.get<std::uint64_t>();
  if (number < kLeastVersion || number > kVersion) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

// An object of a version that we speak.
Result<Json> read_line(std::string_view line) {
  auto message = parse_json(line, kMaxDepth);
  if (!message || !message->is_object() || !message->contains(kVersionName)) {
    return fail(Errc::kProtocol, "not a message of the admin protocol");
  }
  if (!spoken(*message)) {
    return fail(Errc::kNotSupported,
                "the other side speaks version " + (*message)[kVersionName].dump().substr(0, 16) +
                    " of the admin protocol, this one " + std::to_string(kLeastVersion) + " and " +
                    std::to_string(kVersion) +
                    ": install the same version of weft and libfsalweft.so, restart ganesha.nfsd");
  }
  return message;
}

Errc code_named(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(Errc::kInternal); ++i) {
    const auto code = static_cast<Errc>(i);
    if (weft::to_string(code) == name) return code;
  }
  return Errc::kInternal;
}

}  // namespace

std::string request_line(const char* name, Json fields, std::uint32_t version) {
  Json members = Json::object();
  members["request"] = name;
  members.update(fields);
  return line_of(std::move(members), version);
}

std::string error_line(const Error& error, std::uint32_t version) {
  const WireError wire{std::string(weft::to_string(error.code)), error.text};
  return line_of({{"error", to_json(wire)}}, version);
}

std::string reply_line(Json report, std::uint32_t version) {
  return line_of({{"reply", std::move(report)}}, version);
}

std::optional<std::uint32_t> other_version(std::string_view line, std::uint32_t asked) {
  const auto message = read_line(line);
  if (!message) return std::nullopt;
  const auto version = spoken(*message);
  return version == asked ? std::nullopt : version;
}

Result<NamedRequest> read_request(std::string_view line) {
  auto message = read_line(line);
  if (!message) return pass(message);
  const auto name = message->find("request");
  if (name == message->end() || !name->is_string()) {
    return fail(Errc::kProtocol, "a message without a request");
  }
  return NamedRequest{*spoken(*message), name->get<std::string>(), std::move(*message)};
}

Result<Json> read_reply(std::string_view line) {
  auto message = read_line(line);
  if (!message) return pass(message);
  if (const auto reply = message->find("reply"); reply != message->end()) return std::move(*reply);
  const auto error = message->find("error");
  if (error == message->end()) return fail(Errc::kProtocol, "a reply that says nothing");
  auto wire = from_json<WireError>(*error, "error of the metadata server");
  if (!wire) return pass(wire);
  return fail(code_named(wire->code), std::move(wire->text));
}

}  // namespace admin
}  // namespace weft::mds
