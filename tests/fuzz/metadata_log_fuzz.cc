// Any bytes as logs of the metadata store, cut into records whose checksums are right, or not, so
// that what is behind them is reached: no crash, what is whole is within the log, and what is
// damaged is broken.
#include <boost/crc.hpp>
#include <vector>

#include "ganesha-fsal/meta/kv/log_check.h"
#include "tests/fuzz/script.h"

using namespace weft;
using namespace weft::mds;
using weft::test::must;
using weft::test::Script;

namespace {

void put(std::vector<std::byte>& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void record(Script& script, std::vector<std::byte>& log) {
  const std::uint8_t kind = script.byte();
  std::vector<std::byte> body{static_cast<std::byte>(kind % 6)};
  put(body, script.byte(), 8);
  put(body, script.byte() % 3, 4);
  put(body, 3, 1);
  put(body, 16, 1);
  put(body, script.byte(), 8);
  put(body, script.byte() % 2, 8);
  body.resize(1 + script.byte() % 40);
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(body.data(), body.size());
  const auto plain = static_cast<std::uint32_t>(crc.checksum());
  put(log, ((plain >> 15) | (plain << 17)) + 0xA282EAD8U + (kind > 240 ? 1 : 0), 4);
  put(log, body.size() - 1, 2);
  log.insert(log.end(), body.begin(), body.end());
  if (kind % 16 == 6) log.resize(log.size() + std::size_t{script.byte()} * 64);
  if (kind % 16 == 7) put(log, script.word(), 4);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script{data, size};
  LogReader reader;
  while (script.left > 0) {
    std::vector<std::byte> log;
    for (int records = script.byte() % 64; records > 0 && script.left > 0; --records) {
      record(script, log);
    }
    const std::span<const std::byte> all(log);
    for (std::size_t at = 0; at < all.size(); at += LogReader::kBlock) {
      reader.read(all.subspan(at, std::min(LogReader::kBlock, all.size() - at)));
    }
    const bool before = reader.broken();
    const std::uint64_t whole = reader.end();
    must(whole <= log.size());
    must(!before || reader.broken());
    must(!reader.damaged() || reader.broken());
  }
  return 0;
}
