#include "rpc/onc/message.h"

#include "rpc/base/assert.h"

namespace weft::rpc {

void Message::splice(Payload payload) {
  if (payload.size() == 0) return;
  std::erase_if(payload.pieces(), [](const auto& piece) { return size_of(piece) == 0; });
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

Message Message::share() const {
  xdr::Encoder bytes(bytes_.size());
  bytes.raw(bytes_.bytes());
  Message out(std::move(bytes));
  out.expected_bulk_ = expected_bulk_;
  out.urgent_ = urgent_;
  for (const Splice& splice : splices_) {
    Payload payload = splice.payload.share();
    out.spliced_ += payload.size();
    out.splices_.push_back({splice.at, std::move(payload)});
  }
  return out;
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
