// The manifest of a backup: as it is in its file, and, past the checksum, any document.
#include "ganesha-fsal/backup/backup_files.h"
#include "rpc/base/assert.h"

using namespace weft;
using namespace weft::backup;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(parse_manifest(text));
  const auto document = parse_json(text, 4);
  if (!document) return 0;
  const auto manifest = from_json<Manifest>(*document, "manifest");
  if (!manifest) return 0;
  const std::string written = write_manifest(*manifest);
  const auto again = parse_manifest(written);
  if (!again) return 0;
  WEFT_ASSERT(write_manifest(*again) == written);
  for (const File& file : again->files) {
    WEFT_ASSERT(file.name == kConfiguration || file.name.starts_with("store/"));
    WEFT_ASSERT(file.name.find("..") != 0 && file.name.find("/../") == file.name.npos);
  }
  return 0;
}
