// Data-server file handles: capabilities that a data server can check by itself.
//
// The metadata server seals what a client may do with one object on one data server into the
// opaque file handle of a layout; the data server opens it with the same key and believes no other
// claim. It keeps no per-open state and needs no message per open. Wire form, big-endian, 64 bytes:
//
//   u8 version (2) | u8 access | u16 key id | u32 data server id | ObjectId: u64 fileid,
//   u32 generation, u32 fsid | u64 client id | u32 object epoch | u32 client epoch |
//   u8 duplication | u24 first partner | u24 second partner | u8 0 |
//   16 bytes MAC (SipHash-2-4-128 over the 48 bytes before it)
//
// Duplication: a handle may bid the data server bring what is written through it to one or two
// partners, which hold copies of the same bytes under the same object name. The data server does so
// with a handle of its own making (mirror_handle), which carries the client's claim on but never
// asks for more duplication.
//
// Fencing: a data server keeps, durably, the least object epoch and the least client epoch it
// still honours; a handle below either is answered NFS4ERR_ACCESS.
//
// Threading: plain values and pure functions. The MAC compare takes the same time for any input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "layout/object_id.h"
#include "rpc/base/error.h"

namespace weft::layout {

// Each allows no more than it is for. Bits: 1 may read, 2 may write, 4 it is a server; 4 alone may
// read too.
enum class Access : std::uint8_t {
  kRead = 1,
  kReadWrite = 3,
  kFetch = 4,    // a data server reading what its partner has, as it is there
  kCompare = 5,  // the same, for checksums in place of the bytes
  kMirror = 6,   // a data server bringing a client's writes to its partner
  kControl = 7,  // the metadata server itself (proxied I/O): fenced by the object, of no client
};

// Who brings the bytes to the other copies, and when the client is answered: CEFT-PVFS's four
// duplication protocols. Only the servers' two appear in handles; for the clients' two, as without
// mirroring, a data server has nothing to do.
enum class Duplication : std::uint8_t {
  kNone = 0,
  kServerAsync = 1,  // P1: answered once the server written to has the bytes
  kServerSync = 2,   // P2: answered once every copy in sync has them
  kClientAsync = 3,  // P3: the client writes every copy and waits for the first
  kClientSync = 4,   // P4: the client writes every copy and waits for all
};

[[nodiscard]] std::string_view to_string(Duplication duplication);

constexpr std::uint32_t kMaxPartnerId = 0xffffff;  // 24 bits in a handle

struct Handle {
  Access access = Access::kRead;
  std::uint16_t key_id = 0;
  std::uint32_t ds_id = 0;  // the one data server this handle is good at
  ObjectId object;
  std::uint64_t client_id = 0;  // the NFSv4.1 client id at the metadata server
  std::uint32_t object_epoch = 0;
  std::uint32_t client_epoch = 0;
  Duplication duplication = Duplication::kNone;    // kNone, kServerAsync or kServerSync
  std::array<std::uint32_t, 2> partners = {0, 0};  // data server ids, 0: none

  friend bool operator==(const Handle&, const Handle&) = default;
};

constexpr std::size_t kHandleBytes = 64;
using SealedHandle = std::array<std::byte, kHandleBytes>;
using HandleKey = std::array<std::byte, 16>;

[[nodiscard]] constexpr bool may_read(Access access) { return access != Access::kMirror; }
[[nodiscard]] constexpr bool may_write(Access access) {
  return (static_cast<std::uint8_t>(access) & 2) != 0;
}

// kInvalid unless: a duplication asked for has a handle of access kReadWrite and one or two
// partners, each another data server with an id up to kMaxPartnerId; and without one
// there are no partners.
[[nodiscard]] Result<> validate(const Handle& handle);

// What `handle`'s data server writes with at `partner`: the same object, client and epochs, so that
// every fence that refuses the client's handle refuses this one. Precondition: `handle` asks for
// duplication and names the partner.
[[nodiscard]] Handle mirror_handle(const Handle& handle, std::uint32_t partner);

// Precondition: validate(handle).
[[nodiscard]] SealedHandle seal(const Handle& handle, const HandleKey& key);

// kBadHandle for a wrong length, version, reserved byte or key id, a MAC of none of `keys`, and for
// claims that validate() refuses. Whether the handle is for this data server and above the fences
// is the caller's to check.
[[nodiscard]] Result<Handle> unseal(std::span<const std::byte> bytes,
                                    std::span<const HandleKey> keys, std::uint16_t key_id);
[[nodiscard]] inline Result<Handle> unseal(std::span<const std::byte> bytes, const HandleKey& key,
                                           std::uint16_t key_id) {
  return unseal(bytes, std::span(&key, 1), key_id);
}

}  // namespace weft::layout
