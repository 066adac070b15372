// Names per second: metadata operations on many files over some directories, so many outstanding.
//
//   mkdir     CREATE of directories; they are gone again afterwards, which is not timed
//   create    OPEN that makes a new, empty file, and its CLOSE
//   open      OPEN of each file as it is, and its CLOSE
//   stat      LOOKUP and GETATTR of each file
//   readdir   READDIR with the attributes of each entry, as `ls -l` has it; operations are entries
//   rename    each file, within its directory
//   unlink    REMOVE of each file
//   files     as create, with a WRITE in between that is to be stable
//
// Each phase works on what the one before it has left. With `there` the first works on files that
// somebody else has made with the same names (an earlier run, weft-meta-fill); "stat" and "open"
// pick theirs all over them.
//
// Threading: blocks the main thread; the calls run on the engine's I/O thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/load/workload.h"

namespace weft::load {

struct NamesWork {
  std::string prefix;        // of all names
  std::uint64_t files = 0;   // operations of a phase
  unsigned directories = 0;  // in the export's root; 0: in the root itself
  unsigned depth = 32;
  std::uint32_t bytes = 4096;  // of a file of "files"
  std::uint64_t there = 0;     // so many files, and the directories, are there already
  std::uint64_t picked = 0;    // these work on so many of them, over and over; 0: on all
  std::uint64_t seed = 0;      // which of them are picked
  std::optional<std::chrono::milliseconds> duration;  // ends a phase before all files are done
};

class Names {
 public:
  Names(Engine& engine, Mount& mount, NamesWork work);

  static constexpr std::string_view kPhases[] = {"mkdir",   "create", "open",   "stat",
                                                 "readdir", "rename", "unlink", "files"};
  // Makes the directories, or finds them.
  [[nodiscard]] Result<> begin();
  [[nodiscard]] Result<Outcome> run(std::string_view phase);
  // Removes the first `files` that "create" or "files" has made, and the directories. Nothing of
  // what was there already.
  [[nodiscard]] Result<> end(std::uint64_t files);

 private:
  using Done = std::move_only_function<void(Result<std::uint64_t>)>;  // with operations done
  using One = std::function<void(std::uint64_t index, Done done)>;
  using Then = std::move_only_function<void(rpc::nfs4::CompoundResult&, Done)>;
  class Burst;
  struct Open {
    rpc::nfs4::FileHandle handle;
    rpc::nfs4::Stateid stateid;
  };

  [[nodiscard]] Result<Outcome> burst(std::uint64_t count, One one, bool timed = true);
  [[nodiscard]] const rpc::nfs4::FileHandle& directory(std::uint64_t index) const {
    return directories_[index % directories_.size()];
  }
  [[nodiscard]] std::string name(std::string_view kind, std::uint64_t index) const;
  // The file that a phase's operation of this number is about.
  [[nodiscard]] std::uint64_t pick(std::uint64_t number) const;
  void call(std::vector<rpc::nfs4::OpArgs> ops, bool changes, Done done, Then then);
  void make_directory(const rpc::nfs4::FileHandle& in, std::string name, Done done);
  void create(std::uint64_t index, std::uint32_t bytes, Done done);
  void open(std::uint64_t index, Done done);
  void open_with(std::uint64_t index, std::optional<rpc::nfs4::OpenCreate> how, std::uint32_t bytes,
                 Done done);
  void write(const Open& file, std::uint32_t bytes, Done done);
  void close(const Open& file, Done done);
  void stat(std::uint64_t index, Done done);
  void list(std::uint64_t index, const rpc::nfs4::ReadDirArgs& from, std::uint64_t seen, Done done);
  void rename(std::uint64_t index, Done done);
  void remove(const rpc::nfs4::FileHandle& from, std::string name, Done done);

  Engine& engine_;
  Mount& mount_;
  const NamesWork work_;
  std::vector<rpc::nfs4::FileHandle> directories_;
};

}  // namespace weft::load
