#include "rpc/peer/keyring.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "rpc/base/assert.h"

namespace weft::rpc::peer {
namespace {

std::string fingerprints_text(const ClusterKeys& keys) {
  std::string text;
  for (const ClusterKey& key : keys) text += (text.empty() ? "" : ",") + fingerprint_text(key);
  return text;
}

}  // namespace

Keyring::Keyring(const ClusterKeys& keys) { use(keys); }

Result<std::shared_ptr<Keyring>> Keyring::load(const std::string& path) {
  const Seen seen = look(path);
  auto keys = load_cluster_keys(path);
  if (!keys) return pass(keys);
  auto ring = std::make_shared<Keyring>(*keys);
  ring->path_ = path;
  ring->seen_ = seen;
  return ring;
}

bool Keyring::accepts(const ClusterKey& key) const {
  const ClusterKeys& keys = now().cluster;
  return std::ranges::find(keys, key) != keys.end();
}

void Keyring::use(const ClusterKeys& keys) {
  WEFT_ASSERT(!keys.empty() && keys.size() <= kMostClusterKeys);
  auto made = std::make_unique<Keys>();
  made->cluster = keys;
  for (const ClusterKey& key : keys) {
    made->handle.push_back(handle_key(key));
    made->fingerprints.push_back(fingerprint(key));
  }
  const MutexLock lock(mutex_);
  now_.store(made.get(), std::memory_order_release);
  all_.push_back(std::move(made));
}

Keyring::Seen Keyring::look(const std::string& path) {
  struct stat found{};
  if (stat(path.c_str(), &found) != 0) return {};
  return {.device = found.st_dev,
          .inode = found.st_ino,
          .size = found.st_size,
          .changed_ns = found.st_ctim.tv_sec * 1'000'000'000 + found.st_ctim.tv_nsec};
}

// What the file was like is taken before it is read: what changes meanwhile is read the next time.
bool Keyring::follow() {
  if (path_.empty()) return false;
  const Seen seen = look(path_);
  const bool same = seen == std::exchange(seen_, seen);
  if (same && !unread_) return false;
  const auto keys = load_cluster_keys(path_);
  unread_ = !keys;
  if (!keys) {
    if (same) return false;  // it was said
    spdlog::error("event=key_file_unusable kept={} error=\"{}\"", fingerprints_text(now().cluster),
                  keys.error().describe());
    return false;
  }
  if (*keys == now().cluster) return false;
  use(*keys);
  spdlog::info("event=keys_changed uses={} accepts={}", fingerprint_text(first()),
               fingerprints_text(*keys));
  return true;
}

}  // namespace weft::rpc::peer
