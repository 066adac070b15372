#include "dataserver/store/store_directory.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>

namespace weft::ds {

namespace {

constexpr const char* kIdentityFile = "identity";
constexpr const char* kLockFile = "lock";
constexpr const char* kCleanFile = "clean";
constexpr const char* kObjectsFolder = "objects";
constexpr std::size_t kMaxSmallFile = 4096;

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Takes `prefix`, a number and a newline off the front of `text`.
template <class T>
bool take_number(std::string_view& text, std::string_view prefix, int base, T& value) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with('\n')) return false;
  text.remove_prefix(1);
  return true;
}

// The same of a uuid in 32 hex digits.
bool take_uuid(std::string_view& text, std::string_view prefix, Uuid& uuid) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  if (text.size() < 2 * uuid.size() + 1) return false;
  for (std::byte& byte : uuid) {
    std::uint8_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + 2, value, 16);
    if (error != std::errc{} || end != text.data() + 2) return false;
    byte = std::byte{value};
    text.remove_prefix(2);
  }
  if (!text.starts_with('\n')) return false;
  text.remove_prefix(1);
  return true;
}

Result<bool> is_empty_folder(int parent, const char* name) {
  bool empty = true;
  auto listed = for_each_name(parent, name, [&empty](const char* entry) {
    if (std::strcmp(entry, ".") != 0 && std::strcmp(entry, "..") != 0) empty = false;
  });
  if (!listed && !(listed.error() == Errc::kNotFound)) return pass(listed);
  return empty;
}

bool is_object_folder(std::string_view name) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number, 16);
  return name.size() == 3 && error == std::errc{} && end == name.data() + name.size() &&
         number < kObjectFolders;
}

// True unless some object file is there, or something of somebody else: what a format that was cut
// short leaves behind.
Result<bool> holds_no_objects(int root) {
  if (::faccessat(root, kObjectsFolder, F_OK, 0) != 0 && errno == ENOENT) return true;
  std::size_t others = 0;  // somebody else's
  auto listed = for_each_name(root, kObjectsFolder, [&others](const char* entry) {
    if (entry[0] != '.' && !is_object_folder(entry)) ++others;
  });
  if (!listed) return pass(listed);
  if (others > 0) return false;
  for (unsigned folder = 0; folder < kObjectFolders; ++folder) {
    const std::string name = fmt::format("{}/{:03x}", kObjectsFolder, folder);
    auto empty = is_empty_folder(root, name.c_str());
    if (!empty) return pass(empty);
    if (!*empty) return false;
  }
  return true;
}

}  // namespace

