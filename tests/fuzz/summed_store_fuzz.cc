// Any bytes as the checksums beside an object: what is read is as it is or refused, what is written
// over all of it is read again, and so it is once it is sealed.
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <string>

#include "dataserver/parity/blocks.h"
#include "dataserver/sums/summed_store.h"
#include "tests/dataserver/store/held_store.h"

using namespace weft;
using namespace weft::ds;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static boost::asio::io_context context;
  static const auto ring = IoRing::create(context).value();
  static BufferPool pool{std::size_t{16} << 20};
  ring->bind_to_this_thread();
  constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
  test::HeldStore beneath;
  const std::string text(1 + data[0] * std::size_t{97}, 'w');
  beneath.files[kObject] = {.now = text, .durable = text};
  const std::string sums(reinterpret_cast<const char*>(data + 1), size - 1);
  beneath.files[sums_of(kObject)] = {.now = sums, .durable = sums};
  SummedStore store(beneath, pool, {.idle = std::chrono::seconds(1)});
  const auto read = [&] {
    std::string got = "none";
    store.read(kObject, 0, 1 << 16, [&](const Result<ReadResult>& result) {
      if (!result) return;
      const auto bytes = result->payload.flatten().value();
      got.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    return got;
  };
  if (const std::string got = read(); got != text && got != "none") std::abort();
  std::vector<Buffer> all;
  all.push_back(pool.allocate(text.size()).value());
  std::ranges::fill(all.back().span(), std::byte{'w'});
  bool written = false;
  store.write(kObject, 0, std::move(all), Stability::kFileSync,
              [&](const Result<WriteResult>& result) { written = result.has_value(); });
  if (!written || read() != text) std::abort();
  for (int i = 0; i < 3; ++i) store.poll();
  if (read() != text) std::abort();
  return 0;
}
