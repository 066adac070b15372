// What is in memory of a file with several copies: a part of its record (file_state.h). mirrors.h
// says what it is for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ganesha-fsal/files/grants.h"

namespace weft::mds {

struct FenceState {
  enum class Is : std::uint8_t { kNone, kUnderWay, kHolds } is = Is::kNone;
  Clock::time_point retry_at{};  // after one that failed

  // Whether the caller is to fence now; then it is under way.
  [[nodiscard]] bool take(Clock::time_point now);
  void ended(bool holds, Clock::time_point retry);
};

// Of a copy that is not current: how far the conditions b and c of mirrors.h are.
struct Exclusion {
  std::uint64_t number = 0;  // of this record, for answers that come late (FileTable::number())
  std::size_t stripe = 0;
  bool led = false;
  bool written = false;  // by clients themselves: layouts for writing name it too
  FenceState others;     // b
  FenceState own;        // c
  Clock::time_point since;
  bool recalled = false;
  bool holds = false;  // both, for good
};

// A copy has got another number at a stripe: leaders chosen by a map of before are of the old.
struct Renumbered {
  std::uint32_t epoch = 0;  // of the first map with the new number
  std::size_t stripe = 0;
  std::uint8_t before = 0;
  std::uint8_t after = 0;
  void apply(std::vector<std::uint8_t>& leads) const;
};

// Which copies have lost their object, as they said when the file was in doubt for the copies.
struct ObjectsLook {
  enum class Is : std::uint8_t { kNone, kUnderWay, kDone } is = Is::kNone;
  std::uint64_t doubt = 0;             // JournalState::doubted; 0: of an earlier run
  std::vector<std::uint32_t> without;  // data servers
  Clock::time_point retry_at{};        // after one that did not reach all
};

struct MirrorState {
  unsigned pins = 0;
  unsigned repairs = 0;             // of these
  std::uint64_t begun = 0;          // counts pins ever taken
  std::uint64_t chosen = 0;         // counts choices of leaders
  std::vector<std::uint8_t> leads;  // empty: not chosen
  bool reads_back = false;          // no layout for reading is out from before the leaders
  // Whether layouts for writing that are out may name all copies; kRecalled: those may that were
  // recalled and are not back.
  enum class AllNamed : std::uint8_t { kNo, kYes, kRecalled } all_named = AllNamed::kNo;
  std::uint64_t owing = 0;  // number of the last write begun that may be owed; 0: none
  Clock::time_point owing_since{};
  Clock::time_point owing_due{};
  std::optional<Renumbered> renumbered;
  FenceState inherited;  // of the writers of an earlier run
  ObjectsLook look;
  // By data server. Kept while the copy is not current: layouts for reading that are handed out
  // meanwhile do not name it.
  std::map<std::uint32_t, Exclusion> excluded;
  Clock::time_point look_again{};  // whether it still is

  // Nobody writes through this server, and nothing has to be remembered but, for a moment, who led.
  [[nodiscard]] bool unused() const {
    return pins == 0 && owing == 0 && excluded.empty() &&
           inherited.is != FenceState::Is::kUnderWay && look.is != ObjectsLook::Is::kUnderWay;
  }
  [[nodiscard]] bool idle() const {
    return unused() && leads.empty() && inherited.is == FenceState::Is::kNone &&
           look.is == ObjectsLook::Is::kNone;
  }
};

}  // namespace weft::mds
