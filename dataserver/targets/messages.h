// What a data server and a storage target say to each other: the Store interface as messages
// (docs/protocol.md, "Between a data server and a target").
//
// Records go over any Channel. The target speaks first: a Challenge. The data server answers with a
// Hello, and once that is answered well, sends requests, many at a time, each with a tag that its
// response carries; responses come in any order. Bulk data is lent where the channel lends
// (shm_channel.h): a WRITE's data, and for a READ room that the target fills. Elsewhere it is the
// end of the record, where locate_request() and locate_response() find it; by RDMA
// (rdma_records.h) that end may come apart.
//
// Versions: a data server of version 6 takes no Challenge but with 6. So that names the oldest
// version that the target speaks, a Hello's tag those of the data server, and its answer's tag the
// one that both go on with, the newest. Who speaks 6 alone sends 0 as these tags, and reads none.
//
// Decoders believe nothing: every length is checked, and numbers that mean nothing are kProtocol.
//
// Threading: values and pure functions. Spans returned point into the bytes decoded from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataserver/store/state_file.h"
#include "dataserver/store/store.h"
#include "dataserver/store/store_directory.h"
#include "layout/object_id.h"
#include "rpc/base/machine.h"
#include "rpc/control/target_options.h"
#include "rpc/peer/keyring.h"
#include "rpc/xdr/describe.h"

namespace weft::ds {

// The versions of the protocol that one side speaks. 7 is the same as 6; 8 has KEYS, 9 ABOUT, 10
// NOTE, and in the answer to a Hello what was noted last, and which instance of the target it is.
struct TargetVersions {
  std::uint32_t least = 6;
  std::uint32_t most = 10;
  friend bool operator==(const TargetVersions&, const TargetVersions&) = default;
};
constexpr TargetVersions kTargetVersions;
constexpr std::uint32_t kTargetVersionWithKeys = 8;   // a target of an older one ends at a KEYS
constexpr std::uint32_t kTargetVersionWithAbout = 9;  // and at an ABOUT
constexpr std::uint32_t kTargetVersionWithNote = 10;  // and at a NOTE
constexpr std::size_t kMaxTargetIo = std::size_t{1} << 20;  // bytes of one READ or WRITE
constexpr std::uint32_t kMaxTargetList = 4096;              // objects of one LIST
constexpr std::size_t kMaxTargetRecord = kMaxTargetIo + 4096;
constexpr std::size_t kMaxTargetKeys = 8;  // fingerprints of one KEYS

using Nonce = std::array<std::byte, 16>;

// The first record on a connection, from the target.
struct TargetChallenge {
  std::uint32_t version = kTargetVersions.least;  // the oldest
  Nonce nonce{};
  MachineId machine{};
  std::string socket;  // where it listens for processes of its machine; empty: nowhere
  friend bool operator==(const TargetChallenge&, const TargetChallenge&) = default;
};
template <class Io>
void describe(Io& io, TargetChallenge& r) {
  io("version", r.version);
  io("nonce", r.nonce);
  io("machine", r.machine);
  io("socket", r.socket, at_most(kMaxSocketPath));
}

enum class TargetOp : std::uint32_t {
  kHello = 1,
  kRead = 2,
  kWrite = 3,
  kCommit = 4,
  kTruncate = 5,
  kRemove = 6,
  kStat = 7,
  kAllocate = 8,
  kPunch = 9,
  kUsage = 10,
  kList = 11,
  kNextData = 12,
  kKeys = 13,
  kAbout = 14,
  kNote = 15,
};

// Which objects are meant, and who asks. Answered when no operation of an earlier process of this
// data server, or of an earlier connection of this link, is left that could still be carried out.
struct TargetHello {
  Uuid space{};            // the data server's store: a target keeps each one's objects apart
  std::uint64_t boot = 0;  // drawn at random when the data server's process started
  std::uint32_t link = 0;  // one of its connections, the same when it connects again
  Nonce nonce{};
  rpc::peer::Key proof{};
  friend bool operator==(const TargetHello&, const TargetHello&) = default;
};
template <class Io>
void describe(Io& io, TargetHello& r) {
  io("space", r.space);
  io("boot", r.boot);
  io("link", r.link);
  io("nonce", r.nonce);
  io("proof", r.proof);
}

struct TargetRequest {
  TargetOp op = TargetOp::kUsage;
  std::uint64_t tag = 0;    // kHello: offer()
  TargetHello hello;        // of kHello, and nothing else then
  layout::ObjectId object;  // kList: the place's
  // kTruncate: the new size; kList: the place's folder; kNextData: from; kNote: the generation
  std::uint64_t offset = 0;
  // Bytes to read, written, to allocate or to punch; kList: objects; kNote: the boot.
  std::uint64_t size = 0;
  Stability stability = Stability::kUnstable;
  bool lent = false;      // the data, or the room for it, comes with the record as loans
  bool uncached = false;  // kRead: StoreRead::uncached
  // A descriptor of the object is welcome: kRead: FileStore::reader(); kWrite: FileStore::writer().
  bool descriptor = false;
  friend bool operator==(const TargetRequest&, const TargetRequest&) = default;
};

struct TargetResponse {
  TargetOp op = TargetOp::kUsage;
  std::uint64_t tag = 0;  // kHello: the version, for who offered one
  Errc error{};           // of a refused one: text, and nothing else
  std::string text;       // likewise
  bool good = true;