std::string to_string(const Uuid& uuid) {
  std::string text;
  for (const std::byte byte : uuid) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::string format_identity(const StoreIdentity& identity) {
  const std::uint32_t format = identity.checksums
                                   ? (identity.segments ? kBothFormat : kChecksumsFormat)
                                   : (identity.segments ? kSegmentsFormat : kPlainFormat);
  return fmt::format("weft store {}\nuuid {}\ncluster {}\nds_id {}\n", format,
                     to_string(identity.uuid), to_string(identity.cluster), identity.ds_id);
}

Result<StoreIdentity> parse_identity(std::string_view text) {
  StoreIdentity identity;
  std::uint32_t format = 0;
  if (!take_number(text, "weft store ", 10, format)) {
    return fail(Errc::kCorrupt, "not a store's identity");
  }
  if (format < kPlainFormat || format > kBothFormat) {
    return fail(Errc::kNotSupported, fmt::format("store format {} is not known here", format));
  }
  identity.segments = format == kSegmentsFormat || format == kBothFormat;
  identity.checksums = format >= kChecksumsFormat;
  if (!take_uuid(text, "uuid ", identity.uuid) || !take_uuid(text, "cluster ", identity.cluster) ||
      !take_number(text, "ds_id ", 10, identity.ds_id) || !text.empty()) {
    return fail(Errc::kCorrupt, "the store's identity is malformed");
  }
  return identity;
}

namespace {

constexpr char kNoStore[] =
    " holds no store (is its disk mounted?), and store.create does not allow to make one";

// Also one that cannot be read.
bool has_identity(int root) {
  auto text = read_small_file(root, kIdentityFile, kMaxSmallFile);
  return text || !(text.error() == Errc::kNotFound);
}

}  // namespace

Result<std::unique_ptr<StoreDirectory>> StoreDirectory::open(const std::string& path, bool create,
                                                             Random& random) {
  if (create && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    if (errno == ENOENT) {
      return fail(Errc::kNotFound, path + ": the folder that it is to be made in is not there");
    }
    return fail_errno(errno, "mkdir " + path);
  }
  auto root = open_directory(path);
  if (!root) {
    if (create || !(root.error() == Errc::kNotFound)) return pass(root);
    return fail(Errc::kNotFound, path + kNoStore);
  }
  if (!create && !has_identity(root->get())) return fail(Errc::kNotFound, path + kNoStore);
  OwnedFd lock(::openat(root->get(), kLockFile, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return fail_errno(errno, "open " + path + "/lock");
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return fail(Errc::kBusy, path + " is in use by another process");
    return fail_errno(errno, "lock " + path);
  }
  std::unique_ptr<StoreDirectory> store(
      new StoreDirectory(path, std::move(*root), std::move(lock)));
  if (auto loaded = store->load_or_format(create, random); !loaded) return pass(loaded);
  if (auto loaded = store->load_verifier(random); !loaded) return pass(loaded);
  return store;
}

Result<> StoreDirectory::load_or_format(bool create, Random& random) {
  auto text = read_small_file(root_.get(), kIdentityFile, kMaxSmallFile);
  if (text) {
    auto identity = parse_identity(as_text(*text));
    if (!identity) return fail(identity.error().code, path_ + ": " + identity.error().text);
    identity_ = *identity;
  } else if (!(text.error() == Errc::kNotFound)) {
    return pass(text);
  } else if (!create) {  // it is gone since
    return fail(Errc::kNotFound, path_ + kNoStore);
  } else if (auto formatted = format(random); !formatted) {
    return pass(formatted);
  }
  auto objects = open_directory(path_ + "/" + kObjectsFolder);
  if (!objects && objects.error() == Errc::kNotFound) return lost_folder(kObjectsFolder);
  if (!objects) return pass(objects);
  objects_ = std::move(*objects);
  return {};
}

std::unexpected<Error> StoreDirectory::lost_folder(const std::string& name) const {
  return fail(Errc::kCorrupt,
              fmt::format("{} has lost its folder {}, and the objects in it, which would read as "
                          "holes: docs/troubleshooting.md, \"Its store has lost a folder\"",
                          path_, name));
}

Result<> StoreDirectory::check_folders() const {
  std::set<std::string, std::less<>> there;
  auto listed =
      for_each_name(objects_.get(), ".", [&there](const char* entry) { there.emplace(entry); });
  if (!listed) return listed;
  for (unsigned folder = 0; folder < kObjectFolders; ++folder) {
    const std::string name = fmt::format("{:03x}", folder);
    if (!there.contains(name)) return lost_folder(fmt::format("{}/{}", kObjectsFolder, name));
  }
  return {};
}

Result<> StoreDirectory::format(Random& random) {
  auto unused = holds_no_objects(root_.get());
  if (!unused) return pass(unused);
  if (!*unused) {
    return fail(Errc::kCorrupt,
                path_ + " holds objects, or other files in objects, but no identity");
  }
  if (auto made = ensure_directory(root_.get(), kObjectsFolder); !made) return pass(made);
  auto objects = open_directory(path_ + "/" + kObjectsFolder);
  if (!objects) return pass(objects);
  for (unsigned folder = 0; folder < kObjectFolders; ++folder) {
    const std::string name = fmt::format("{:03x}", folder);
    if (auto made = ensure_directory(objects->get(), name.c_str()); !made) return pass(made);
  }
  if (auto synced = sync_directory(objects->get()); !synced) return synced;
  for (std::size_t half = 0; half < 2; ++half) {
    const std::uint64_t bits = random.u64();
    std::memcpy(identity_.uuid.data() + half * 8, &bits, 8);
  }
  is_new_ = true;
  // Last: a format cut short before this leaves no identity, and is begun again.
  return replace_file(root_.get(), kIdentityFile, as_bytes(format_identity(identity_)));
}

Result<> StoreDirectory::load_verifier(Random& random) {
  auto text = read_small_file(root_.get(), kCleanFile, kMaxSmallFile);
  if (text) {
    std::string_view rest = as_text(*text);
    was_clean_ = take_number(rest, "verifier ", 16, verifier_) && rest.empty();
  } else if (!(text.error() == Errc::kNotFound)) {
    return pass(text);
  }
  if (!was_clean_) verifier_ = random.u64();
  return remove_file(root_.get(), kCleanFile);
}

Result<> StoreDirectory::join(const Uuid& cluster, std::uint32_t ds_id) {
  StoreIdentity changed = identity_;
  changed.cluster = cluster;
  changed.ds_id = ds_id;
  return change_identity(changed);
}

Result<> StoreDirectory::mark_segments(bool there) {
  StoreIdentity changed = identity_;
  changed.segments = there;
  return change_identity(changed);
}

Result<> StoreDirectory::mark_checksums(bool there) {
  StoreIdentity changed = identity_;
  changed.checksums = there;
  return change_identity(changed);
}

Result<> StoreDirectory::change_identity(const StoreIdentity& changed) {
  if (changed == identity_) return {};
  auto written = replace_file(root_.get(), kIdentityFile, as_bytes(format_identity(changed)));
  if (written) identity_ = changed;
  return written;
}

Result<> StoreDirectory::close_clean(WriteVerifier verifier) {
  const std::string text = fmt::format("verifier {:x}\n", verifier);
  return replace_file(root_.get(), kCleanFile, as_bytes(text));
}

}  // namespace weft::ds
