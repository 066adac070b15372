// Runs a store's asynchronous operations one by one on the calling thread, whatever the store.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataserver/ring/io_ring.h"
#include "dataserver/store/store.h"

namespace weft::test {

class StoreCalls {
 public:
  // Buffers come from `arena`, if there is one.
  explicit StoreCalls(std::shared_ptr<Arena> arena = nullptr)
      : pool_(std::size_t{256} << 20, std::move(arena)),
        ring_(std::move(ds::IoRing::create(context_).value())) {
    ring_->bind_to_this_thread();
  }
  virtual ~StoreCalls() = default;
  virtual ds::Store& any() = 0;

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
  // What was posted to this thread.
  void run_ready() {
    context_.restart();
    context_.poll();
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
      any().write(object, offset, std::move(data), stability, std::move(done));
    });
  }
  // The same, of bytes that are in a pipe: at most PipedBytes::kMaxPut.
  Result<ds::WriteResult> write_piped(const layout::ObjectId& object, std::uint64_t offset,
                                      std::string_view bytes,
                                      ds::Stability stability = ds::Stability::kUnstable) {
    auto piped = PipedBytes::open(pool_).value();
    piped.put(std::as_bytes(std::span(bytes))).value();
    return wait<ds::WriteResult>([&](auto done) {
      any().write(
          {.object = object, .offset = offset, .piped = std::move(piped), .wanted = stability},
          std::move(done));
    });
  }
  Result<ds::ReadResult> read(ds::StoreRead what) {
    return wait<ds::ReadResult>([&](auto done) { any().read(std::move(what), std::move(done)); });
  }
  Result<ds::ReadResult> read(const layout::ObjectId& object, std::uint64_t offset,
                              std::uint32_t count) {
    return wait<ds::ReadResult>(
        [&](auto done) { any().read(object, offset, count, std::move(done)); });
  }
  // The bytes read, or "error: ..." with the error's description.
  std::string text(const layout::ObjectId& object, std::uint64_t offset, std::uint32_t count) {
    auto result = read(object, offset, count);
    if (!result) return "error: " + result.error().describe();
    auto bytes = result->payload.flatten().value();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  Result<ds::WriteVerifier> commit(const layout::ObjectId& object) {
    return wait<ds::WriteVerifier>([&](auto done) { any().commit(object, std::move(done)); });
  }
  Result<ds::ObjectStat> truncate(const layout::ObjectId& object, std::uint64_t size) {
    return wait<ds::ObjectStat>([&](auto done) { any().truncate(object, size, std::move(done)); });
  }
  Result<ds::ObjectStat> stat(const layout::ObjectId& object) {
    return wait<ds::ObjectStat>([&](auto done) { any().stat(object, std::move(done)); });
  }
  Result<> remove(const layout::ObjectId& object) {
    return wait<void>([&](auto done) { any().remove(object, std::move(done)); });
  }
  Result<> punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size) {
    return wait<void>([&](auto done) { any().punch(object, offset, size, std::move(done)); });
  }
  Result<> allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size) {
    return wait<void>([&](auto done) { any().allocate(object, offset, size, std::move(done)); });
  }

  Result<ds::DataRun> next_data(const layout::ObjectId& object, std::uint64_t offset) {
    return wait<ds::DataRun>([&](auto done) { any().next_data(object, offset, std::move(done)); });
  }

  // All of it, in pages of this size.
  Result<std::vector<layout::ObjectId>> list(std::uint32_t page) {
    std::vector<layout::ObjectId> all;
    for (ds::ListPlace from;;) {
      auto part = wait<ds::ObjectList>([&](auto done) { any().list(from, page, std::move(done)); });
      if (!part) return pass(part);
      all.insert(all.end(), part->objects.begin(), part->objects.end());
      if (!part->more) return all;
      from = part->next;
    }
  }

  BufferPool& pool() { return pool_; }
  ds::IoRing& ring() { return *ring_; }

 protected:
  boost::asio::io_context context_;
  BufferPool pool_;
  std::unique_ptr<ds::IoRing> ring_;
};

}  // namespace weft::test
