// Which exports there are, and the metadata servers that they share: one for each Metadata_Path.
//
// Ownership: a ServedStore is made by the first export that names its Metadata_Path, shared by the
// others, and gone with the last. A thread of its own may give up the last export (MayEnd,
// recaller.h): then another one ends it. The same path is opened again only when that is done.
//
// Threading: any thread. While a store is opened, or ended, for as long as its disk takes, the
// others are served.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ganesha-fsal/config/options.h"
#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/glue/open_files.h"
#include "ganesha-fsal/glue/recaller.h"
#include "ganesha-fsal/server/metadata_server.h"
#include "ganesha-fsal/server/signs_of_life.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

// A metadata store, its server, and what of it is Ganesha's business.
struct ServedStore {
  std::string path;
  std::uint64_t number = 0;           // of this process: no other store has or had it
  std::vector<OptionReport> options;  // of the export that opened it, which are the server's
  OpenFiles open_files;
  UpcallRecaller recaller;
  std::atomic<bool> waits{false};  // the store, for its disk
  std::unique_ptr<KvStore> kv;
  std::unique_ptr<MetadataServer> server;  // ends before what it uses
  SignsOfLife::Hold alive;
};

class Exports {
 public:
  // Opens, or shares, the store of options.metadata_path. The error's text names the option that
  // is wrong, or contradicts the export that opened it first.
  [[nodiscard]] Result<std::shared_ptr<ServedStore>> open(const weft_options& options);
  // Ends the process while ganesha.nfsd starts: an export cannot be made. The line goes to its log.
  [[noreturn]] static void end_start(const std::string& why, int status);
  // Waits for those that are being closed. Before the library is unloaded.
  void wait_closed();

  // The next export of a number may come while what is under way keeps the last one: `whose` says
  // which of the two it is.
  void add(std::uint16_t export_id, const fsal_export* whose,
           const std::shared_ptr<ServedStore>& store, std::string pseudo_path, FileId root,
           const layout::PlacementPolicy& policy, std::vector<OptionReport> options);
  // The file was read again: an export's policy and options, and those of the store that `holds`
  // names.
  void change(std::uint16_t export_id, const layout::PlacementPolicy& policy,
              std::vector<OptionReport> options);
  void change_server(ServedStore& store, const std::vector<OptionReport>& options,
                     bool (*holds)(std::string_view name));
  void remove(std::uint16_t export_id, const fsal_export* whose);
  // The store of an export, by its number; null when there is none.
  [[nodiscard]] std::shared_ptr<ServedStore> store_of(std::uint16_t export_id);
  // Null when it is closed.
  [[nodiscard]] std::shared_ptr<ServedStore> store_numbered(std::uint64_t number);
  // How many copies the exports of a store ask for.
  [[nodiscard]] std::set<std::uint32_t> copies_of(const ServedStore& store);
  // The options of a store and of its exports.
  [[nodiscard]] ConfigReport config_of(const ServedStore& store);
  // The export that a client's path is in; nullopt when it is in none of ours.
  [[nodiscard]] std::optional<PathInExport> find_path(std::string_view path);

  // While it lives on a thread of a server's own, such as one that completes I/O, the server may
  // lose its last owner there. Another thread then ends it, as it joins its own.
  class MayEnd {
   public:
    MayEnd();
    MayEnd(const MayEnd&) = delete;
    MayEnd& operator=(const MayEnd&) = delete;
    ~MayEnd();
  };

 private:
  // Forgets the path when it ends, unless the store is there by then.
  class Opening;
  // The store of that path, if it is served. Else the path has a number, and is the caller's.
  [[nodiscard]] Result<std::shared_ptr<ServedStore>> find_or_begin(const std::string& path);
  [[nodiscard]] Result<std::unique_ptr<ServedStore>> make(const weft_options& options,
                                                          std::uint64_t number, bool alone);
  // What the last owner does: ends it, and then forgets the path.
  void close(ServedStore* store);
  void forget(const std::string& path);

  struct Exported {
    const fsal_export* whose = nullptr;
    std::weak_ptr<ServedStore> store;
    std::string pseudo_path;
    FileId root = kRootFileId;
    layout::PlacementPolicy policy;
    std::vector<OptionReport> options;
  };
  struct ByPath {
    std::uint64_t number = 0;
    std::weak_ptr<ServedStore> store{};  // none while it is opened, and while it is closed
  };
  Mutex mutex_;
  CondVar closed_;
  // A path is here from the opening of its store until that is closed. Whoever takes hold of a
  // store by its path may be its last owner, and gives it up without the lock, which close() takes.
  std::map<std::string, ByPath> by_path_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t last_number_ WEFT_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> closers_ WEFT_GUARDED_BY(mutex_);
  std::map<std::uint16_t, Exported> by_id_ WEFT_GUARDED_BY(mutex_);
};

// Of this process. Never destroyed: Ganesha may exit with exports that were not released.
[[nodiscard]] Exports& exports();

}  // namespace weft::mds
