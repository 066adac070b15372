#include "ganesha-fsal/meta/kv/log_opening.h"

#include <algorithm>
#include <utility>

namespace weft::mds {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOStatus;

// The first bytes of a file.
class Shorter final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  Shorter(std::unique_ptr<rocksdb::FSSequentialFile>&& base, std::uint64_t bytes)
      : FSSequentialFileOwnerWrapper(std::move(base)), left_(bytes) {}

  IOStatus Read(std::size_t bytes, const rocksdb::IOOptions& options, rocksdb::Slice* result,
                char* scratch, IODebugContext* debug) override {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, left_));
    auto status = FSSequentialFileOwnerWrapper::Read(most, options, result, scratch, debug);
    if (status.ok()) left_ -= result->size();
    return status;
  }
  IOStatus Skip(std::uint64_t bytes) override {
    const std::uint64_t most = std::min(bytes, left_);
    left_ -= most;
    return FSSequentialFileOwnerWrapper::Skip(most);
  }

 private:
  std::uint64_t left_;
};

}  // namespace

LogOpening::LogOpening(std::shared_ptr<rocksdb::FileSystem> base, std::string folder,
                       bool read_only)
    : FileSystemWrapper(std::move(base)), folder_(std::move(folder)), read_only_(read_only) {}

IOStatus LogOpening::NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSSequentialFile>* out,
                                       IODebugContext* debug) {
  const auto log = opened_ ? std::nullopt : log_number(name);
  if (log && !ends_) {
    auto ends = check_logs(folder_, *log, !read_only_);
    if (!ends) {
      refused_ = ends.error();
      return refused_->code == Errc::kCorrupt ? IOStatus::Corruption(refused_->text)
                                              : IOStatus::IOError(refused_->text);
    }
    ends_ = std::move(*ends);
  }
  auto status = FileSystemWrapper::NewSequentialFile(name, options, out, debug);
  if (!status.ok() || !log) return status;
  if (const auto end = ends_->find(*log); end != ends_->end()) {
    *out = std::make_unique<Shorter>(std::move(*out), end->second);
  }
  return status;
}

}  // namespace weft::mds
