#include "dataserver/store/store.h"

#include <algorithm>

namespace weft::ds {

void Store::read_into(const layout::ObjectId& object, std::uint64_t offset, std::uint32_t count,
                      Buffer room, Done<ReadResult> done) {
  const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(count, room.size()));
  read(object, offset, most,
       [room = std::move(room), done = std::move(done)](Result<ReadResult> result) mutable {
         if (!result) return done(std::move(result));
         auto bytes = result->payload.flatten();
         if (!bytes) return done(pass(bytes));
         std::ranges::copy(*bytes, room.data());
         room.truncate(bytes->size());
         result->payload = {};
         if (!room.empty()) result->payload.append(std::move(room));
         done(std::move(result));
       });
}

}  // namespace weft::ds
