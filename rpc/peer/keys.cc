#include "rpc/peer/keys.h"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "rpc/base/assert.h"
#include "rpc/base/buffer.h"

namespace weft::rpc::peer {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

constexpr std::size_t kMaxKeyFile = 256;

// All of a new key file, synced.
Result<> write_keys(int file, const ClusterKeys& keys) {
  std::string text;
  for (const ClusterKey& key : keys) text += key_line(key);
  const ssize_t written = write(file, text.data(), text.size());
  OPENSSL_cleanse(text.data(), text.size());
  if (written < 0) return fail_errno(errno, "write");
  if (static_cast<std::size_t>(written) != text.size()) return fail(Errc::kNoSpace, "write");
  if (fsync(file) != 0) return fail_errno(errno, "fsync");
  return {};
}

}  // namespace

Key hmac(const Key& key, std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<unsigned char> input;
  for (const auto part : parts) {
    const auto* at = reinterpret_cast<const unsigned char*>(part.data());
    input.insert(input.end(), at, at + part.size());
  }
  Key out;
  unsigned size = 0;
  const auto* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), input.data(),
                          input.size(), reinterpret_cast<unsigned char*>(out.data()), &size);
  WEFT_ASSERT(done != nullptr && size == out.size());
  return out;
}

Result<ClusterKey> parse_cluster_key(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  if (text.size() != 2 * kKeyBytes) {
    return fail(Errc::kInvalid, "a cluster key is 64 hexadecimal digits");
  }
  ClusterKey key;
  for (std::size_t i = 0; i < kKeyBytes; ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return fail(Errc::kInvalid, "a cluster key is 64 hexadecimal digits");
    }
    key.bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  return key;
}

Result<ClusterKeys> parse_cluster_keys(std::string_view text) {
  ClusterKeys keys;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (std::ranges::all_of(line, is_space)) continue;
    auto key = parse_cluster_key(line);
    if (!key) return pass(key);
    if (std::ranges::find(keys, *key) != keys.end())
      return fail(Errc::kInvalid, "a key is there twice");
    keys.push_back(*key);
  }
  if (keys.empty()) return fail(Errc::kInvalid, "no key: 64 hexadecimal digits are wanted");
  if (keys.size() > kMostClusterKeys) return fail(Errc::kInvalid, "more than two keys");
  return keys;
}

Result<ClusterKeys> load_cluster_keys(const std::string& path) {
  const OwnedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno(errno, "open " + path);
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return fail_errno(errno, "stat " + path);
  if (!S_ISREG(status.st_mode)) return fail(Errc::kInvalid, path + " is no regular file");
  if ((status.st_mode & 077) != 0) {
    return fail(Errc::kAccess, path + " must be readable by its owner only (chmod 600)");
  }
  std::array<char, kMaxKeyFile> text{};
  const ssize_t size = read(file.get(), text.data(), text.size());
  if (size < 0) return fail_errno(errno, "read " + path);
  auto keys = parse_cluster_keys({text.data(), static_cast<std::size_t>(size)});
  OPENSSL_cleanse(text.data(), text.size());
  if (!keys) return fail(keys.error().code, path + ": " + keys.error().text);
  return keys;
}

std::string key_line(const ClusterKey& key) {
  std::string text;
  for (const std::byte byte : key.bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text + '\n';
}

ClusterKey random_cluster_key() {
  ClusterKey key;
  WEFT_ASSERT(RAND_bytes(reinterpret_cast<unsigned char*>(key.bytes.data()), kKeyBytes) == 1);
  return key;
}

Result<ClusterKey> create_cluster_key(const std::string& path) {
  const ClusterKey key = random_cluster_key();
  const OwnedFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return fail_errno(errno, "create " + path);
  if (auto written = write_keys(file.get(), {key}); !written) {
    unlink(path.c_str());
    return fail(written.error().code, path + ": " + written.error().text);
  }
  return key;
}

Result<> replace_cluster_keys(const std::string& path, const ClusterKeys& keys) {
  struct stat old{};
  if (stat(path.c_str(), &old) != 0) return fail_errno(errno, "stat " + path);
  std::string made = path + ".XXXXXX";
  const OwnedFd file(mkostemp(made.data(), O_CLOEXEC));  // mode 0600
  if (!file) return fail_errno(errno, "create " + made);
  auto done = write_keys(file.get(), keys);
  if (done && fchown(file.get(), old.st_uid, old.st_gid) != 0) done = fail_errno(errno, "chown");
  if (done && rename(made.c_str(), path.c_str()) != 0) done = fail_errno(errno, "rename");
  if (!done) {
    unlink(made.c_str());
    return fail(done.error().code, path + ": " + done.error().text);
  }
  const auto folder = std::filesystem::path(path).parent_path();
  const OwnedFd directory(open(folder.empty() ? "." : folder.c_str(), O_DIRECTORY | O_CLOEXEC));
  if (!directory || fsync(directory.get()) != 0) return fail_errno(errno, "sync " + path);
  return {};
}

Key derive(const ClusterKey& key, std::string_view label, std::span<const std::byte> context) {
  constexpr std::string_view kPrefix = "weft ";
  constexpr std::byte kEnd{0};
  return hmac(key.bytes, {std::as_bytes(std::span(kPrefix)), std::as_bytes(std::span(label)),
                          std::span(&kEnd, 1), context});
}

std::uint64_t fingerprint(const ClusterKey& key) {
  const Key derived = derive(key, "fingerprint");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(derived[i]);
  }
  return std::max<std::uint64_t>(value, 1);
}

std::string fingerprint_text(const ClusterKey& key) {
  return fmt::format("{:016x}", fingerprint(key));
}

layout::HandleKey handle_key(const ClusterKey& key) {
  const Key derived = derive(key, "handle");
  layout::HandleKey out;
  std::ranges::copy(std::span(derived).first<sizeof(layout::HandleKey)>(), out.begin());
  return out;
}

}  // namespace weft::rpc::peer
