#include "ganesha-fsal/backup/backup_files.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <pwd.h>
#include <spdlog/fmt/fmt.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace weft::backup {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kMostOfAManifest = std::size_t{256} << 20;
constexpr int kDepth = 4;  // of a manifest's JSON

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  const int fd_;
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    good_ = context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }
  void add(const void* bytes, std::size_t size) {
    good_ = good_ && EVP_DigestUpdate(context_.get(), bytes, size) == 1;
  }
  [[nodiscard]] Result<std::string> hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    if (!good_ || EVP_DigestFinal_ex(context_.get(), digest.data(), &size) != 1) {
      return fail(Errc::kIo, "OpenSSL has no SHA-256");
    }
    std::string out;
    for (unsigned i = 0; i < size; ++i) out += fmt::format("{:02x}", digest.at(i));
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
  bool good_ = false;
};

Result<std::string> sha256_of(std::string_view text) {
  Sha256 sum;
  sum.add(text.data(), text.size());
  return sum.hex();
}

Result<> write_all(int fd, const char* bytes, std::size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t written = ::write(fd, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(errno, "write " + path);
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return {};
}

// What is read of `from`, and where to, if so asked. Only regular files, and not by symbolic links.
Result<File> read_file(const std::string& from, const std::optional<std::string>& to) {
  const Fd in(::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!in) return fail_errno(errno, "open " + from);
  struct stat about{};
  if (::fstat(in.get(), &about) != 0) return fail_errno(errno, "stat " + from);
  if (!S_ISREG(about.st_mode)) return fail(Errc::kWrongType, from + " is no regular file");
  const Fd out(to ? ::open(to->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
                  : -1);
  if (to && !out) return fail_errno(errno, "create " + *to);
  static_cast<void>(::posix_fadvise(in.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
  File file;
  Sha256 sum;
  std::vector<char> piece(kPiece);
  for (;;) {
    const ssize_t got = ::read(in.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read " + from);
    if (got == 0) break;
    sum.add(piece.data(), static_cast<std::size_t>(got));
    file.bytes += static_cast<std::uint64_t>(got);
    if (!to) continue;
    auto written = write_all(out.get(), piece.data(), static_cast<std::size_t>(got), *to);
    if (!written) return pass(written);
  }
  if (to && ::fsync(out.get()) != 0) return fail_errno(errno, "sync " + *to);
  auto hex = sum.hex();
  if (!hex) return pass(hex);
  file.sha256 = std::move(*hex);
  return file;
}

Result<> write_text(const std::string& path, std::string_view text) {
  const Fd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!out) return fail_errno(errno, "create " + path);
  if (auto written = write_all(out.get(), text.data(), text.size(), path); !written) {
    return written;
  }
  if (::fsync(out.get()) != 0) return fail_errno(errno, "sync " + path);
  return {};
}

// "store/" and one name, or the configuration.
bool names_a_file(const std::string& name) {
  if (name == kConfiguration) return true;
  const std::string below = std::string(kStore) + "/";
  if (!name.starts_with(below)) return false;
  const std::string rest = name.substr(below.size());
  return !rest.empty() && rest != "." && rest != ".." && rest.find('/') == std::string::npos &&
         rest.find('\0') == std::string::npos;
}

bool is_sum(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Error damaged(const std::string& what) { return {Errc::kCorrupt, "damaged backup: " + what}; }

Result<> same(const File& wanted, const File& found) {
  if (wanted.bytes == found.bytes && wanted.sha256 == found.sha256) return {};
  return std::unexpected(damaged(wanted.name + " is not as it was written"));
}

bool of_store(const File& file) { return file.name != kConfiguration; }
std::string base_of(const File& file) { return fs::path(file.name).filename().string(); }

// Of the checkpoint, in order.
Result<std::vector<std::string>> names_in(const std::string& checkpoint) {
  std::error_code failed;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoint, failed)) {
    names.push_back(entry.path().filename().string());
  }
  if (failed) return fail_errno(failed.value(), "read " + checkpoint);
  std::ranges::sort(names);
  return names;
}

Result<Space> space_at(const std::string& folder, const std::string& checkpoint) {
  struct statvfs space{};
  if (::statvfs(folder.c_str(), &space) != 0) return fail_errno(errno, "look at " + folder);
  struct stat there{};
  struct stat store{};
  if (::stat(folder.c_str(), &there) != 0) return fail_errno(errno, "stat " + folder);
  if (::stat(checkpoint.c_str(), &store) != 0) return fail_errno(errno, "stat " + checkpoint);
  return Space{.free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize,
               .block_bytes = space.f_frsize,
               .of_store = there.st_dev == store.st_dev};
}

// What the files take in blocks of so many bytes.
Result<std::uint64_t> bytes_of(const BackupJob& job, const std::vector<std::string>& names,
                               std::uint64_t block) {
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(job.checkpoint + "/" + name);
  if (!job.configuration.empty()) paths.push_back(job.configuration);
  block = std::max<std::uint64_t>(block, 1);
  std::uint64_t bytes = 0;
  for (const std::string& path : paths) {
    struct stat about{};
    if (::lstat(path.c_str(), &about) != 0) return fail_errno(errno, "stat " + path);
    bytes += (static_cast<std::uint64_t>(about.st_size) + block - 1) / block * block;
  }
  return bytes;
}

// What the store keeps free of its file system stays free: under that it takes nothing new.
Result<> check_space(const BackupJob& job, const std::vector<std::string>& names,
                     const std::string& folder) {
  const auto space = job.space ? job.space(folder) : space_at(folder, job.checkpoint);
  if (!space) return std::unexpected(space.error());
  const auto bytes = bytes_of(job, names, space->block_bytes);
  if (!bytes) return std::unexpected(bytes.error());
  const std::uint64_t needed = *bytes + kSpare;
  const std::uint64_t kept = space->of_store ? job.store_keeps_bytes : 0;
  if (needed + kept <= space->free_bytes) return {};
  constexpr std::uint64_t kMib = 1U << 20;
  std::string text = fmt::format("the backup needs {} MiB in {}, and {} MiB are free there",
                                 (needed + kMib - 1) / kMib, folder, space->free_bytes / kMib);
  if (kept > 0) {
    text += fmt::format(
        ", of which {} MiB stay free for the metadata store, which is on the same file system",
        (kept + kMib - 1) / kMib);
  }
  return fail(Errc::kNoSpace, std::move(text));
}

// What make_backup() makes, at the name that it has until it is whole.
Result<Manifest> fill(const BackupJob& job, const std::vector<std::string>& names,
                      const std::string& folder) {
  Manifest about = job.about;
  for (const std::string& path : {folder, folder + "/" + kStore}) {
    if (::mkdir(path.c_str(), 0700) != 0) return fail_errno(errno, "mkdir " + path);
  }
  for (const std::string& name : names) {
    const std::string in_backup = std::string(kStore) + "/" + name;
    auto file = read_file(job.checkpoint + "/" + name, folder + "/" + in_backup);
    if (!file) return pass(file);
    file->name = in_backup;
    about.files.push_back(std::move(*file));
  }
  if (!job.configuration.empty()) {
    auto file = read_file(job.configuration, folder + "/" + kConfiguration);
    if (!file) return pass(file);
    file->name = kConfiguration;
    about.files.push_back(std::move(*file));
  }
  if (auto written = write_text(folder + "/" + kManifest, write_manifest(about)); !written) {
    return pass(written);
  }
  for (const std::string& path : {folder + "/" + kStore, folder}) {
    if (auto synced = sync_folder(path); !synced) return pass(synced);
  }
  if (job.confirm) {
    if (auto whole = job.confirm(); !whole) return pass(whole);
  }
  return about;
}

// `path` without a slash at its end.
std::string trimmed(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

std::string write_manifest(const Manifest& manifest) {
  const std::string line = write_json(to_json(manifest)) + "\n";
  const auto sum = sha256_of(line);
  return line + (sum ? *sum : "") + "\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == text.npos) return std::unexpected(damaged("the manifest has no end"));
  const std::string_view line = text.substr(0, end + 1);
  auto sum = sha256_of(line);
  if (!sum) return pass(sum);
  if (text.substr(end + 1) != *sum + "\n") {
    return std::unexpected(damaged("the manifest is not as it was written"));
  }
  auto document = parse_json(line.substr(0, end), kDepth);
  if (!document) return std::unexpected(damaged(document.error().text));
  if (const auto format = document->find("weft_backup");
      format != document->end() && format->is_number_unsigned() && *format > kFormat) {
    return fail(Errc::kNotSupported, "a backup of a later format than this program knows");
  }
  auto manifest = from_json<Manifest>(*document, "manifest");
  if (!manifest) return std::unexpected(damaged(manifest.error().text));
  std::set<std::string> names;
  for (const File& file : manifest->files) {
    if (!names_a_file(file.name) || !is_sum(file.sha256) || !names.insert(file.name).second) {
      return std::unexpected(damaged("the manifest names what no backup has"));
    }
  }
  return manifest;
}

Result<Manifest> read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifest;
  const Fd in(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!in && errno == ENOENT) {
    return fail(Errc::kNotFound, folder + " is no backup of a metadata server: it has no file " +
                                     std::string(kManifest));
  }
  if (!in) return fail_errno(errno, "open " + path);
  std::string text;
  std::vector<char> piece(kPiece);
  for (;;) {
    const ssize_t got = ::read(in.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read " + path);
    if (got == 0) return parse_manifest(text);
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > kMostOfAManifest) return std::unexpected(damaged("a manifest without end"));
  }
}

Result<Manifest> make_backup(const BackupJob& job) {
  const std::string& checkpoint = job.checkpoint;
  const std::string whole = trimmed(job.folder);
  const std::string partial = whole + ".weft-partial";
  struct stat there{};
  if (::lstat(whole.c_str(), &there) == 0) {
    return fail(Errc::kExists, whole + " exists: a backup gets a folder of its own");
  }
  const Fd lock(::open(checkpoint.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock) return fail_errno(errno, "open " + checkpoint);
  if (::flock(lock.get(), LOCK_SH | LOCK_NB) != 0) return fail_errno(errno, "lock " + checkpoint);
  std::error_code failed;
  fs::remove_all(partial, failed);  // of one that was interrupted
  if (failed) return fail_errno(failed.value(), "remove " + partial);
  auto names = names_in(checkpoint);
  if (!names) return pass(names);
  const fs::path above = fs::path(whole).parent_path();
  const std::string parent = above.empty() ? "." : above.string();
  if (auto fits = check_space(job, *names, parent); !fits) return pass(fits);
  auto made = fill(job, *names, partial);
  if (made &&
      ::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, whole.c_str(), RENAME_NOREPLACE) != 0) {
    // Not all file systems know the flag. Then an empty folder that somebody made meanwhile goes.
    if (errno != EINVAL || ::rename(partial.c_str(), whole.c_str()) != 0) {
      made = fail_errno(errno, "rename " + partial);
    }
  }
  if (!made) {
    fs::remove_all(partial, failed);
    return made;
  }
  if (auto synced = sync_folder(parent); !synced) return pass(synced);
  return made;
}

Result<> check_backup(const std::string& folder, const Manifest& manifest) {
  for (const File& wanted : manifest.files) {
    auto found = read_file(folder + "/" + wanted.name, std::nullopt);
    if (!found && found.error() == Errc::kNotFound) {
      return std::unexpected(damaged(wanted.name + " is missing"));
    }
    if (!found) return pass(found);
    if (auto fits = same(wanted, *found); !fits) return fits;
  }
  return {};
}

Result<> copy_store(const std::string& folder, const Manifest& manifest, const std::string& store) {
  for (const File& wanted : manifest.files) {
    if (!of_store(wanted)) continue;
    auto copied = read_file(folder + "/" + wanted.name, store + "/" + base_of(wanted));
    if (!copied) return pass(copied);
    if (auto fits = same(wanted, *copied); !fits) return fits;
  }
  return sync_folder(store);
}

namespace {

Result<> give(const std::string& folder, Owner owner) {
  if (::geteuid() != 0 || ::chown(folder.c_str(), owner.user, owner.group) == 0) return {};
  return fail_errno(errno, "chown " + folder);
}

std::string parent_of(const std::string& folder) {
  const fs::path path(folder);
  const std::string parent = (path.has_filename() ? path : path.parent_path()).parent_path();
  return parent.empty() ? "." : parent;
}

}  // namespace

Result<> make_store_folder(const std::string& folder, std::optional<Owner> service) {
  const std::string parent = parent_of(folder);
  if (::mkdir(parent.c_str(), 0700) == 0) {
    if (service) {
      if (auto given = give(parent, *service); !given) return given;
    }
    if (auto synced = sync_folder(parent_of(parent)); !synced) return synced;
  }
  if (::mkdir(folder.c_str(), 0700) != 0) {
    return errno == EEXIST ? Result<>() : fail_errno(errno, "mkdir " + folder);
  }
  struct stat above{};
  if (::stat(parent.c_str(), &above) != 0) return fail_errno(errno, "stat " + parent);
  if (auto given = give(folder, {above.st_uid, above.st_gid}); !given) return given;
  return sync_folder(parent);
}

Result<> give_store(const std::string& folder, std::optional<Owner> service) {
  if (::geteuid() != 0) return {};
  struct stat about{};
  if (::stat(folder.c_str(), &about) != 0) return fail_errno(errno, "stat " + folder);
  const Owner there{.user = about.st_uid, .group = about.st_gid};
  const Owner owner = there.user == 0 ? service.value_or(there) : there;
  if (auto given = give(folder, owner); !given) return given;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().filename() == "lost+found") continue;
    if (::lchown(entry.path().c_str(), owner.user, owner.group) != 0) {
      return fail_errno(errno, "chown " + entry.path().string());
    }
  }
  if (failed) return fail_errno(failed.value(), "read " + folder);
  return {};
}

std::optional<Owner> service_user() {
  const passwd* const user = ::getpwnam("weft");
  if (user == nullptr) return std::nullopt;
  return Owner{.user = user->pw_uid, .group = user->pw_gid};
}

Result<> sync_folder(const std::string& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, "open " + folder);
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return fail_errno(errno, "sync " + folder);
  return {};
}

}  // namespace weft::backup
