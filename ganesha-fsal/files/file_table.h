// The records of all files that this server has to remember something of (file_state.h).
//
//   FileTable::Changing file(table, id);      a guard: the record is locked while it lives, made
//   file->phase.uncut = true;                 if there was none, and gone afterwards if it is idle
//
//   FileTable::Looking(table, id)->phase      the same for looking only; nothing is made
//
// Whoever has changed a record wakes those who wait for a change of it (Changing::wait_until()),
// and no others. What is due with a file is indexed by its record alone, when a guard ends, so
// that the index cannot be out of step; due() finds such files without looking at others. Likewise
// with_layouts() finds files with layouts by a data server that their maps name. Each is in one
// group, with all files whose maps name the same data servers: where files are striped over all
// data servers, an entry for each of these would cost more than the record.
//
// Threading: any thread. Files share 64 locks. A guard is held for a moment: no call out, no I/O,
// no second guard (the compiler refuses one in the same function: to it a guard holds the table).
// Ownership: the table outlives all who have it, and what they have asked of data servers.
//
// Invariants:
//  1. No record is idle while no guard holds it. So memory is for files in use only.
//  2. A record stays where it is as long as somebody waits for it to change.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ganesha-fsal/files/file_state.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class WEFT_CAPABILITY("file table") FileTable {
  using Servers = std::vector<std::uint32_t>;  // ascending
  using Groups = std::map<Servers, std::unordered_set<FileId>>;
  struct Record {
    FileState state;
    CondVar changed;
    unsigned waiting = 0;
    std::array<Clock::time_point, kDues> indexed = [] {
      std::array<Clock::time_point, kDues> never{};
      never.fill(FileState::kNever);
      return never;
    }();
    std::optional<Groups::iterator> group;  // where it is in Shard::with_layouts
  };
  using Records = std::unordered_map<FileId, Record>;
  struct Shard {
    Mutex mutex;
    Records records WEFT_GUARDED_BY(mutex);
    std::uint64_t map_changes WEFT_GUARDED_BY(mutex) = 0;  // of any file of the shard
    std::array<std::set<std::pair<Clock::time_point, FileId>>, kDues> due WEFT_GUARDED_BY(mutex);
    // By the data servers of the map; by none where no map is known. No group is empty.
    Groups with_layouts WEFT_GUARDED_BY(mutex);
  };

 public:
  // Deadlines of waits and of what is due are of this clock, which outlives the table.
  explicit FileTable(const weft::Clock& clock) : clock_(clock) {}
  FileTable(const FileTable&) = delete;
  FileTable& operator=(const FileTable&) = delete;

  class WEFT_SCOPED_CAPABILITY Changing {
   public:
    Changing(FileTable& table, FileId file) WEFT_ACQUIRE(table);
    Changing(const Changing&) = delete;
    Changing& operator=(const Changing&) = delete;
    ~Changing() WEFT_RELEASE();

    FileState* operator->() const { return &record_.second.state; }
    FileState& operator*() const { return record_.second.state; }

    // Lets go of the record until `holds` is true of it, or time has run out; returns what `holds`
    // says then. What was changed before is seen by others meanwhile.
    template <class Predicate>
    [[nodiscard]] bool wait_until(Clock::time_point deadline, const Predicate& holds) {
      return wait_for(table_.left(deadline), holds);
    }
    template <class Predicate>
    [[nodiscard]] bool wait_for(Clock::duration time, const Predicate& holds)
        WEFT_NO_THREAD_SAFETY_ANALYSIS {  // of a shard's mutex, which the constructor locked
      return wait(holds, [&](const auto& held) WEFT_NO_THREAD_SAFETY_ANALYSIS {
        return record_.second.changed.wait_for(shard_.mutex, time, held);
      });
    }

   private:
    template <class Predicate, class Wait>
    bool wait(const Predicate& holds, const Wait& wait_until_held) {
      if (holds(std::as_const(record_.second.state))) return true;
      publish();
      ++record_.second.waiting;
      const bool held = wait_until_held([&] { return holds(std::as_const(record_.second.state)); });
      --record_.second.waiting;
      return held;
    }
    void publish();  // what has changed: to the index, and to those who wait

    const FileTable& table_;
    Shard& shard_;
    Records::value_type& record_;
  };

  class WEFT_SCOPED_CAPABILITY Looking {
   public:
    Looking(const FileTable& table, FileId file) WEFT_ACQUIRE(table);
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;
    ~Looking() WEFT_RELEASE();

    const FileState* operator->() const { return &state_; }
    const FileState& operator*() const { return state_; }

   private:
    Shard& shard_;
    const FileState& state_;  // of a file without record: one that says nothing
  };

  // How far the file's record is, for await_progress(): to be asked before what is to be waited for
  // is looked at.
  [[nodiscard]] std::uint64_t progress(FileId file) const { return Looking(*this, file)->progress; }
  // Waits until something was done with the file since, at most until `deadline`.
  void await_progress(FileId file, std::uint64_t seen, Clock::time_point deadline);

  // The layout map that the record has, if any, and how often maps have changed so far.
  struct SeenMap {
    std::shared_ptr<const layout::LayoutMap> map;
    std::uint64_t changes = 0;
  };
  [[nodiscard]] SeenMap map(FileId file) const;
  // The map was read after `changes` was seen. Kept if there is a record, and nothing has changed
  // since.
  void keep_map(FileId file, std::uint64_t changes, const layout::LayoutMap& map);
  // It is `now`; null: nobody knows, or it has none. Changes of a file come in their order.
  void map_changed(FileId file, const layout::LayoutMap* now);

  [[nodiscard]] Clock::time_point now() const { return clock_.now(); }
  // Files with which that is due at `now`, at most `limit`. They stay due until their records say
  // otherwise. Each call begins at another shard, so that a limit leaves nobody out for ever.
  [[nodiscard]] std::vector<FileId> due(Due what, Clock::time_point now, std::size_t limit) const;
  // How many there are of these at any time, due or later.
  [[nodiscard]] std::size_t count(Due what) const;
  // When the first of them is due; kNever: there is none.
  [[nodiscard]] Clock::time_point first(Due what) const;
  // Files with layouts; of a data server, those whose maps name it, and those of which no map is
  // known.
  [[nodiscard]] std::vector<FileId> with_layouts(std::optional<std::uint32_t> ds_id = {}) const;
  [[nodiscard]] std::size_t size() const;  // records
  // What a record takes of memory at most, indexed for all that may be due. What is known of its
  // data servers is beside that: its layout map, and copies that are not current.
  [[nodiscard]] static constexpr std::size_t record_bytes() {
    return of_node<Records>() + kDues * of_node<std::set<std::pair<Clock::time_point, FileId>>>() +
           of_node<Groups::mapped_type>();
  }

  // Numbers what happens to files: never 0, never the same twice, later ones greater.
  [[nodiscard]] std::uint64_t number() { return ++numbers_; }

 private:
  static constexpr std::size_t kShards = 64;
  // Threads wait by the machine's clock, which the table's may be behind of, or ahead: so they wait
  // for a time, as long as there is now until `deadline`, and at most for kLongest.
  static constexpr Clock::duration kLongest = std::chrono::hours(1);
  [[nodiscard]] Clock::duration left(Clock::time_point deadline) const {
    const auto at = now();
    return deadline <= at ? Clock::duration(0) : std::min(deadline - at, kLongest);
  }
  template <class Container>
  [[nodiscard]] static constexpr std::size_t of_node() {
    return sizeof(typename Container::value_type) + kNodeBytes;
  }

  // File numbers are given out one after the other, so neighbours are in different shards.
  [[nodiscard]] Shard& shard_of(FileId file) const { return shards_[file % kShards]; }
  // Into its group of files with layouts, and out of it, as the record says.
  static void enter_group(Shard& shard, Records::value_type& of) WEFT_REQUIRES(shard.mutex);
  static void leave_group(Shard& shard, Records::value_type& of) WEFT_REQUIRES(shard.mutex);
  static void set_map(Shard& shard, Records::value_type& of,
                      std::shared_ptr<const layout::LayoutMap> map) WEFT_REQUIRES(shard.mutex);

  const weft::Clock& clock_;
  mutable std::array<Shard, kShards> shards_;
  mutable std::atomic<std::size_t> first_{0};  // shard to begin with
  std::atomic<std::uint64_t> numbers_{0};
};

}  // namespace weft::mds
