// What is under way with a file's objects at this moment, as a part of its record (file_state.h),
// and the guards for it. A file is in one of these phases:
//
//   open              nothing is under way
//   writing, learning writes through this server, and questions for how far the file goes; both at
//                     once, and several of each
//   cutting, punching, moving, growing, comparing   one caller is alone with the file (be_alone())
//
// and besides a cut may be pending (`uncut`): it failed, or a crash interrupted it. Until it is
// made, nobody writes or learns; who is to make it is alone. The same holds of an inline file whose
// bytes are on their way to its objects (`growing`).
//
// What data servers report of writes goes on in all phases, and only a cut waits for what was
// reported before it.
//
// Threading: any thread. be_alone() waits, the others do not.
//
// Invariants:
//  1. While somebody is alone with a file, nothing else of the above is under way or begins.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/error.h"

namespace weft::mds {

class FileTable;

struct Phase {
  enum class Alone : std::uint8_t { kNobody, kCutting, kPunching, kMoving, kGrowing, kComparing };

  unsigned writing = 0;
  unsigned learning = 0;
  unsigned reported = 0;         // reports of a file's end that are not noted yet
  Alone alone = Alone::kNobody;  // set before those who write or learn have ended
  bool uncut = false;            // a cut is pending
  bool growing = false;          // from before it has a map until its bytes are at its objects

  [[nodiscard]] bool is_alone() const { return alone != Alone::kNobody; }
  [[nodiscard]] bool shared() const { return writing > 0 || learning > 0; }
  [[nodiscard]] bool keeps_waiting(Alone why) const {
    return shared() || (why == Alone::kCutting && reported > 0);
  }
  [[nodiscard]] bool idle() const {
    return !shared() && reported == 0 && !is_alone() && !uncut && !growing;
  }
  // kBusy while somebody is alone with the file; while a cut is pending, or it grows.
  [[nodiscard]] Result<> check_not_alone() const;
  [[nodiscard]] Result<> check_open() const;
};

// Ends in its destructor what was begun. The tag makes guards of different kinds different types.
template <class Kind>
class PhaseGuard {
 public:
  PhaseGuard(FileTable& table, FileId file) : table_(&table), file_(file) {}
  PhaseGuard(PhaseGuard&& other) noexcept
      : table_(std::exchange(other.table_, nullptr)), file_(other.file_) {}
  PhaseGuard& operator=(PhaseGuard&&) = delete;
  ~PhaseGuard() {
    if (table_ != nullptr) Kind::end(*table_, file_);
  }

 private:
  FileTable* table_;
  FileId file_;
};

struct WritingKind {
  static void end(FileTable& table, FileId file);
};
struct LearningKind {
  static void end(FileTable& table, FileId file);
};
struct ReportedKind {
  static void end(FileTable& table, FileId file);
};
struct AloneKind {
  static void end(FileTable& table, FileId file);
};
using Writing = PhaseGuard<WritingKind>;
using Learning = PhaseGuard<LearningKind>;
using Reported = PhaseGuard<ReportedKind>;
using Alone = PhaseGuard<AloneKind>;

// Both are kBusy while somebody is alone with the file, a cut is pending, or it grows. A map that
// is read after this gets no further copy as long as the guard lives.
[[nodiscard]] Result<Writing> enter_writing(FileTable& table, FileId file);
[[nodiscard]] Result<Learning> enter_learning(FileTable& table, FileId file);

// kBusy while the file is being cut, or a cut is pending.
[[nodiscard]] Result<Reported> enter_reported(FileTable& table, FileId file);

// What to do when somebody else is alone with the file.
enum class IfAlone : std::uint8_t { kWait, kRefuse };
// Waits until the others are done, at most until `until`, or not at all; then, or when the thread
// may not wait (wait_limit.h), kBusy. Nothing new begins meanwhile.
inline constexpr std::chrono::steady_clock::time_point kDoNotWait =
    std::chrono::steady_clock::time_point::min();
[[nodiscard]] Result<Alone> be_alone(FileTable& table, FileId file, Phase::Alone why,
                                     std::chrono::steady_clock::time_point until,
                                     IfAlone others = IfAlone::kWait);

}  // namespace weft::mds
