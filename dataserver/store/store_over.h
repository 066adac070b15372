// StoreOver: a store over another one, which does all that a link of the chain does not do itself.
//
// A link overrides what it is there for. One that keeps something of what is beneath, as a cache
// does, has to override every operation that changes an object.
//
// Threading, errors: as the store beneath. Ownership: the store beneath outlives it.
#pragma once

#include "dataserver/store/store.h"

namespace weft::ds {

class StoreOver : public Store {
 public:
  using Store::read;
  using Store::write;
  void read(StoreRead what, Done<ReadResult> done) override {
    beneath_.read(std::move(what), std::move(done));
  }
  void write(StoreWrite what, Done<WriteResult> done) override {
    beneath_.write(std::move(what), std::move(done));
  }
  void commit(const layout::ObjectId& object, Done<WriteVerifier> done) override {
    beneath_.commit(object, std::move(done));
  }
  void truncate(const layout::ObjectId& object, std::uint64_t size,
                Done<ObjectStat> done) override {
    beneath_.truncate(object, size, std::move(done));
  }
  void remove(const layout::ObjectId& object, Done<void> done) override {
    beneath_.remove(object, std::move(done));
  }
  void stat(const layout::ObjectId& object, Done<ObjectStat> done) override {
    beneath_.stat(object, std::move(done));
  }
  void next_data(const layout::ObjectId& object, std::uint64_t offset,
                 Done<DataRun> done) override {
    beneath_.next_data(object, offset, std::move(done));
  }
  void allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                Done<void> done) override {
    beneath_.allocate(object, offset, size, std::move(done));
  }
  void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
             Done<void> done) override {
    beneath_.punch(object, offset, size, std::move(done));
  }
  void list(ListPlace from, std::uint32_t max, Done<ObjectList> done) override {
    beneath_.list(from, max, std::move(done));
  }
  [[nodiscard]] WriteVerifier verifier() const override { return beneath_.verifier(); }
  [[nodiscard]] bool settled() const override { return beneath_.settled(); }
  [[nodiscard]] Result<StoreStat> usage() const override { return beneath_.usage(); }

 protected:
  explicit StoreOver(Store& beneath) : beneath_(beneath) {}

  Store& beneath_;
};

}  // namespace weft::ds