  WriteVerifier verifier = 0;    // of everything that is good
  std::uint64_t object_end = 0;  // kRead, kWrite
  std::uint64_t size = 0;        // kRead: bytes of data
  std::uint64_t at = 0;          // kRead: where in the room they begin
  bool descriptor = false;       // kRead, kWrite: was handed over (Channel::hand_over())
  bool lent = false;             // kRead: they are in the room; otherwise the record's end
  ObjectStat stat;               // kTruncate, kStat
  StoreStat usage;               // kUsage
  ObjectList list;               // kList
  DataRun run;                   // kNextData
  // kKeys: fingerprints of the cluster keys that it has, the one that it uses first.
  std::vector<std::uint64_t> keys;
  rpc::control::About about;  // kAbout
  Uuid store{};               // kHello: the target's own name for the space; new if it was wiped
  std::uint64_t objects = 0;  // kHello: in the space
  rpc::peer::Key proof{};     // kHello
  // kHello, from version 10 on: drawn when the target's process started; and by the last kNote.
  std::uint64_t instance = 0;
  StoreState noted;
};

void encode(xdr::Encoder& out, const TargetChallenge& challenge);
// Without bulk data: who sends a WRITE or answers a READ with data that is not lent puts it behind,
// as opaque<>: begin_bulk(), the bytes, end_bulk().
void encode(xdr::Encoder& out, const TargetRequest& request);
void encode(xdr::Encoder& out, const TargetResponse& response);
void begin_bulk(xdr::Encoder& out, std::size_t size);
void end_bulk(xdr::Encoder& out, std::size_t size);

// kNotSupported: the target speaks no version of ours, and which program is to be upgraded.
[[nodiscard]] Result<TargetChallenge> decode_challenge(std::span<const std::byte> record,
                                                       TargetVersions ours = kTargetVersions);

// The tag of a data server's Hello.
[[nodiscard]] std::uint64_t offer(TargetVersions ours = kTargetVersions);
// The version that a target goes on with, from a Hello's tag; kNotSupported as above.
[[nodiscard]] Result<std::uint32_t> choose_version(std::uint64_t offered,
                                                   TargetVersions ours = kTargetVersions);
// The version that the target goes on with, from the tag of what answers a Hello; likewise.
[[nodiscard]] Result<std::uint32_t> chosen_version(std::uint64_t tag,
                                                   TargetVersions ours = kTargetVersions);

// `bulk` is where the data begins in the record, if it is its end (0: it is not). What comes behind
// the head may not be in `record`: `beyond` bytes of it, with padding, are elsewhere.
template <class T>
struct Decoded {
  T message;
  std::size_t bulk = 0;
};
[[nodiscard]] Result<Decoded<TargetRequest>> decode_request(std::span<const std::byte> record,
                                                            std::size_t beyond = 0);
[[nodiscard]] Result<Decoded<TargetResponse>> decode_response(std::span<const std::byte> record,
                                                              std::size_t beyond = 0);

// For RecordReader: the position of bulk data in a record of which this is the head.
[[nodiscard]] std::size_t locate_request(std::span<const std::byte> head);
[[nodiscard]] std::size_t locate_response(std::span<const std::byte> head);

// What proves that one has the cluster key, and is not a recording.
[[nodiscard]] rpc::peer::Key target_key(const rpc::peer::ClusterKey& key);
[[nodiscard]] rpc::peer::Key hello_proof(const rpc::peer::Key& key, const Nonce& challenge,
                                         const TargetHello& hello);
[[nodiscard]] rpc::peer::Key welcome_proof(const rpc::peer::Key& key, const Nonce& challenge,
                                           const TargetHello& hello, const Uuid& store);
// Without telling by its time where they differ.
[[nodiscard]] bool same_proof(const rpc::peer::Key& a, const rpc::peer::Key& b);

}  // namespace weft::ds
