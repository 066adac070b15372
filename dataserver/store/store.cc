#include "dataserver/store/store.h"

#include <algorithm>

#include "rpc/base/payload_copy.h"

namespace weft::ds {

std::uint64_t StoreWrite::size() const {
  std::uint64_t size = piped.size();
  for (const Buffer& piece : data) size += piece.size();
  return size;
}

Result<> StoreWrite::to_memory() {
  if (piped.empty()) return {};
  auto buffer = piped.to_buffer();
  if (!buffer) return pass(buffer);
  data.push_back(std::move(*buffer));
  return {};
}

Store::Done<ReadResult> into_room(Buffer room, Store::Done<ReadResult> done) {
  if (room.empty()) return done;
  return [room = std::move(room), done = std::move(done)](Result<ReadResult> result) mutable {
    if (!result) return done(std::move(result));
    room.truncate(std::min(result->payload.size(), room.size()));
    if (auto copied = copy_payload(result->payload, room.span()); !copied) {
      return done(pass(copied));
    }
    result->payload = {};
    if (!room.empty()) result->payload.append(std::move(room));
    done(std::move(result));
  };
}

}  // namespace weft::ds
