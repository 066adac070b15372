// Runs a store's asynchronous operations one by one on the calling thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataserver/store/file_store.h"
#include "dataserver/store/io_ring.h"

namespace weft::test {

class StoreRunner {
 public:
  explicit StoreRunner(ds::FileStoreOptions options)
      : ring_(std::move(ds::IoRing::create(context_).value())) {
    ring_->bind_to_this_thread();
    store_ = std::move(ds::FileStore::open(std::move(options), pool_).value());
  }
  ~StoreRunner() {
    drain();
    store_.reset();
    drain();
  }

  // Starts an operation with `start(done)` and runs until it completes.
  template <class T, class Start>
  Result<T> wait(Start start) {
    std::optional<Result<T>> result;
    start([&result](Result<T> r) { result.emplace(std::move(r)); });
    while (!result) {
      context_.restart();
      context_.run_one();
    }
    return std::move(*result);
  }
  // Runs until nothing is in flight. Not until the context is out of work: the ring may go on
  // waiting for completions that it has seen already.
  void drain() {
    do {
      context_.restart();
      context_.run_for(std::chrono::milliseconds(5));
    } while (!ring_->idle() || (store_ != nullptr && !store_->workers_idle()));
  }

  Buffer buffer(std::string_view bytes) {
    auto made = pool_.allocate(bytes.size()).value();
    std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), made.data());
    return made;
  }
  Result<ds::WriteResult> write(const layout::ObjectId& object, std::uint64_t offset,
                                std::string_view bytes,
                                ds::Stability stability = ds::Stability::kUnstable) {
    std::vector<Buffer> data;
    if (!bytes.empty()) data.push_back(buffer(bytes));
    return wait<ds::WriteResult>([&](auto done) {
      store_->write(object, offset, std::move(data), stability, std::move(done));
    });
  }
  // The same, of bytes that are in a pipe: at most PipedBytes::kMaxPut.
  Result<ds::WriteResult> write_piped(const layout::ObjectId& object, std::uint64_t offset,
                                      std::string_view bytes,
                                      ds::Stability stability = ds::Stability::kUnstable) {
    auto piped = PipedBytes::open(pool_).value();
    piped.put(std::as_bytes(std::span(bytes))).value();
    return wait<ds::WriteResult>([&](auto done) {
      store_->write_piped(object, offset, std::move(piped), stability, std::move(done));
    });
  }
  Result<ds::ReadResult> read(const layout::ObjectId& object, std::uint64_t offset,
                              std::uint32_t count) {
    return wait<ds::ReadResult>(
        [&](auto done) { store_->read(object, offset, count, std::move(done)); });
  }
  // The bytes read, or "error: ..." with the error's description.
  std::string text(const layout::ObjectId& object, std::uint64_t offset, std::uint32_t count) {
    auto result = read(object, offset, count);
    if (!result) return "error: " + result.error().describe();
    auto bytes = result->payload.flatten().value();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  Result<ds::WriteVerifier> commit(const layout::ObjectId& object) {
    return wait<ds::WriteVerifier>([&](auto done) { store_->commit(object, std::move(done)); });
  }
  Result<ds::ObjectStat> truncate(const layout::ObjectId& object, std::uint64_t size) {
    return wait<ds::ObjectStat>(
        [&](auto done) { store_->truncate(object, size, std::move(done)); });
  }
  Result<ds::ObjectStat> stat(const layout::ObjectId& object) {
    return wait<ds::ObjectStat>([&](auto done) { store_->stat(object, std::move(done)); });
  }
  Result<> remove(const layout::ObjectId& object) {
    return wait<void>([&](auto done) { store_->remove(object, std::move(done)); });
  }
  Result<> punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size) {
    return wait<void>([&](auto done) { store_->punch(object, offset, size, std::move(done)); });
  }
  Result<> allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size) {
    return wait<void>([&](auto done) { store_->allocate(object, offset, size, std::move(done)); });
  }

  ds::FileStore& store() { return *store_; }
  BufferPool& pool() { return pool_; }

 private:
  boost::asio::io_context context_;
  BufferPool pool_{std::size_t{256} << 20};
  std::unique_ptr<ds::IoRing> ring_;
  std::unique_ptr<ds::FileStore> store_;
};

}  // namespace weft::test
