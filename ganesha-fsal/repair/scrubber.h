// Scrub: compares the copies of files that nobody writes, tells which differ, and makes those equal
// of which it is known which is right.
//
// One file, stripe by stripe (Repairer::scrub() does it):
//
//   1. Nobody writes it, and its leaders are pinned. Every other current copy is compared with the
//      leader's by checksums of 4 KiB blocks, at the data servers; nothing is changed.
//   2. What differs is compared once more. It counts only if it differs again, and the file was not
//      written in between.
//   3. Which copy is right? Of three copies two that are equal, and have the object. Else nothing
//      says so, and nothing is changed: an administrator looks at them and says which (resolve()).
//      Either way it is logged (event=scrub_differs), counted, and kept among the findings.
//   4. Unless it is only to be told, the copy that is known to be wrong is made equal to the right
//      one by a job of the usual kind, whose writes go through the data server's own checks.
//
// Findings are in memory: the next scrub finds again what a restart forgot. A file's open findings
// are replaced by what its next scrub says of it, and forgotten when the file is removed.
//
// Files that are written are left out and counted; the next scrub comes to them. Damage that a data
// server's store finds itself (parity groups) does not get here: it is mended there.
//
// A scrub of all files also counts those of which a stripe has two copies in one failure domain
// though there are domains enough: they were made, or moved, while data servers were away.
//
// Threading: any thread. Threads of its own go through the files and block.
//
// Ownership: everything in Parts outlives it. stop(), or destruction, joins.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "layout/mirror_groups.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/control/messages.h"

namespace weft::mds {

namespace control = rpc::control;

// A copy that differed.
struct ScrubFinding {
  FileId file = 0;
  std::uint32_t ds_id = 0;            // whose copy differs
  std::uint32_t source = 0;           // from this one's
  std::uint64_t differing_bytes = 0;  // of blocks of 4 KiB
  bool majority = false;              // a third copy says that the source, which has it, is right
  bool mended = false;
  std::uint32_t stripe = 0;
  std::vector<control::Extent> extents{};  // of the file, that differ; the first of them

  friend bool operator==(const ScrubFinding&, const ScrubFinding&) = default;
};

struct ScrubHow {
  bool only_tell = false;
  // An administrator says that this data server's copies are right; 0: nobody does.
  std::uint32_t from = 0;
};

struct ScrubOutcome {
  enum class Is : std::uint8_t { kEqual, kDiffered, kWritten, kSingle } is = Is::kEqual;
  std::uint64_t compared_bytes = 0;
  std::vector<ScrubFinding> findings;
};

// Files with two copies of a stripe in one failure domain.
struct CrowdedFiles {
  std::uint64_t count = 0;
  std::vector<FileId> first;  // of them

  friend bool operator==(const CrowdedFiles&, const CrowdedFiles&) = default;
};

struct ScrubState {
  bool running = false;
  bool only_tell = false;
  std::uint64_t files = 0;    // compared
  std::uint64_t written = 0;  // left out: somebody writes them
  std::uint64_t failed = 0;   // a data server was away, or could not read
  std::uint64_t compared_bytes = 0;
  std::uint64_t differing = 0;  // copies
  std::uint64_t mended = 0;
  std::uint64_t rounds = 0;            // that have ended, of all files
  std::chrono::milliseconds age{0};    // of the round, or since the last ended
  std::vector<ScrubFinding> findings;  // the last ones, those that are not mended before others
  std::uint64_t unlisted = 0;          // that are not mended, and had no room
  std::vector<std::string> resolved;   // what came of resolve(), the last ones
};

class Scrubber {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    unsigned workers = 2;
    std::size_t page = 64;
    std::size_t most_findings = 100;
    std::size_t most_resolving = 64;  // that wait to be resolved
    std::size_t most_crowded = 100;   // files of CrowdedFiles::first
    Clock::duration every{0};         // all files, begun by itself; 0: never
  };
  struct Parts {
    Namespace& names;
    // Repairer::scrub()
    std::function<Result<ScrubOutcome>(FileId, const ScrubHow&)> scrub;
    // With their failure domains, but those that are being left.
    std::function<std::vector<layout::GroupServer>()> data_servers;
    Limits limits;
    const weft::Clock& clock;  // outlives it
  };

  explicit Scrubber(Parts parts);
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;
  ~Scrubber();
  void start();
  void stop();
  // Limits::every, from now on.
  void set_every(Clock::duration every) { every_ = every; }

  // All files, or one. kBusy: a scrub runs.
  [[nodiscard]] Result<> begin(std::optional<FileId> file, bool only_tell);
  // Soon, also while a scrub runs: the file's copies that differ from this data server's are made
  // equal to it. kBusy: too many wait.
  [[nodiscard]] Result<> resolve(FileId file, std::uint32_t from);
  // Ends one that runs, after the files it is at. False: none did.
  bool end();
  // Without findings of files that were removed: it reads the layouts of those that differ.
  [[nodiscard]] ScrubState state();
  // Of the last scrub of all files that was not ended before. Of those that it names, the ones that
  // are still so: it reads their layouts.
  [[nodiscard]] CrowdedFiles crowded();
  // Of the file, that are listed and not mended.
  [[nodiscard]] std::vector<ScrubFinding> open_findings(FileId file) const;

 private:
  void run();
  // Lets go of the mutex while it reads a page of files.
  [[nodiscard]] std::optional<FileId> next() WEFT_REQUIRES(mutex_);
  void count(FileId file, const Result<ScrubOutcome>& outcome) WEFT_REQUIRES(mutex_);
  void keep_findings(FileId file, const std::vector<ScrubFinding>& findings) WEFT_REQUIRES(mutex_);
  struct Resolution {
    FileId file = 0;
    std::uint32_t from = 0;
  };
  void resolved(const Resolution& what, const Result<ScrubOutcome>& outcome) WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool is_crowded(FileId file, std::span<const layout::GroupServer> servers) const;
  [[nodiscard]] std::vector<FileId> differing() const WEFT_REQUIRES(mutex_);
  // Those of them that are not there any more.
  [[nodiscard]] std::vector<FileId> removed(std::vector<FileId> files) const;
  void forget(const std::vector<FileId>& files) WEFT_REQUIRES(mutex_);
  void begin_locked(bool only_tell) WEFT_REQUIRES(mutex_);
  void begin_whole() WEFT_REQUIRES(mutex_);
  void end_locked() WEFT_REQUIRES(mutex_);

  const Parts parts_;
  std::atomic<Clock::duration> every_{parts_.limits.every};
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  ScrubState state_ WEFT_GUARDED_BY(mutex_);
  Clock::time_point since_ WEFT_GUARDED_BY(mutex_) = parts_.clock.now();
  std::deque<FileId> files_ WEFT_GUARDED_BY(mutex_);
  std::deque<Resolution> resolutions_ WEFT_GUARDED_BY(mutex_);
  FileId after_ WEFT_GUARDED_BY(mutex_) = 0;
  bool more_ WEFT_GUARDED_BY(mutex_) = false;     // files with numbers above after_
  bool listing_ WEFT_GUARDED_BY(mutex_) = false;  // somebody reads them
  unsigned working_ WEFT_GUARDED_BY(mutex_) = 0;
  bool whole_ WEFT_GUARDED_BY(mutex_) = false;  // this one comes to all files
  CrowdedFiles passing_ WEFT_GUARDED_BY(mutex_);
  CrowdedFiles crowded_ WEFT_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace weft::mds
