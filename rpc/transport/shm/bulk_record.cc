#include "rpc/transport/shm/bulk_record.h"

#include <cstring>

#include "rpc/base/assert.h"

namespace weft::rpc {
namespace {

constexpr std::size_t kXidBytes = 4;

Result<BulkHead> head_of(std::span<const std::byte> record) {
  BulkHead head;
  if (record.size() < sizeof head + kXidBytes) {
    return fail(Errc::kProtocol, "a record without an RPC message");
  }
  std::memcpy(&head, record.data(), sizeof head);
  return head;
}

}  // namespace

Result<BulkHello> decode_bulk_hello(std::span<const std::byte> record) {
  BulkHello hello;
  if (record.size() != sizeof hello) return fail(Errc::kProtocol, "not a hello");
  std::memcpy(&hello, record.data(), sizeof hello);
  if (hello.magic != kBulkMagic) return fail(Errc::kProtocol, "not a hello of ours");
  return hello;
}

Result<BulkHead> decode_call_head(std::span<const std::byte> record,
                                  std::span<const std::size_t> loans) {
  auto head = head_of(record);
  if (!head) return head;
  if ((head->flags & ~BulkHead::kRoom) != 0) return fail(Errc::kProtocol, "unknown flags");
  const bool room = (head->flags & BulkHead::kRoom) != 0;
  if (room && loans.empty()) return fail(Errc::kProtocol, "room that was not lent");
  std::uint64_t lent = 0;
  for (const std::size_t size : loans.first(loans.size() - (room ? 1 : 0))) lent += size;
  if (lent != head->bulk) return fail(Errc::kProtocol, "loans that are not the bulk data's size");
  return head;
}

Result<BulkHead> decode_answer_head(std::span<const std::byte> record, std::size_t room) {
  auto head = head_of(record);
  if (!head) return head;
  if (head->flags != 0) return fail(Errc::kProtocol, "unknown flags");
  if (head->bulk > room) return fail(Errc::kProtocol, "more bulk data than there was room for");
  return head;
}

std::uint32_t xid_behind_head(std::span<const std::byte> record) {
  WEFT_ASSERT(record.size() >= sizeof(BulkHead) + kXidBytes);
  std::uint32_t xid = 0;
  for (const std::byte byte : record.subspan(sizeof(BulkHead), kXidBytes)) {
    xid = xid << 8 | std::to_integer<std::uint32_t>(byte);
  }
  return xid;
}

}  // namespace weft::rpc
