// The admin socket's readers, both directions: JSON into described records.
#include <cstdlib>

#include "ganesha-fsal/admin/protocol.h"

using namespace weft;
using namespace weft::mds;
using namespace weft::mds::admin;

namespace {

// What was read is what was meant: it is written as something that reads the same.
template <class Report>
void report(std::string_view line) {
  const auto read = read_reply<Report>(line);
  if (!read) return;
  const std::string written = reply_line(*read);
  const auto again = read_reply<Report>(written);
  if (!again || reply_line(*again) != written) std::abort();
}

template <class R>
void request(const Json& message) {
  const auto meant = from_json<R>(message, "request");
  if (!meant) return;
  const auto read = read_request(request_line(*meant));
  const auto again = from_json<R>(read->message, "request");
  if (!again || request_line(*again) != request_line(*meant)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  if (const auto read = read_request(line)) {
    request<GetFile>(read->message);
    request<GetEvents>(read->message);
    request<GetServerOptions>(read->message);
    request<SetPolicy>(read->message);
    request<GiveUp>(read->message);
    request<Rebalance>(read->message);
    request<ResolveScrub>(read->message);
    request<AcceptRestored>(read->message);
    request<EndBackup>(read->message);
  }
  report<SystemReport>(line);
  report<DataServersReport>(line);
  report<PolicyReport>(line);
  report<MaintenanceReport>(line);
  report<FileReport>(line);
  report<CheckpointReport>(line);
  report<RestoredReport>(line);
  report<EventsReport>(line);
  report<ConfigReport>(line);
  report<ClientsReport>(line);
  report<ServersOptionsReport>(line);
  report<PathsReport>(line);
  return 0;
}
