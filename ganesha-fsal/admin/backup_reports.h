// What the metadata server answers about backups (requests.h); as source.h.
//
// Threading: plain values.
#pragma once

#include "ganesha-fsal/admin/source.h"

namespace weft::mds {

// A checkpoint of the metadata store, to be copied.
struct CheckpointReport {
  std::string folder;  // of the metadata server's machine
  std::string system;  // its identity
  std::string version;
  std::uint64_t boot_epoch = 0;
  std::int64_t made_ns = 0;             // since 1970
  std::string key;                      // fingerprint of the cluster key in use
  std::string id;                       // for EndBackup; empty: of an older server, which drops any
  std::uint64_t store_keeps_bytes = 0;  // that are to stay free of the store's file system
};
template <class Io>
void describe(Io& io, CheckpointReport& r) {
  io("folder", r.folder, cut_at(kMaxReportPath));
  io("system", r.system, cut_at(kMaxReportText));
  io("version", r.version, cut_at(kMaxReportText));
  io("boot_epoch", r.boot_epoch);
  io("made_ns", r.made_ns);
  io("key", r.key, cut_at(kMaxReportText));
  io("id", r.id, newer(cut_at(kMaxReportText)));
  io("store_keeps_bytes", r.store_keeps_bytes, newer());
}

// A file that has lost bytes since the backup.
struct DamagedFileReport {
  std::uint64_t fileid = 0;
  std::string path;           // one of its paths, from the root of the store; empty: not found
  std::uint32_t missing = 0;  // stripes of which the objects are gone
  std::uint32_t cut = 0;      // of which they are too short
};
template <class Io>
void describe(Io& io, DamagedFileReport& r) {
  io("fileid", r.fileid);
  io("path", r.path, cut_at(kMaxReportPath));
  io("missing", r.missing);
  io("cut", r.cut);
}

// What became of a metadata store that came back from a backup.
struct RestoredReport {
  bool restored = false;                 // it did; else all of the rest is 0
  std::int64_t made_ns = 0;              // the backup, since 1970
  std::int64_t restored_ns = 0;          // the restore
  std::uint64_t unchecked = 0;           // files whose objects were not looked at yet
  std::uint64_t damaged = 0;             // files that have lost bytes
  std::uint64_t grown = 0;               // files that were longer than at the backup
  std::vector<DamagedFileReport> files;  // the first of the damaged ones
};
template <class Io>
void describe(Io& io, RestoredReport& r) {
  io("restored", r.restored);
  io("made_ns", r.made_ns);
  io("restored_ns", r.restored_ns);
  io("unchecked", r.unchecked);
  io("damaged", r.damaged);
  io("grown", r.grown);
  io("files", r.files, cut_at(kLongList));
}

}  // namespace weft::mds
