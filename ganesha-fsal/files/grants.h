// Who holds which layout of a file since when: this server's memory of the layouts it granted, a
// part of the file's record (file_state.h).
//
// Layouts are whole files (layout/files_layout.h), so a grant is client and mode with a count of
// segments: a client that asks twice holds two segments, and gives back each. Layouts for reading
// and for writing are recalled apart: they name different data servers. All this is memory only: it
// is empty after a restart, while clients' layouts live on (their handles stay valid). What must
// hold for layouts that nobody remembers is therefore never decided here, but by epochs at the data
// servers.
//
// A grant goes through: held -> recalled (the client was asked to return it, and has until a
// deadline) -> gone; or, past its deadline, revoked. LayoutService fences what is revoked.
//
// Threading: as the record. Times are LayoutService's clock, passed in.
//
// Invariants:
//  1. A grant that is remembered has at least one segment.
//  2. A recalled grant has a deadline; a held one has none.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layout/device_table.h"
#include "layout/handle.h"

namespace weft::mds {

using Clock = std::chrono::steady_clock;

// A client is known by its NFSv4.1 client id.
using ClientId = std::uint64_t;
using FileId = std::uint64_t;

enum class GrantState : std::uint8_t { kHeld, kRecalled };

struct Grant {
  ClientId client = 0;
  layout::Access access = layout::Access::kRead;  // or kReadWrite
  std::uint32_t segments = 0;
  GrantState state = GrantState::kHeld;
  Clock::time_point since;  // of the first segment
  std::optional<Clock::time_point> recalled_at;
  std::optional<Clock::time_point> deadline;  // of the recall
  std::string reason;                         // of the recall
  std::uint64_t recall = 0;                   // its number
  bool others_wait = true;  // while it is recalled nobody gets a new layout of the file
  // What its layouts name, so that clients that ask for them are answered (Registry); the last
  // FileGrants::kMostDevices.
  std::vector<std::shared_ptr<const layout::Device>> devices;

  [[nodiscard]] bool writes() const { return access == layout::Access::kReadWrite; }
};

// What a node of a map or a set takes beside its value: links, and what malloc adds.
inline constexpr std::size_t kNodeBytes = 6 * sizeof(void*);

// A data server's addresses are those of this generation.
struct AddressesOf {
  std::uint32_t ds_id = 0;
  std::uint32_t generation = 0;
};

// Which grants of a file are meant.
struct RecallWhat {
  std::optional<ClientId> except = {};
  std::optional<ClientId> client = {};      // of this one
  std::optional<layout::Access> only = {};  // those of this mode
  // Those whose layouts name this data server with addresses that it has not any more, or may.
  std::optional<AddressesOf> moved = {};
  // New layouts conflict with those recalled. If not, only their holder waits, for the same mode.
  bool others_wait = true;
};

struct Recalled {
  ClientId client = 0;
  std::optional<layout::Access> only;  // nullopt: both modes

  friend bool operator==(const Recalled&, const Recalled&) = default;
};

// Of one file. What is asked on every request costs the same however many clients there are.
class FileGrants {
 public:
  // One more segment. A recalled grant stays recalled: the recall covers the new segment too.
  void add(ClientId client, layout::Access access, Clock::time_point now);

  // A segment that was added names this device. Nothing if the grant is gone.
  void names(ClientId client, layout::Access access, std::shared_ptr<const layout::Device> device);

  // One segment less. Returns true when the client holds nothing of the file any more. A segment
  // that was never recorded (granted before a restart) is no error.
  bool remove_segment(ClientId client, layout::Access access);
  // Everything the client holds of the file. Returns whether it held anything.
  bool remove(ClientId client);

  // What of that was recalled with this number, of which the protocol's side knows nothing.
  // Returns as the last.
  bool remove_recalled(ClientId client, std::optional<layout::Access> only, std::uint64_t recall);

