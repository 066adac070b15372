#include "tests/simulation/cluster/stored_objects.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "dataserver/parity/blocks.h"
#include "dataserver/parity/geometry.h"
#include "dataserver/store/object_files.h"
#include "dataserver/store/store_directory.h"
#include "tests/simulation/cluster/cluster.h"
#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/thread.h"

namespace weft::sim {

namespace {

std::optional<std::string> real_file(const std::string& path, std::size_t most) {
  const Real real;
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return std::nullopt;
  std::string bytes(most, '\0');
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
  std::fclose(file);
  return bytes;
}

std::string store_of(const Machine& machine) { return disk::path(machine.disk()) + "/store"; }

// The name of the data server's folder at its targets.
std::string space_of(const Machine& server) {
  const auto text = real_file(store_of(server) + "/identity", 4096);
  const auto identity = text ? ds::parse_identity(*text) : fail(Errc::kNotFound, "no identity");
  if (!identity) fail_run("a data server's store has no identity");
  return ds::to_string(identity->uuid);
}

std::optional<std::string> object_in(const std::string& store, const layout::ObjectId& object,
                                     std::size_t size) {
  auto bytes = real_file(store + "/objects/" + ds::object_path(object), size);
  if (bytes) bytes->resize(size);
  return bytes;
}

ds::ParityGeometry geometry_of(const Storage& storage) {
  return {.members = static_cast<unsigned>(storage.targets.size()), .chunk = kParityChunk};
}

// Every member's data object, with zeros for what is not there; empty if no member has it.
std::vector<std::string> members_bytes(const Storage& storage, const layout::ObjectId& object,
                                       std::size_t size) {
  const ds::ParityGeometry geometry = geometry_of(storage);
  const std::string space = space_of(*storage.server);
  const std::size_t each = geometry.stripes(size) * geometry.chunk;
  std::vector<std::string> members;
  bool any = false;
  for (const Machine* target : storage.targets) {
    auto bytes = object_in(store_of(*target) + "/" + space, object, each);
    any = any || bytes.has_value();
    members.push_back(bytes ? std::move(*bytes) : std::string(each, '\0'));
  }
  if (!any) members.clear();
  return members;
}

}  // namespace

std::optional<std::string> stored_object(const Storage& storage, const layout::ObjectId& object,
                                         std::size_t size) {
  if (storage.targets.empty()) return object_in(store_of(*storage.server), object, size);
  if (storage.targets.size() == 1) {
    return object_in(store_of(*storage.targets.front()) + "/" + space_of(*storage.server), object,
                     size);
  }
  const std::vector<std::string> members = members_bytes(storage, object, size);
  if (members.empty()) return std::nullopt;
  const ds::ParityGeometry geometry = geometry_of(storage);
  std::string bytes;
  for (std::uint64_t stripe = 0; bytes.size() < size; ++stripe) {
    for (unsigned k = 0; k + 1 < geometry.members; ++k) {
      bytes +=
          members[geometry.data_member(stripe, k)].substr(stripe * geometry.chunk, geometry.chunk);
    }
  }
  bytes.resize(size);
  return bytes;
}

bool lose_object(const Storage& storage, const layout::ObjectId& object) {
  const std::string folder = store_of(*storage.server) + "/objects/";
  static_cast<void>(::unlink((folder + ds::object_path(ds::sums_of(object))).c_str()));
  return ::unlink((folder + ds::object_path(object)).c_str()) == 0;
}

std::vector<layout::ObjectId> objects_in_folder(const Storage& storage) {
  std::vector<layout::ObjectId> objects;
  if (!storage.targets.empty()) return objects;
  const Real real;
  std::error_code ignored;
  const auto options = std::filesystem::directory_options::skip_permission_denied;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           store_of(*storage.server) + "/objects", options, ignored)) {
    const auto object = layout::parse_object_id(entry.path().filename().string());
    if (object && !ds::is_sums(*object)) objects.push_back(*object);
  }
  return objects;
}

bool parity_fits(const Storage& storage, const layout::ObjectId& object, std::size_t size) {
  if (storage.targets.size() < ds::kMinMembers) return true;
  const std::vector<std::string> members = members_bytes(storage, object, size);
  if (members.empty()) return true;
  for (std::size_t i = 0; i < members.front().size(); ++i) {
    char sum = 0;
    for (const std::string& member : members) sum = static_cast<char>(sum ^ member[i]);
    if (sum != 0) return false;
  }
  return true;
}

}  // namespace weft::sim
