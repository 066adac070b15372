// A data server in a map: the OpHandler the session tests run against. Counts what it executes.
//
// Threading: execute() from any I/O thread (one mutex; these are tests).
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "rpc/session/handler.h"

namespace weft::rpc::test {

class MemoryHandler final : public OpHandler {
 public:
  explicit MemoryHandler(BufferPool& pool) : pool_(pool) {}

  void execute(Compound& compound, nfs4::OpArgs op, OpDone done) override {
    const std::scoped_lock lock(mutex_);
    ++executed_[op.op];
    if (auto* put = std::get_if<nfs4::PutFhArgs>(&op.args)) {
      compound.scratch = put->handle;
      compound.shows_right = true;
      return done({op.op, nfs4::Status::NFS4_OK, nfs4::None{}, 0});
    }
    const auto* handle = std::any_cast<nfs4::FileHandle>(&compound.scratch);
    const auto key = handle == nullptr ? std::span<const std::byte>() : handle->bytes();
    auto& file = files_[std::string(reinterpret_cast<const char*>(key.data()), key.size())];
    if (auto* write = std::get_if<nfs4::WriteArgs>(&op.args)) {
      if (!write->to_memory()) return done(nfs4::failed(op.op, nfs4::Status::NFS4ERR_DELAY));
      std::size_t at = write->offset;
      if (file.size() < at + write->size()) file.resize(at + write->size());
      for (const Buffer& part : write->data) {
        std::copy(part.span().begin(), part.span().end(),
                  file.begin() + static_cast<std::ptrdiff_t>(at));
        at += part.size();
      }
      ++writes_at_[write->offset];
      return done({op.op, nfs4::Status::NFS4_OK,
                   nfs4::WriteOk{static_cast<std::uint32_t>(write->size()), write->stable, 7}, 0});
    }
    if (auto* read = std::get_if<nfs4::ReadArgs>(&op.args)) {
      nfs4::ReadOk ok;
      const std::size_t offset = std::min<std::size_t>(read->offset, file.size());
      const std::size_t size = std::min<std::size_t>(read->count, file.size() - offset);
      if (size > 0) {
        auto data = pool_.allocate(size);
        if (!data) return done(nfs4::failed(op.op, nfs4::Status::NFS4ERR_DELAY));
        std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), size, data->data());
        ok.data.append(std::move(*data));
      }
      ok.eof = offset + size == file.size();
      return done({op.op, nfs4::Status::NFS4_OK, std::move(ok), 0});
    }
    if (op.op == nfs4::Op::OP_COMMIT) {
      return done({op.op, nfs4::Status::NFS4_OK, nfs4::CommitOk{7}, 0});
    }
    done(nfs4::failed(op.op, nfs4::Status::NFS4ERR_NOTSUPP));
  }

  [[nodiscard]] int executed(nfs4::Op op) {
    const std::scoped_lock lock(mutex_);
    return executed_[op];
  }
  [[nodiscard]] std::map<std::uint64_t, int> writes_at() {
    const std::scoped_lock lock(mutex_);
    return writes_at_;
  }

 private:
  BufferPool& pool_;
  std::mutex mutex_;
  std::map<nfs4::Op, int> executed_;
  std::map<std::string, std::vector<std::byte>> files_;
  std::map<std::uint64_t, int> writes_at_;  // how often each offset was written
};

}  // namespace weft::rpc::test
