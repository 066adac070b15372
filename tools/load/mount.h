// A mounted export, as the generator sees one: names through the metadata server, data through the
// data servers of each file's layout, or through the metadata server without pNFS.
//
// This is the client side of RFC 8881 chapter 12 with the files layout (chapter 13): LAYOUTGET for
// the whole file at open, GETDEVICEINFO once per device, a session with each data server, reads and
// writes cut at stripe boundaries, LAYOUTCOMMIT and LAYOUTRETURN at close. Of the flexible files
// layout (RFC 8435): writes go to every mirror (client_copies.h), reads to the one with the
// greatest efficiency; errors are not reported by LAYOUTERROR, they end the run. So does any error
// of the files layout but a handle that is refused: that is tried again by another layout
// (workload.h).
//
// Threading: everything but Mount::read, write and commit blocks the main thread; those three are
// called, and complete, on the engine's I/O thread.
//
// Ownership: a Mount owns its sessions; Files refer to them and go before it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "layout/files_layout.h"
#include "layout/flex_layout.h"
#include "tools/load/client_copies.h"
#include "tools/load/engine.h"

namespace weft::load {

struct MountSettings {
  std::string address = "127.0.0.1";
  std::uint16_t port = 2049;
  std::string path = "/";  // of the export
  bool pnfs = true;
  bool flexfiles = false;                                // the layout type that is asked for
  AnswerWhen answer = AnswerWhen::kAll;                  // flexfiles: when a write is done
  std::uint64_t window_bytes = std::uint64_t{64} << 20;  // flexfiles, kFirst
  SessionSettings session;
};

struct File {
  std::string name;
  rpc::nfs4::FileHandle handle;
  rpc::nfs4::Stateid open;
  std::uint64_t size = 0;  // bytes, when it was opened

  // Filled when a layout is held: one session and handle for each data server of the device.
  struct Part {
    rpc::SessionClient* session = nullptr;
    rpc::nfs4::FileHandle handle;
  };
  std::optional<layout::Striping> striping;
  std::vector<Part> parts;
  std::shared_ptr<ClientCopies> copies;  // flexfiles: writes go there; parts are the mirrors
  rpc::nfs4::Stateid layout;
  bool writing = true;            // what the layout is for
  std::uint64_t written_end = 0;  // one past the last byte written since the last LAYOUTCOMMIT
};

class Mount {
 public:
  using ReadDone = std::move_only_function<void(Result<Payload>)>;
  using WriteDone = std::move_only_function<void(Result<>)>;

  [[nodiscard]] static Result<std::unique_ptr<Mount>> connect(Engine& engine,
                                                              const MountSettings& settings);
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  // Opens for reading and writing; creates when asked. With pNFS a layout is required: an export
  // that grants none is an error, never a silent fall-back. `writing`: what the layout is for.
  [[nodiscard]] Result<File> open(const std::string& name, bool create, bool writing = true);
  [[nodiscard]] Result<> close(File& file);
  // Gives the file's layout back and gets another one, as clients do when a data server refuses a
  // handle. Precondition: nothing of the file is under way.
  [[nodiscard]] Result<> renew_layout(File& file);
  [[nodiscard]] Result<> remove(const std::string& name);

  // Precondition: [offset, offset + size) lies within one stripe unit. A short read is an error.
  void read(File& file, std::uint64_t offset, std::uint32_t size, ReadDone done);
  void write(File& file, std::uint64_t offset, Buffer data, rpc::nfs4::StableHow stable,
             WriteDone done);
  // On every data server of the file.
  [[nodiscard]] Result<> commit(File& file);

  [[nodiscard]] rpc::SessionClient& metadata_server() { return *mds_; }
  [[nodiscard]] const rpc::nfs4::FileHandle& root() const { return root_; }

 private:
  Mount(Engine& engine, MountSettings settings) : engine_(engine), settings_(settings) {}
  struct Device {
    std::vector<std::uint32_t> stripe_indices;
    std::vector<rpc::SessionClient*> servers;
  };

  [[nodiscard]] Result<> find_root();
  [[nodiscard]] Result<> get_layout(File& file, bool writing);
  [[nodiscard]] Result<> take_files_layout(File& file, std::span<const std::byte> body);
  [[nodiscard]] Result<> take_flex_layout(File& file, std::span<const std::byte> body);
  [[nodiscard]] Result<rpc::nfs4::GetDeviceInfoOk> device_info(const rpc::nfs4::DeviceId& id);
  [[nodiscard]] Result<rpc::SessionClient*> flex_server(const rpc::nfs4::DeviceId& id);
  [[nodiscard]] Result<> drain(File& file);
  [[nodiscard]] rpc::nfs4::LayoutType layout_type() const;
  static void write_part(const File::Part& part, rpc::nfs4::WriteArgs args, WriteDone done);
  [[nodiscard]] Result<const Device*> device(const rpc::nfs4::DeviceId& id);
  [[nodiscard]] Result<rpc::SessionClient*> data_server(
      std::span<const layout::DeviceAddress> addresses);
  [[nodiscard]] Result<> layout_commit(File& file);
  [[nodiscard]] rpc::nfs4::OpArgs layout_return(const File& file) const;
  // Where the byte at `offset` is read and written.
  [[nodiscard]] File::Part part_for(const File& file, std::uint64_t offset);

  Engine& engine_;
  MountSettings settings_;
  std::unique_ptr<rpc::SessionClient> mds_;
  rpc::nfs4::FileHandle root_;
  std::map<layout::NetAddress, std::unique_ptr<rpc::SessionClient>> data_servers_;
  std::map<rpc::nfs4::DeviceId, Device> devices_;
  std::map<rpc::nfs4::DeviceId, rpc::SessionClient*> flex_devices_;
};

}  // namespace weft::load
