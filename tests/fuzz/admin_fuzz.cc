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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  if (const auto request = read_request(line)) {
    const auto again = read_request(request_line(*request));
    if (!again || *again != *request) std::abort();
  }
  report<SystemReport>(line);
  report<DataServersReport>(line);
  report<PolicyReport>(line);
  report<MaintenanceReport>(line);
  report<FileReport>(line);
  return 0;
}
