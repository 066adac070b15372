#include "rpc/transport/shm/record.h"

#include <cstring>

namespace weft::rpc {

Result<Record> decode_record(std::span<const std::byte> bytes, std::size_t arena_bytes) {
  RecordHead head;
  if (bytes.size() < sizeof head) return fail(Errc::kProtocol, "a record without its head");
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes = bytes.subspan(sizeof head);
  if (head.releases > kMaxReleases || head.loans > kMaxLoans || head.has_message > 1) {
    return fail(Errc::kProtocol, "a record with too many parts");
  }
  const std::size_t releases = head.releases * sizeof(std::uint32_t);
  const std::size_t loans = head.loans * sizeof(Loan);
  if (releases + loans + std::size_t{head.message} != bytes.size()) {
    return fail(Errc::kProtocol, "a record whose parts do not make its size");
  }
  if (head.has_message == 0 && (head.loans != 0 || head.message != 0)) {
    return fail(Errc::kProtocol, "a record that lends without a message");
  }
  Record record;
  record.has_message = head.has_message != 0;
  record.releases.resize(head.releases);
  record.loans.resize(head.loans);
  if (releases > 0) std::memcpy(record.releases.data(), bytes.data(), releases);
  if (loans > 0) std::memcpy(record.loans.data(), bytes.data() + releases, loans);
  record.message = bytes.subspan(releases + loans);
  for (const Loan& loan : record.loans) {
    if (loan.size == 0 || loan.offset > arena_bytes || loan.size > arena_bytes - loan.offset) {
      return fail(Errc::kProtocol, "a loan outside the arena");
    }
  }
  return record;
}

}  // namespace weft::rpc