  // Marks held grants as recalled, to be returned within `patience`; returns who is to be asked for
  // what. Grants recalled before keep their earlier deadline, and are not returned.
  [[nodiscard]] std::vector<Recalled> recall(Clock::time_point now, Clock::duration patience,
                                             std::string_view reason, const RecallWhat& what = {},
                                             std::uint64_t number = 0);

  // What was recalled of the client (of one mode, or all) is not asked for yet: it is to be
  // returned within `patience` from now, at most twice that from when it was recalled.
  void waits(ClientId client, std::optional<layout::Access> only, Clock::time_point now,
             Clock::duration patience);

  // Clients with a grant whose deadline has passed. They stay until removed.
  [[nodiscard]] std::vector<ClientId> overdue(Clock::time_point now);
  // There is nothing overdue before; nullopt: nothing is recalled.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const {
    return recalled_ > 0 ? std::optional(deadline_) : std::nullopt;
  }

  [[nodiscard]] const Grant* find(ClientId client, layout::Access access) const;
  [[nodiscard]] bool holds(ClientId client) const;  // anything
  [[nodiscard]] std::uint32_t segments(ClientId client) const;
  // For writing, by anybody but `except`.
  [[nodiscard]] bool any_writer(std::optional<ClientId> except = std::nullopt) const;
  [[nodiscard]] bool any_of(layout::Access access) const { return layouts_of(access, 1); }
  // More than one, by one client or several.
  [[nodiscard]] bool several_of(layout::Access access) const { return layouts_of(access, 2); }
  // Of one mode, or of any.
  [[nodiscard]] bool any_recalled(std::optional<layout::Access> only = std::nullopt) const;
  [[nodiscard]] std::vector<Grant> all() const;
  [[nodiscard]] bool empty() const { return grants_.empty(); }
  [[nodiscard]] std::size_t size() const { return grants_.size(); }
  // What a grant takes of memory at most, recalled for a reason of up to kMostReason bytes.
  [[nodiscard]] static constexpr std::size_t grant_bytes() {
    return sizeof(Grants::value_type) + kNodeBytes + kMostReason +
           kMostDevices * sizeof(std::shared_ptr<const layout::Device>);
  }
  [[nodiscard]] std::size_t recalled() const { return recalled_; }
  // Whether it would be in the way of another: it conflicts with those that are recalled.
  [[nodiscard]] bool conflicts(ClientId client, layout::Access access) const;

 private:
  using Key = std::pair<ClientId, layout::Access>;
  using Grants = std::map<Key, Grant>;
  static constexpr std::size_t kMostReason = 64;
  // A client that holds one layout names as many as the file has copies, or one.
  static constexpr std::size_t kMostDevices = 4;
  Grants::iterator erase(Grants::iterator at);
  template <class Which>
  bool remove_if(ClientId client, std::optional<layout::Access> only, const Which& which);
  // Whether what the grant's layouts name may be out of date. Not all that they name is known.
  [[nodiscard]] static bool names_older(const Grant& grant, const AddressesOf& now);
  // At least so many segments.
  [[nodiscard]] bool layouts_of(layout::Access access, std::uint32_t least) const;

  Grants grants_;
  std::size_t writers_ = 0;
  std::size_t recalled_ = 0;
  Clock::time_point deadline_;  // as of deadline()
};

// A client lost its layout against its will; until its fence holds the file waits.
struct PendingFence {
  ClientId client = 0;
  std::string cause;
  bool in_flight = true;
  Clock::time_point retry_at{};
};

struct LayoutState {
  FileGrants grants;
  std::vector<PendingFence> fences;  // at most one for each client
  bool watched = false;              // whoever watches is to be told when neither is left

  [[nodiscard]] bool none() const { return grants.empty() && fences.empty(); }
  [[nodiscard]] bool idle() const { return none() && !watched; }
  // A layout for writing is out, or who had one is being fenced.
  [[nodiscard]] bool written() const { return grants.any_writer() || !fences.empty(); }
  // When a fence that failed is to be tried again; nullopt: none has failed.
  [[nodiscard]] std::optional<Clock::time_point> fence_at() const;
};

}  // namespace weft::mds
