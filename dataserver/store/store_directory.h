// What a store's folder holds beside its objects: identity, lock, and the write verifier's fate.
//
//   <store>/identity   text: format version, uuid, cluster and data server id (parse_identity())
//   <store>/lock       flock(2)ed exclusively while a process has the store open
//   <store>/clean      the write verifier, present only between a clean close and the next open
//   <store>/fences     the fencing log (fence_table.h)
//   <store>/probe      zeros, written when the disk is in doubt (disk_watch.h)
//   <store>/objects/   000 .. 3ff, the object files (object_files.h), in formats 3 and 4 with
//                      checksums beside them (dataserver/sums)
//   <store>/segments/  only in formats 2 and 4: a store of its own (dataserver/segments)
//
// A store is what its identity says. A folder without one is formatted anew, with a new uuid: a
// wiped store is a new data server. A folder with object files but without identity is refused, and
// a store that lacks one of the 1024 folders: what was in it would read as holes.
//
// A store is of format 2 while it may have segments, of format 3 while it may have checksums, of
// format 4 with both, and of format 1 otherwise: a version that knows none of them refuses it,
// since what it changed the segments and checksums would not know.
//
// The write verifier tells clients whether unstable writes may have been lost (RFC 8881 section
// 18.32.3). close_clean() leaves it in `clean` when everything is stable; open() consumes it.
// Without `clean` the last process died, and open() picks a new verifier: clients write again what
// was not committed, so nothing is promised of what is found but what was stable already.
//
// Threading: open and close from one thread; identity() is constant but for join() and
// mark_...(), which must not race with it nor with each other.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "dataserver/store/disk.h"
#include "dataserver/store/disk_watch.h"
#include "dataserver/store/store.h"
#include "rpc/base/clock.h"

namespace weft::ds {

using Uuid = std::array<std::byte, 16>;

struct StoreIdentity {
  Uuid uuid{};              // made once, with the store
  Uuid cluster{};           // the system the store belongs to; zeros before it was registered
  std::uint32_t ds_id = 0;  // given by that system's metadata server; 0 before
  bool segments = false;    // there may be some: format 2 or 4
  bool checksums = false;   // there may be some: format 3 or 4

  friend bool operator==(const StoreIdentity&, const StoreIdentity&) = default;
};

constexpr std::uint32_t kPlainFormat = 1;
constexpr std::uint32_t kSegmentsFormat = 2;
constexpr std::uint32_t kChecksumsFormat = 3;
constexpr std::uint32_t kBothFormat = 4;
constexpr unsigned kObjectFolders = 1024;

[[nodiscard]] std::string format_identity(const StoreIdentity& identity);
// kCorrupt unless the text is what format_identity() writes; kNotSupported for another format.
[[nodiscard]] Result<StoreIdentity> parse_identity(std::string_view text);
// "0011..ff": 32 hex digits.
[[nodiscard]] std::string to_string(const Uuid& uuid);

class StoreDirectory {
 public:
  // Opens, or with `create` formats, the store in `path`. kBusy when another process has it;
  // kNotFound when it is absent and not to be created; kCorrupt, also without objects/.
  [[nodiscard]] static Result<std::unique_ptr<StoreDirectory>> open(const std::string& path,
                                                                    bool create, Random& random);

  // kCorrupt: a folder of objects is missing. By one listing of objects/.
  [[nodiscard]] Result<> check_folders() const;

  [[nodiscard]] const StoreIdentity& identity() const { return identity_; }
  // Remembers, durably, the system the store belongs to from now on.
  [[nodiscard]] Result<> join(const Uuid& cluster, std::uint32_t ds_id);
  // Says, durably, whether the store may have segments: before the first, after the last.
  [[nodiscard]] Result<> mark_segments(bool there);
  // The same of checksums.
  [[nodiscard]] Result<> mark_checksums(bool there);
  // The verifier to start with.
  [[nodiscard]] WriteVerifier verifier() const { return verifier_; }
  // Whether the last process closed the store in order.
  [[nodiscard]] bool was_clean() const { return was_clean_; }
  // Whether open() made the store: there are no objects yet.
  [[nodiscard]] bool is_new() const { return is_new_; }
  // Leaves `verifier` for the next open. Precondition: all objects are stable, and nothing is
  // written after. On an error the next open finds an unclean store.
  [[nodiscard]] Result<> close_clean(WriteVerifier verifier);

  [[nodiscard]] int root() const { return root_.get(); }
  [[nodiscard]] DiskWatch& watch() { return watch_; }
  [[nodiscard]] int objects() const { return objects_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  StoreDirectory(std::string path, OwnedFd root, OwnedFd lock)
      : path_(std::move(path)),
        root_(std::move(root)),
        lock_(std::move(lock)),
        watch_(root_.get()) {}
  [[nodiscard]] Result<> load_or_format(bool create, Random& random);
  [[nodiscard]] Result<> format(Random& random);
  [[nodiscard]] Result<> load_verifier(Random& random);
  [[nodiscard]] Result<> change_identity(const StoreIdentity& changed);
  [[nodiscard]] std::unexpected<Error> lost_folder(const std::string& name) const;

  std::string path_;
  OwnedFd root_;
  OwnedFd lock_;
  OwnedFd objects_;
  DiskWatch watch_;
  StoreIdentity identity_;
  WriteVerifier verifier_ = 0;
  bool was_clean_ = false;
  bool is_new_ = false;
};

}  // namespace weft::ds
