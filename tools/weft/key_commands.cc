// keygen and key: the file with the cluster key. They need no running server, but for key status,
// which asks the metadata server.
//
// Changing the key takes three steps, each done at all servers before the next begins: add, use,
// drop. So whatever a server makes with the key it uses is accepted by those that are a step
// behind.
#include <algorithm>
#include <chrono>

#include "ganesha-fsal/admin/client.h"
#include "rpc/peer/keys.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/commands.h"
#include "tools/weft/key_status.h"
#include "tools/weft/output.h"

namespace weft::cli {
namespace {

using rpc::peer::ClusterKey;
using rpc::peer::ClusterKeys;
using rpc::peer::fingerprint_text;

// The key that a person means. kNotFound.
Result<ClusterKeys::const_iterator> find_key(const std::string& path, const ClusterKeys& keys,
                                             const std::string& wanted) {
  const auto found = std::ranges::find(keys, wanted, fingerprint_text);
  if (found != keys.end()) return found;
  return fail(Errc::kNotFound, path + " has no key " + wanted + " (weft key show " + path + ")");
}

// What a key file has.
Json rows_of(const ClusterKeys& keys) {
  Json rows = Json::array();
  for (const ClusterKey& key : keys) {
    rows.push_back({{"key", fingerprint_text(key)}, {"used", key == keys.front()}});
  }
  return rows;
}

// Data servers that hang are waited for.
constexpr std::chrono::seconds kStatusTimeout{30};

// What a command did to a key file, and what the file has now.
struct Done {
  const char* action;
  std::string key;      // that it is about
  bool changed = true;  // false: it was so already
};

int tell(const Settings& settings, const std::string& path, const ClusterKeys& keys,
         const Done& done, const std::string& said) {
  if (!settings.json) {
    print(said);
    return kExitGood;
  }
  print(Json{{"action", done.action},
             {"file", path},
             {"key", done.key},
             {"changed", done.changed},
             {"keys", rows_of(keys)}});
  return kExitGood;
}

int save(const Settings& settings, const std::string& path, const ClusterKeys& keys,
         const Done& done, const std::string& said) {
  if (auto replaced = rpc::peer::replace_cluster_keys(path, keys); !replaced) {
    return complain(replaced.error().describe());
  }
  return tell(settings, path, keys, done, said);
}

}  // namespace

int keygen_command(const Settings& settings, const std::string& path) {
  auto key = rpc::peer::create_cluster_key(path);
  if (!key && key.error() == Errc::kExists) {
    return complain(path +
                    " exists. A new key makes every data server and every handle out there "
                    "invalid: remove the file first if that is meant. weft key add " +
                    path + " begins to change the key of a system that goes on.");
  }
  if (!key) return complain(key.error().describe());
  return tell(settings, path, {*key}, {"keygen", fingerprint_text(*key)},
              "made " + path + " (mode 0600); copy it to every data server, safely\n");
}

int key_show_command(const Settings& settings, const std::string& path) {
  const auto keys = rpc::peer::load_cluster_keys(path);
  if (!keys) return complain(keys.error().describe());
  if (settings.json) {
    print(rows_of(*keys));
    return kExitGood;
  }
  std::string text;
  for (const ClusterKey& key : *keys) {
    text += fingerprint_text(key) + (key == keys->front() ? "  used\n" : "  accepted\n");
  }
  print(text);
  return kExitGood;
}

int key_status_command(const Settings& settings) {
  const auto report =
      mds::admin::Client(settings.socket, kStatusTimeout).ask(mds::admin::GetKeys{});
  if (!report) return complain_of_admin(settings.socket, report.error());
  settings.json ? print(keys_json(*report)) : print(keys_text(*report));
  return kExitGood;
}

int key_add_command(const Settings& settings, const std::string& path) {
  auto keys = rpc::peer::load_cluster_keys(path);
  if (!keys) return complain(keys.error().describe());
  if (keys->size() == rpc::peer::kMostClusterKeys) {
    return complain(path + " has two keys already: end the change that was begun (weft key show " +
                    path + ", then weft key use and weft key drop)");
  }
  keys->push_back(rpc::peer::random_cluster_key());
  const std::string name = fingerprint_text(keys->back());
  return save(settings, path, *keys, {"add", name},
              "added key " + name + "; it is accepted from now on, and not used yet\n" +
                  "next: copy the file to every other server, wait until weft key status says\n" +
                  "that it may be used, then at each server: weft key use " + path + " " + name +
                  "\n");
}

int key_use_command(const Settings& settings, const std::string& path, const std::string& wanted) {
  const auto keys = rpc::peer::load_cluster_keys(path);
  if (!keys) return complain(keys.error().describe());
  const auto found = find_key(path, *keys, wanted);
  if (!found) return complain(found.error().text);
  if (*found == keys->begin()) {
    return tell(settings, path, *keys, {"use", wanted, false},
                "key " + wanted + " is used already\n");
  }
  const std::string old = fingerprint_text(keys->front());
  return save(settings, path, {**found, keys->front()}, {"use", wanted},
              "key " + wanted + " is used from now on, " + old + " is still accepted\n" +
                  "next: after an hour, and once weft key status says that " + old +
                  " may be dropped, at each server: weft key drop " + path + " " + old + "\n");
}

int key_drop_command(const Settings& settings, const std::string& path, const std::string& wanted) {
  const auto keys = rpc::peer::load_cluster_keys(path);
  if (!keys) return complain(keys.error().describe());
  const auto found = find_key(path, *keys, wanted);
  if (!found && keys->size() == 1) {
    return tell(settings, path, *keys, {"drop", wanted, false},
                found.error().text + ": it is dropped already\n");
  }
  if (!found) return complain(found.error().text);
  if (*found == keys->begin()) {
    return complain("key " + wanted + " is the one that is used: add another, and use that first");
  }
  return save(settings, path, {keys->front()}, {"drop", wanted},
              "dropped key " + wanted + ": what was made with it is refused from now on\n" +
                  "next: the same at every other server; destroy copies of that key, and never " +
                  "bring it back\n");
}

}  // namespace weft::cli
