#include "rpc/onc/message.h"

#include "rpc/base/assert.h"

namespace weft::rpc {

void Message::splice(Payload payload) {
  if (payload.size() == 0) return;
  spliced_ += payload.size();
  splices_.push_back({bytes_.size(), std::move(payload)});
}

void Message::rewind(Mark mark) {
  WEFT_ASSERT(mark.splices <= splices_.size());
  while (splices_.size() > mark.splices) {
    spliced_ -= splices_.back().payload.size();
    splices_.pop_back();
  }
  bytes_.rewind(mark.bytes);
}

Result<std::vector<std::byte>> Message::flatten() const {
  std::vector<std::byte> out;
  out.reserve(size());
  const auto bytes = bytes_.bytes();
  std::size_t at = 0;
  const auto copy_to = [&](std::size_t end) {
    const auto part = bytes.subspan(at, end - at);
    out.insert(out.end(), part.begin(), part.end());
    at = end;
  };
  for (const Splice& splice : splices_) {
    copy_to(splice.at);
    auto data = splice.payload.flatten();
    if (!data) return pass(data);
    out.insert(out.end(), data->begin(), data->end());
  }
  copy_to(bytes.size());
  return out;
}

}  // namespace weft::rpc
