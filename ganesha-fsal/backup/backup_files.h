// A backup of the metadata server: a folder of its maker's, mode 0700, with
//
//   weft-backup    the manifest: what this is a backup of, and every file's length and SHA-256;
//   JSON
//                  in one line, and in a second one the SHA-256 of the first
//   store/         the files of a checkpoint of the metadata store
//   ganesha.conf   the metadata server's configuration, if there was one
//
// It is made under another name, synced, and renamed: what has its name is whole, whatever happens
// meanwhile. Nothing that the manifest does not name is used. Whether it fits is looked at before
// anything of it is written.
//
// What is secret in it: names, attributes, and the bytes of files that are kept in the metadata
// store; and what handles of exports of directories are sealed with. The cluster key is not in it.
//
// Threading: functions that block. Whoever can write where a backup is made can make it say
// anything; files are not followed to elsewhere by symbolic links.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/xdr/describe_json.h"

namespace weft::backup {

inline constexpr const char* kManifest = "weft-backup";
inline constexpr const char* kStore = "store";
inline constexpr const char* kConfiguration = "ganesha.conf";
inline constexpr std::uint32_t kFormat = 1;

struct File {
  std::string name;  // below the backup's folder, "store/CURRENT"
  std::uint64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
};
template <class Io>
void describe(Io& io, File& f) {
  io("name", f.name, at_most(512));
  io("bytes", f.bytes);
  io("sha256", f.sha256, at_most(64));
}

struct Manifest {
  std::uint32_t format = kFormat;
  std::string system;            // the metadata store's identity
  std::string version;           // of the metadata server
  std::uint64_t boot_epoch = 0;  // of the run that it was made in
  std::int64_t made_ns = 0;      // since 1970
  std::string key;               // fingerprint of the cluster key that was used
  std::vector<File> files;
};
template <class Io>
void describe(Io& io, Manifest& m) {
  io("weft_backup", m.format);
  io("system", m.system, at_most(128));
  io("version", m.version, at_most(128));
  io("boot_epoch", m.boot_epoch);
  io("made_ns", m.made_ns);
  io("key", m.key, at_most(64));
  io("files", m.files, at_most(1'000'000));
}

// The manifest as it is in its file. kCorrupt: damaged, or names what a backup has not;
// kNotSupported: of a later format.
[[nodiscard]] std::string write_manifest(const Manifest& manifest);
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text);
// kNotFound: `folder` is no backup, or not whole.
[[nodiscard]] Result<Manifest> read_manifest(const std::string& folder);

// What is left free where a backup is made, beside what the metadata store keeps.
inline constexpr std::uint64_t kSpare = std::uint64_t{16} << 20;

// Of a file system.
struct Space {
  std::uint64_t free_bytes = 0;  // to ordinary users
  std::uint64_t block_bytes = 1;
  bool of_store = false;  // the checkpoint is on it
};

struct BackupJob {
  std::string checkpoint;
  std::string configuration;            // empty: there is none
  std::string folder;                   // is made
  Manifest about;                       // all but the files
  std::uint64_t store_keeps_bytes = 0;  // that are to stay free of the store's file system
  // Asked when all is copied. An error: the copy may lack something. May be empty.
  std::function<Result<>()> confirm;
  // Of the file system that this folder is on; empty: it is asked. For tests.
  std::function<Result<Space>(const std::string& folder)> space;
};

// Copies the files of a checkpoint, and the configuration if there is one. Holds a shared lock on
// the checkpoint meanwhile. Returns the manifest. kExists: there is something at the folder;
// kNoSpace: it does not fit. After an error nothing is there.
[[nodiscard]] Result<Manifest> make_backup(const BackupJob& job);

struct Owner {
  uid_t user = 0;
  gid_t group = 0;
};
// Makes the folder of a metadata store, mode 0700, and the one that it is in, where they are not
// there. It belongs to the owner of the one that it is in; one that is made here, to `service`, if
// there is such a user. Who is not root gives nothing away.
[[nodiscard]] Result<> make_store_folder(const std::string& folder, std::optional<Owner> service);
// A metadata store that root has written to belongs, folder and files, to the folder's owner; to
// `service`, if there is such a user, where that is root. Who is not root gives nothing away.
[[nodiscard]] Result<> give_store(const std::string& folder, std::optional<Owner> service);
// The user of Weft's services, if it is there.
[[nodiscard]] std::optional<Owner> service_user();

// Whether every file is as the manifest says. kCorrupt, kNotFound.
[[nodiscard]] Result<> check_backup(const std::string& folder, const Manifest& manifest);

// Copies the store's files to the folder `store`, which is there, and syncs them. kCorrupt: one is
// not as the manifest says.
[[nodiscard]] Result<> copy_store(const std::string& folder, const Manifest& manifest,
                                  const std::string& store);

// Of a folder's own entries. A file system that cannot is let pass.
[[nodiscard]] Result<> sync_folder(const std::string& folder);

}  // namespace weft::backup
