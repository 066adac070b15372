// The XDR decoder: the first half of the input says which reads to do, the second is read. It never
// reads outside its input, and once failed it yields zeros.
#include <cstdlib>

#include "rpc/xdr/xdr.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto reads = std::span(data, size / 2);
  const auto bytes = std::as_bytes(std::span(data + size / 2, size - size / 2));
  weft::xdr::Decoder in(bytes);
  for (const std::uint8_t read : reads) {
    const bool was_ok = in.ok();
    bool zero = true;
    switch (read % 8) {
      case 0: zero = in.u32() == 0; break;
      case 1: zero = in.u64() == 0; break;
      case 2: zero = !in.boolean(); break;
      case 3: zero = in.string(read).empty(); break;
      case 4: {
        const auto view = in.opaque(SIZE_MAX);
        zero = view.empty();
        for (const std::byte b : view)
          static_cast<void>(*const_cast<const volatile std::byte*>(&b));
        break;
      }
      case 5: zero = in.count(read) == 0; break;
      case 6: static_cast<void>(in.bitmap()); break;
      default: in.skip(read);
    }
    if (!was_ok && (in.ok() || !zero)) std::abort();
    if (in.position() > bytes.size()) std::abort();
  }
  return 0;
}
