// The inside of Duplicator: writes and commits under way.
//
// Threading: an operation belongs to the I/O thread it came on.
#pragma once

#include <optional>

#include "dataserver/mirror/duplicator.h"

namespace weft::ds {

struct Duplicator::PerThread {
  PerThread(IoRing& ring_of_it, const Parts& parts, CopyBook& book)
      : ring(ring_of_it), reports(ring, parts.clock, parts.reports, parts.authority, book) {}
  IoRing& ring;
  MissedReports reports;
  std::map<std::uint32_t, std::shared_ptr<PartnerLink>> links;
};

// A partner's part in a write or commit.
struct CopyPart {
  std::uint32_t ds_id = 0;
  std::shared_ptr<Partner> partner;
  bool known_missed = false;  // it has missed this region before, and the metadata server knows
  bool sent = false;
  bool good = false;
  bool too_large = false;  // it answered that no store holds that
  Stability stability = Stability::kFileSync;
  WriteVerifier verifier = 0;  // what it answered with, or with last

  CopyPart(std::uint32_t id, std::shared_ptr<Partner> of)
      : ds_id(id), partner(std::move(of)), sent(!partner->away), verifier(partner->verifier) {}
};

struct Duplicator::WriteOp {
  layout::Handle handle;
  ByteRange range;
  Stability wanted = Stability::kUnstable;
  std::vector<Buffer> data;  // kept for the partners; the store has handles of its own
  WritesInFlight::Token token;
  Store::Done<WriteResult> done;  // empty once the client was answered
  RangeLocks::Hold hold = {};
  TimePoint deadline = {};
  std::vector<CopyPart> copies = {};
  Result<WriteResult> here = {};
  std::optional<TimePoint> pending_since = {};
  bool gives_way = false;             // the own copy is to be the one that missed it
  std::optional<Error> refused = {};  // by the metadata server, or a fence

  [[nodiscard]] std::uint64_t bytes() const { return range.end - range.begin; }
  // What nobody answers for is undone by the copy that goes on; else the partners have too much.
  [[nodiscard]] bool failed_here() const { return !here && !gives_way; }
};

struct Duplicator::CommitOp {
  layout::Handle handle;
  std::vector<CopyPart> copies;
  std::vector<CopyBook::Owed> owed;  // for each of the copies
  CopyBook::Owed own;                // of the copy here
  Result<WriteVerifier> here;
  std::optional<Error> refused;
};

// What comes of telling that the own copy missed something. True: the client is refused with what
// is in `refused` then. False: another copy that could go on is not there.
[[nodiscard]] bool own_copy_told(Result<> told, std::optional<Error>& refused);

[[nodiscard]] std::vector<WriteVerifier> verifiers_of(const std::vector<CopyPart>& copies);

}  // namespace weft::ds
