// How often the store is read for what clients do most: each read may be one of the disk.
#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {
namespace {

struct Reads {
  std::map<char, int> of;  // by the kind of key
  [[nodiscard]] int all() const {
    int sum = 0;
    for (const auto& [kind, count] : of) sum += count;
    return sum;
  }
  void add(std::string_view key) { ++of[key.empty() ? '?' : key[0]]; }
};

class CountedReader final : public KvReader {
 public:
  CountedReader(const KvReader& of, Reads& reads) : of_(of), reads_(reads) {}
  Result<std::optional<std::string>> peek(std::string_view key) const override {
    reads_.add(key);
    return of_.peek(key);
  }
  Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                const ScanVisitor& visit) const override {
    reads_.add(begin);
    return of_.scan(begin, end, limit, visit);
  }

 private:
  const KvReader& of_;
  Reads& reads_;
};

class CountedTransaction final : public Transaction {
 public:
  CountedTransaction(std::unique_ptr<Transaction> of, Reads& reads)
      : of_(std::move(of)), reads_(reads) {}
  Result<std::optional<std::string>> peek(std::string_view key) const override {
    reads_.add(key);
    return of_->peek(key);
  }
  Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                const ScanVisitor& visit) const override {
    reads_.add(begin);
    return of_->scan(begin, end, limit, visit);
  }
  Result<std::optional<std::string>> get(std::string_view key) override {
    reads_.add(key);
    return of_->get(key);
  }
  void put(std::string_view key, std::string_view value) override { of_->put(key, value); }
  void erase(std::string_view key) override { of_->erase(key); }
  Result<CommitSeq> commit() override { return of_->commit(); }

 private:
  const std::unique_ptr<Transaction> of_;
  Reads& reads_;
};

class CountedStore final : public KvStore {
 public:
  std::unique_ptr<Transaction> begin() override {
    return std::make_unique<CountedTransaction>(store_.begin(), reads);
  }
  const KvReader& latest() const override { return latest_; }
  std::unique_ptr<KvReader> snapshot() const override { return store_.snapshot(); }
  Result<> wait_durable(CommitSeq seq) override { return store_.wait_durable(seq); }

  mutable Reads reads;

 private:
  MemoryKv store_;
  CountedReader latest_{store_.latest(), reads};
};

class ReadsTest : public NamespaceCalls<std::unique_ptr<Namespace>> {
 public:
  ReadsTest() {
    auto opened = Namespace::open(counted, {.now_ns = [] { return 1'000; }, .fsid = 7});
    REQUIRE(opened);
    names = std::move(*opened);
    file(kRootFileId, "first");  // file ids are reserved, many at a time
  }
  template <class What>
  int reads_of(What what) {
    counted.reads = {};
    what();
    for (const auto& [kind, count] : counted.reads.of) {
      UNSCOPED_INFO("kind '" << kind << "': " << count);
    }
    return counted.reads.all();
  }

  CountedStore counted;
};

TEST_CASE_METHOD(ReadsTest, "what clients do most reads the store no more often than it must") {
  const FileId top = dir(kRootFileId, "top");
  FileId made = 0;
  // The directory, and the name that is to be free.
  CHECK(reads_of([&] { made = file(top, "a"); }) == 2);
  // The name, and what it names.
  CHECK(reads_of([&] { REQUIRE(names->lookup(top, "a")); }) == 2);
  CHECK(reads_of([&] { REQUIRE(names->getattr(made)); }) == 1);
  // The directory, the name, what it names, and that this has no layout map.
  CHECK(reads_of([&] { REQUIRE(names->remove(kSuperuser, top, "a", RemoveWhat::kFile, made)); }) ==
        4);
  // With one, who may write it, whether it moves, is growing, or was removed before.
  made = file(top, "b");
  layout_of(made);
  CHECK(reads_of([&] { REQUIRE(names->remove(kSuperuser, top, "b", RemoveWhat::kFile, made)); }) ==
        8);
}

}  // namespace
}  // namespace weft::mds
