// Runs a FileStore's asynchronous operations one by one on the calling thread.
#pragma once

#include <chrono>

#include "dataserver/store/file_store.h"
#include "tests/dataserver/store/store_calls.h"

namespace weft::test {

class StoreRunner : public StoreCalls {
 public:
  explicit StoreRunner(ds::FileStoreOptions options) {
    store_ = std::move(ds::FileStore::open(std::move(options), pool_).value());
  }
  ~StoreRunner() override {
    drain();
    store_.reset();
    drain();
  }
  ds::Store& any() override { return *store_; }

  // Runs until nothing is in flight. Not until the context is out of work: the ring may go on
  // waiting for completions that it has seen already.
  void drain() {
    do {
      context_.restart();
      context_.run_for(std::chrono::milliseconds(5));
    } while (!ring_->idle() || (store_ != nullptr && !store_->workers_idle()));
  }

  ds::FileStore& store() { return *store_; }

 private:
  std::unique_ptr<ds::FileStore> store_;
};

}  // namespace weft::test
