// Who holds which layout since when: the metadata server's memory of the layouts it granted.
//
// Layouts are whole files (layout/files_layout.h), so a grant is file, client and mode with a count
// of segments: a client that asks twice holds two segments, and gives back each. Layouts for
// reading and for writing are recalled apart: they name different data servers. The table is memory
// only: it is empty after a restart, while clients' layouts live on (their handles stay valid).
// What must hold for layouts that nobody remembers is therefore never decided here, but by epochs
// at the data servers.
//
// A grant goes through: held -> recalled (the client was asked to return it, and has until a
// deadline) -> gone; or, past its deadline, revoked. The owner of the table fences what is revoked.
//
// Threading: needs external synchronisation; LayoutService has it. Times are the owner's clock,
// passed in.
//
// Invariants:
//  1. A grant in the table has at least one segment.
//  2. A recalled grant has a deadline; a held one has none.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layout/handle.h"

namespace weft::mds {

using Clock = std::chrono::steady_clock;

// A client is known by its NFSv4.1 client id.
using ClientId = std::uint64_t;
using FileId = std::uint64_t;

enum class GrantState : std::uint8_t { kHeld, kRecalled };

struct Grant {
  FileId file = 0;
  ClientId client = 0;
  layout::Access access = layout::Access::kRead;  // or kReadWrite
  std::uint32_t segments = 0;
  GrantState state = GrantState::kHeld;
  Clock::time_point since;  // of the first segment
  std::optional<Clock::time_point> recalled_at;
  std::optional<Clock::time_point> deadline;  // of the recall
  std::string reason;                         // of the recall
  bool others_wait = true;  // while it is recalled nobody gets a new layout of the file

  [[nodiscard]] bool writes() const { return access == layout::Access::kReadWrite; }
};

// Which grants of a file are meant.
struct RecallWhat {
  std::optional<ClientId> except = {};
  std::optional<ClientId> client = {};      // of this one
  std::optional<layout::Access> only = {};  // those of this mode
  // New layouts conflict with those recalled. If not, only their holder waits, for the same mode.
  bool others_wait = true;
};

struct Recalled {
  ClientId client = 0;
  std::optional<layout::Access> only;  // nullopt: both modes

  friend bool operator==(const Recalled&, const Recalled&) = default;
};

class GrantTable {
 public:
  // One more segment. A recalled grant stays recalled: the recall covers the new segment too.
  void add(FileId file, ClientId client, layout::Access access, Clock::time_point now);

  // One segment less. Returns true when the client holds nothing of the file any more. A segment
  // that was never recorded (granted before a restart) is no error.
  bool remove_segment(FileId file, ClientId client, layout::Access access);
  // Everything the client holds of the file, or of one mode. Returns whether it held anything of
  // that, and nothing now.
  bool remove(FileId file, ClientId client, std::optional<layout::Access> only = std::nullopt);

  // Marks held grants of the file as recalled, to be returned within `patience`; returns who is to
  // be asked for what. Grants recalled before keep their earlier deadline, and are not returned.
  [[nodiscard]] std::vector<Recalled> recall(FileId file, Clock::time_point now,
                                             Clock::duration patience, std::string_view reason,
                                             const RecallWhat& what = {});

  // Recalled grants whose deadline has passed. They stay until removed.
  [[nodiscard]] std::vector<Grant> overdue(Clock::time_point now) const;

  [[nodiscard]] std::optional<Grant> find(FileId file, ClientId client,
                                          layout::Access access) const;
  [[nodiscard]] bool holds(FileId file, ClientId client) const;  // anything of the file
  [[nodiscard]] std::vector<Grant> of_file(FileId file) const;
  [[nodiscard]] std::vector<Grant> all(std::size_t limit) const;
  [[nodiscard]] bool any_of_file(FileId file) const;
  [[nodiscard]] bool any_writer(FileId file, std::optional<ClientId> except = std::nullopt) const;
  [[nodiscard]] std::size_t size() const { return grants_.size(); }

 private:
  struct Key {
    FileId file;
    ClientId client;
    layout::Access access;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Map = std::map<Key, Grant>;
  [[nodiscard]] Map::const_iterator first_of(FileId file, ClientId client = 0) const;

  Map grants_;
};

}  // namespace weft::mds
