#include "dataserver/sums/folder_sums.h"

#include <future>
#include <memory>

namespace weft::ds {

Result<> begin_checksums(SummedStore* summed, Store& objects, StoreDirectory& directory,
                         IoRing& ring) {
  if (summed == nullptr && !directory.identity().checksums) return {};
  auto begun = std::make_shared<std::promise<Result<>>>();
  auto over = begun->get_future();
  ring.post([summed, &objects, begun] {
    const auto done = [begun](Result<> result) { begun->set_value(std::move(result)); };
    if (summed != nullptr) return summed->open(done);
    SummedStore::remove_all(objects, done);
  });
  if (auto result = over.get(); !result) {
    return fail(result.error().code,
                "the checksums cannot be listed, nor removed: " + result.error().describe());
  }
  if (summed == nullptr) return directory.mark_checksums(false);
  if (!directory.identity().checksums && summed->kept_objects() != 0) {
    return fail(Errc::kInvalid,
                "the store is of a parity group, which has checksums of its own: store.checksums "
                "must be false");
  }
  if (auto marked = directory.mark_checksums(true); !marked) return marked;
  summed->start(ring);
  return {};
}

}  // namespace weft::ds
