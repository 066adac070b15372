// A pNFS FSAL for tests of Ganesha itself: FSAL_MEM with layouts on top, which writes down what
// arrives and does on command what our own FSAL only does under load.
//
// It makes MEM's exports (an EXPORT with FSAL MEM must come first in the configuration, so that
// MEM is loaded) and replaces methods of those exports and of MEM's objects. Layouts are of the
// files type, whole-file, with an opaque body. Recalls go through the first export, invalidations
// through the last.
//
// LAYOUT_FSAL_LOG names a file that gets one JSON object a line for each call.
// LAYOUT_FSAL_EXPORT_MS says how long it takes to make an export.
// LAYOUT_FSAL_SOCKET names a Unix stream socket that takes one command a connection:
//   recall OFFSET LENGTH IOMODE COOKIE   recall from the file last granted (COOKIE 0: none)
//   recall_any CLIENT KEEP MASK          ask the client to return some of what it has
//   set NAME VALUE                       see struct settings
//   grace                                begin a grace period, for the clients there are
//   grace_left                           log how long it lasts yet, as "grace_left"
//   allocated                            log the bytes malloc has given out, as "allocated"
// The answer is "ok\n" or "error\n"; what became of a recall is logged as "recall", and
// of a request to return some as "recall_any".
//
// Threads: calls come from any worker, commands from one thread of ours; settings are atomics, the
// last file is under a mutex.

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "FSAL/fsal_commonlib.h"
#include "FSAL/fsal_init.h"
#include "config.h"
#include "fridgethr.h"
#include "fsal.h"
#include "fsal_up.h"
#include "pnfs_utils.h"
#include "sal_functions.h"

extern struct fridgethr* general_fridge;  // the server's
bool nfs4_recall_any(clientid4 client, uint32_t keep, uint32_t type_mask,
                     void (*done)(void* argument, nfsstat4 status), void* argument)
    __attribute__((weak));  // of patch 0042

static struct settings {
  _Atomic uint32_t layoutget_status;     // answer this instead of granting
  _Atomic uint32_t layoutcommit_status;  // of LAYOUTCOMMIT
  _Atomic uint32_t layoutget_delay_ms;   // grant after this long
  _Atomic uint32_t body_size;            // bytes of a granted layout's body
  _Atomic uint32_t return_on_close;
  _Atomic uint32_t preserve_unlinked;
  _Atomic uint32_t mds_threshold;         // 0: there is none
  _Atomic uint32_t getattrs_invalidates;  // an object's attributes change while they are asked for
  _Atomic uint32_t getattrs_delay_ms;     // they are told after this long, each "getattrs"
  _Atomic uint32_t replies_wait;     // what makes names is waited for by replies, each "reply_wait"
  _Atomic uint32_t replies_held;     // while it is set
  _Atomic uint32_t replies_later;    // without a worker, each "reply_later"
  _Atomic uint32_t replies_lost;     // and in vain
  _Atomic uint32_t records_lookups;  // each as "lookup"
  _Atomic uint32_t commits_held;     // while it is set, each "commit" waits
  _Atomic uint32_t names_held;       // and who made a file or a directory, each "made"
  _Atomic uint32_t xattr_size;       // bytes of the value of each extended attribute
  _Atomic uint32_t xattr_grows;      // by a byte whenever it is asked for
  _Atomic uint32_t xattr_missing;    // there is none
} settings = {.body_size = 32};

enum { kDeviceAddressBytes = 64, kKeyBytes = 128 };

static struct fsal_module module;
static const struct fsal_up_vector* up_vector;       // the first export's
static const struct fsal_up_vector* last_up_vector;  // the last one's
static _Atomic uint64_t next_segment = 1;

static pthread_mutex_t last_mutex = PTHREAD_MUTEX_INITIALIZER;
static char last_key[kKeyBytes];
static size_t last_key_length;

static void record(const char* format, ...) __attribute__((format(printf, 1, 2)));

static void record(const char* format, ...) {
  static int fd = -1;
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  char line[4096];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof(line) - 1, format, arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= sizeof(line) - 1) return;
  line[length++] = '\n';
  pthread_mutex_lock(&mutex);
  const char* path = getenv("LAYOUT_FSAL_LOG");
  if (fd < 0 && path != NULL) fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd >= 0 && write(fd, line, (size_t)length) != length) close(fd), fd = -1;
  pthread_mutex_unlock(&mutex);
}

static unsigned long long caller(void) {
  return op_ctx != NULL && op_ctx->clientid != NULL ? *op_ctx->clientid : 0;
}

__attribute__((unused)) static const char* hex(const void* bytes, size_t size, char* out,
                                               size_t out_size) {
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < size && used + 3 < out_size; ++i)
    used += (size_t)sprintf(out + used, "%02x", ((const unsigned char*)bytes)[i]);
  return out;
}

// What is left of a stream, as a JSON string, or null for no stream.
static const char* body_json(XDR* stream, char* out, size_t out_size) {
  if (stream == NULL) return "null";
  char text[1024] = "";
  size_t used = 0;
  uint32_t word;
  while (used + 9 < sizeof(text) && xdr_getuint32(stream, &word))
    used += (size_t)sprintf(text + used, "%08x", word);
  snprintf(out, out_size, "\"%s\"", text);
  return out;
}

static nfsstat4 layoutget(struct fsal_obj_handle* object, XDR* body,
                          const struct fsal_layoutget_arg* arg, struct fsal_layoutget_res* res) {
#if FSAL_MAJOR_VERSION >= 1303
  if (arg->with_open) record("{\"call\": \"layoutget with open\"}");
#else
  (void)arg;
#endif
  uint32_t delay_ms = settings.layoutget_delay_ms;
  if (delay_ms > 0) {
    struct timespec delay = {delay_ms / 1000, (long)(delay_ms % 1000) * 1000000};
    nanosleep(&delay, NULL);
  }
  if (settings.layoutget_status != 0) return (nfsstat4)settings.layoutget_status;

  struct gsh_buffdesc key;
  object->obj_ops->handle_to_key(object, &key);
  pthread_mutex_lock(&last_mutex);
  last_key_length = key.len < kKeyBytes ? key.len : kKeyBytes;
  memcpy(last_key, key.addr, last_key_length);
  pthread_mutex_unlock(&last_mutex);

  for (uint32_t i = 0; i < settings.body_size; i += 4) {
    if (!xdr_putuint32(body, i)) return NFS4ERR_TOOSMALL;
  }
  uint64_t segment = atomic_fetch_add(&next_segment, 1);
  res->segment.offset = 0;
  res->segment.length = NFS4_UINT64_MAX;
  res->fsal_seg_data = (void*)(uintptr_t)segment;
  res->return_on_close = settings.return_on_close != 0;
  res->last_segment = true;
  record("{\"call\": \"layoutget\", \"client\": %llu, \"segment\": %llu, \"iomode\": %d}", caller(),
         (unsigned long long)segment, res->segment.io_mode);
  return NFS4_OK;
}

static nfsstat4 layoutreturn(struct fsal_obj_handle* object, XDR* body,
                             const struct fsal_layoutreturn_arg* arg) {
  (void)object;
  char cookies[1024] = "";
  char text[1100];
  size_t used = 0;
  for (size_t i = 0; i < arg->ncookies && used + 32 < sizeof(cookies); ++i)
    used += (size_t)sprintf(cookies + used, "%s%llu", i ? ", " : "",
                            (unsigned long long)(uintptr_t)arg->recall_cookies[i]);
  record(
      "{\"call\": \"layoutreturn\", \"client\": %llu, \"segment\": %llu, \"circumstance\": %d, "
      "\"dispose\": %d, \"last\": %d, \"iomode\": %d, \"offset\": %llu, \"length\": %llu, "
      "\"cookies\": [%s], \"body\": %s}",
      caller(), (unsigned long long)(uintptr_t)arg->fsal_seg_data, arg->circumstance, arg->dispose,
      arg->last_segment, arg->cur_segment.io_mode, (unsigned long long)arg->cur_segment.offset,
      (unsigned long long)arg->cur_segment.length, cookies, body_json(body, text, sizeof(text)));
  return NFS4_OK;
}

static nfsstat4 layoutcommit(struct fsal_obj_handle* object, XDR* body,
                             const struct fsal_layoutcommit_arg* arg,
                             struct fsal_layoutcommit_res* res) {
  (void)object, (void)body;
  res->commit_done = true;
  record("{\"call\": \"layoutcommit\", \"client\": %llu, \"segment\": %llu}", caller(),
         (unsigned long long)(uintptr_t)arg->fsal_seg_data);
  return (nfsstat4)settings.layoutcommit_status;
}

#if FSAL_MAJOR_VERSION >= 1301
static nfsstat4 layouterror(struct fsal_obj_handle* object,
                            const struct fsal_layouterror_arg* arg) {
  (void)object;
  char errors[2048] = "";
  char id[2 * NFS4_DEVICEID4_SIZE + 3];
  size_t used = 0;
  for (uint32_t i = 0; i < arg->count && used + 100 < sizeof(errors); ++i)
    used += (size_t)sprintf(errors + used, "%s[\"%s\", %d, %d]", i ? ", " : "",
                            hex(arg->errors[i].de_deviceid, NFS4_DEVICEID4_SIZE, id, sizeof(id)),
                            arg->errors[i].de_status, arg->errors[i].de_opnum);
  record(
      "{\"call\": \"layouterror\", \"client\": %llu, \"offset\": %llu, \"length\": %llu, "
      "\"errors\": [%s]}",
      caller(), (unsigned long long)arg->offset, (unsigned long long)arg->length, errors);
  return NFS4_OK;
}

static nfsstat4 layoutstats(struct fsal_obj_handle* object, XDR* body,
                            const struct fsal_layoutstats_arg* arg) {
  (void)object;
  char id[2 * NFS4_DEVICEID4_SIZE + 3];
  char text[1100];
  record(
      "{\"call\": \"layoutstats\", \"client\": %llu, \"offset\": %llu, \"length\": %llu, "
      "\"read\": [%llu, %llu], \"write\": [%llu, %llu], \"device\": \"%s\", \"type\": %d, "
      "\"body\": %s}",
      caller(), (unsigned long long)arg->offset, (unsigned long long)arg->length,
      (unsigned long long)arg->read->ii_count, (unsigned long long)arg->read->ii_bytes,
      (unsigned long long)arg->write->ii_count, (unsigned long long)arg->write->ii_bytes,
      hex(arg->deviceid, NFS4_DEVICEID4_SIZE, id, sizeof(id)), arg->type,
      body_json(body, text, sizeof(text)));
  return NFS4_OK;
}
#endif

#if FSAL_MAJOR_VERSION >= 1303
static bool mds_threshold(struct fsal_obj_handle* object, struct fsal_mds_threshold* hints) {
  (void)object;
  hints->type = LAYOUT4_NFSV4_1_FILES;
  hints->read_size = settings.mds_threshold;
  hints->write_size = hints->read_size + 1;
  hints->write_iosize = hints->read_size + 2;
  return settings.mds_threshold != 0;
}
#endif

#if FSAL_MAJOR_VERSION >= 1306
static void layoutrecall_waits(struct fsal_obj_handle* object, const struct pnfs_segment* segment) {
  (void)object;
  record("{\"call\": \"layoutrecall_waits\", \"client\": %llu, \"iomode\": %d}", caller(),
         segment->io_mode);
}
#endif

// Reads like an FSAL that knows nothing of READ_PLUS; MEM itself refuses it.
static void (*mem_read2)(struct fsal_obj_handle*, bool, fsal_async_cb, struct fsal_io_arg*, void*);

static void read2(struct fsal_obj_handle* object, bool bypass, fsal_async_cb done,
                  struct fsal_io_arg* arg, void* caller_arg) {
  arg->info = NULL;
  mem_read2(object, bypass, done, arg, caller_arg);
}

static fsal_status_t (*mem_getattrs)(struct fsal_obj_handle*, struct fsal_attrlist*);

static fsal_status_t getattrs(struct fsal_obj_handle* object, struct fsal_attrlist* attributes) {
  const fsal_status_t status = mem_getattrs(object, attributes);
  const uint32_t delay_ms = settings.getattrs_delay_ms;
  if (delay_ms > 0) {
    record("{\"call\": \"getattrs\"}");
    usleep(delay_ms * 1000);
  }
  if (settings.getattrs_invalidates == 0) return status;
  struct gsh_buffdesc key;
  object->obj_ops->handle_to_key(object, &key);
  const fsal_status_t told =
      last_up_vector->invalidate(last_up_vector, &key, FSAL_UP_INVALIDATE_ATTRS);
  record("{\"call\": \"getattrs\", \"told\": %d}", told.major);
  return status;
}

static __typeof__(((struct fsal_obj_ops*)NULL)->lookup) mem_lookup;

static fsal_status_t lookup(struct fsal_obj_handle* directory, const char* name,
                            struct fsal_obj_handle** object, struct fsal_attrlist* out) {
  if (settings.records_lookups != 0) record("{\"call\": \"lookup\", \"name\": \"%s\"}", name);
  return mem_lookup(directory, name, object, out);
}

#if FSAL_MAJOR_VERSION >= 1302
static _Atomic uint64_t changes;                  // names made
static _Atomic uint64_t durable;                  // of them
static _Atomic(struct fsal_obj_handle*) changed;  // the last one's directory

static bool wait_for_change(uint64_t store, uint64_t upto) {
  record("{\"call\": \"reply_wait\", \"store\": %llu, \"upto\": %llu}", (unsigned long long)store,
         (unsigned long long)upto);
  while (settings.replies_held != 0) usleep(1000);
  if (settings.replies_lost != 0) return false;
  if (durable < upto) durable = upto;
  return true;
}

#if FSAL_MAJOR_VERSION >= 1304
enum { kMostAside = 64 };

static void* aside[kMostAside];  // requests; under last_mutex
static unsigned asides;

static bool put_aside(uint64_t store, uint64_t upto, struct svc_req* request) {
  bool taken = false;
  pthread_mutex_lock(&last_mutex);
  if (settings.replies_held != 0 && asides < kMostAside) {
    record("{\"call\": \"reply_later\", \"store\": %llu, \"upto\": %llu}",
           (unsigned long long)store, (unsigned long long)upto);
    aside[asides++] = request;
    taken = true;
  }
  pthread_mutex_unlock(&last_mutex);
  return taken;
}

static void resume_those_aside(void) {
  pthread_mutex_lock(&last_mutex);
  resume_replies(aside, asides);
  asides = 0;
  pthread_mutex_unlock(&last_mutex);
}
#else
static void resume_those_aside(void) {}
#endif

static void note_change(uint64_t upto) {
  struct reply_wait* due = &op_ctx->reply_wait;
  if (!due->possible) return;
  due->store = 46;
  if (due->upto < upto) due->upto = upto;
  due->wait = wait_for_change;
#if FSAL_MAJOR_VERSION >= 1304
  due->later = settings.replies_later != 0 ? put_aside : NULL;
#endif
}

static fsal_status_t made(struct fsal_obj_handle* directory, const char* name,
                          fsal_status_t status) {
  if (settings.names_held != 0) record("{\"call\": \"made\", \"name\": \"%s\"}", name);
  while (settings.names_held != 0) usleep(1000);
  if (FSAL_IS_ERROR(status) || settings.replies_wait == 0) return status;
  changed = directory;
  note_change(++changes);
  return status;
}

static void tell_cached(struct fsal_obj_handle* object) {
  if (object == changed && durable < changes) note_change(changes);
}

static __typeof__(((struct fsal_obj_ops*)NULL)->mkdir) mem_mkdir;

static fsal_status_t make_directory(struct fsal_obj_handle* directory, const char* name,
                                    struct fsal_attrlist* attributes,
                                    struct fsal_obj_handle** object, struct fsal_attrlist* out,
                                    struct fsal_attrlist* before, struct fsal_attrlist* after) {
  return made(directory, name, mem_mkdir(directory, name, attributes, object, out, before, after));
}

static __typeof__(((struct fsal_obj_ops*)NULL)->open2) mem_open2;

static fsal_status_t open2(struct fsal_obj_handle* object, struct state_t* state,
                           fsal_openflags_t flags, enum fsal_create_mode mode, const char* name,
                           struct fsal_attrlist* attributes, fsal_verifier_t verifier,
                           struct fsal_obj_handle** opened, struct fsal_attrlist* out, bool* check,
                           struct fsal_attrlist* before, struct fsal_attrlist* after) {
  const fsal_status_t status = mem_open2(object, state, flags, mode, name, attributes, verifier,
                                         opened, out, check, before, after);
  return name == NULL ? status : made(object, name, status);
}
#endif

// Any name is there, or none.
static fsal_status_t getxattrs(struct fsal_obj_handle* object, xattrkey4* name,
                               xattrvalue4* value) {
  (void)object, (void)name;
  if (settings.xattr_missing != 0) return fsalstat(ERR_FSAL_NOXATTR, 0);
  const uint32_t room = value->utf8string_len;
  value->utf8string_len = settings.xattr_size;
  if (settings.xattr_grows != 0) ++settings.xattr_size;
  if (room == 0) return fsalstat(ERR_FSAL_NO_ERROR, 0);  // how large it is was asked
  if (room < value->utf8string_len) return fsalstat(ERR_FSAL_XATTR2BIG, 0);
  memset(value->utf8string_val, 'x', value->utf8string_len);
  return fsalstat(ERR_FSAL_NO_ERROR, 0);
}

static attrmask_t (*mem_supported_attrs)(struct fsal_export*);

static attrmask_t fs_supported_attrs(struct fsal_export* export) {
  return mem_supported_attrs(export) | ATTR4_XATTR;
}

static nfsstat4 getdeviceinfo(struct fsal_module* fsal, XDR* body, const layouttype4 type,
                              const struct pnfs_deviceid* device) {
  (void)fsal, (void)device;
  if (type != LAYOUT4_NFSV4_1_FILES) return NFS4ERR_UNKNOWN_LAYOUTTYPE;
  for (uint32_t i = 0; i < kDeviceAddressBytes; i += 4) {
    if (!xdr_putuint32(body, i)) return NFS4ERR_SERVERFAULT;
  }
  return NFS4_OK;
}

static size_t fs_da_addr_size(struct fsal_module* fsal) {
  (void)fsal;
  return 4096;
}

static void fs_layouttypes(struct fsal_export* export, int32_t* count, const layouttype4** types) {
  static const layouttype4 files = LAYOUT4_NFSV4_1_FILES;
  (void)export;
  *types = &files;
  *count = 1;
}

static uint32_t fs_layout_blocksize(struct fsal_export* export) {
  (void)export;
  return 4096;
}

static uint32_t fs_maximum_segments(struct fsal_export* export) {
  (void)export;
  return 1;
}

static size_t fs_loc_body_size(struct fsal_export* export) {
  (void)export;
  return 65536;
}

static bool (*mem_fs_supports)(struct fsal_export*, fsal_fsinfo_options_t);

static bool fs_supports(struct fsal_export* export, fsal_fsinfo_options_t option) {
  if (option == fso_pnfs_mds_supported) return true;
  if (option == fso_preserve_unlinked) return settings.preserve_unlinked != 0;
  return mem_fs_supports(export, option);
}

static void (*mem_release)(struct fsal_export*);

static void release(struct fsal_export* export) {
  record("{\"call\": \"release\", \"export\": %d}", export->export_id);
  mem_release(export);
}

static void recall_done(void* cookie, state_status_t status) {
  record("{\"call\": \"recall\", \"cookie\": %llu, \"status\": %d}",
         (unsigned long long)(uintptr_t)cookie, status);
}

static bool do_recall(const char* arguments) {
  unsigned long long offset, length, cookie;
  int iomode;
  char key[kKeyBytes];
  if (sscanf(arguments, "%llu %llu %d %llu", &offset, &length, &iomode, &cookie) != 4) return false;
  struct pnfs_segment segment = {
      .io_mode = (layoutiomode4)iomode, .offset = offset, .length = length};
  struct gsh_buffdesc handle = {.addr = key};
  pthread_mutex_lock(&last_mutex);
  handle.len = last_key_length;
  memcpy(key, last_key, last_key_length);
  pthread_mutex_unlock(&last_mutex);
  if (handle.len == 0 || up_vector == NULL) return false;
  void* token = (void*)(uintptr_t)cookie;
  for (int attempt = 0; attempt < 2000; ++attempt) {
    if (!FSAL_IS_ERROR(up_async_layoutrecall(general_fridge, up_vector, &handle,
                                             LAYOUT4_NFSV4_1_FILES, false, &segment, token, NULL,
                                             recall_done, token)))
      return true;
    usleep(1000);  // the server's spare threads are few, and it does not queue
  }
  return false;
}

static void recall_any_done(void* argument, nfsstat4 status) {
  (void)argument;
  record("{\"call\": \"recall_any\", \"status\": %d}", status);
}

static bool do_recall_any(const char* arguments) {
  unsigned long long client;
  unsigned keep, mask;
  if (sscanf(arguments, "%llu %u %u", &client, &keep, &mask) != 3) return false;
  return nfs4_recall_any != NULL && nfs4_recall_any(client, keep, mask, recall_any_done, NULL);
}

#if FSAL_MAJOR_VERSION >= 1305
enum { kMostCommits = 256, kAskAgain = 1001 };

static struct held_commit {
  struct fsal_obj_handle* object;
  fsal_async_cb done;
  struct fsal_io_arg* argument;
  void* caller;
  struct gsh_export* ctx_export;
  struct fsal_export* fsal_export;
} commits[kMostCommits];  // under last_mutex
static unsigned commits_waiting;

static void commit_async(struct fsal_obj_handle* object, fsal_async_cb done,
                         struct fsal_io_arg* argument, void* caller) {
  bool held = false;
  pthread_mutex_lock(&last_mutex);
  if (argument->fsal_resume == 0 && settings.commits_held != 0 && commits_waiting < kMostCommits) {
    commits[commits_waiting++] = (struct held_commit){
        object, done, argument, caller, op_ctx->ctx_export, op_ctx->fsal_export};
    held = true;
    record("{\"call\": \"commit\", \"offset\": %llu, \"length\": %llu}",
           (unsigned long long)argument->offset, (unsigned long long)argument->io_request);
  }
  pthread_mutex_unlock(&last_mutex);
  if (held) return;
  argument->fsal_resume = 0;
  done(object, object->obj_ops->commit2(object, (off_t)argument->offset, argument->io_request),
       argument, caller);
}

// Each is to be called again, as if it had begun something.
static void resume_commits(void) {
  pthread_mutex_lock(&last_mutex);
  for (; commits_waiting > 0; --commits_waiting) {
    const struct held_commit* one = &commits[commits_waiting - 1];
    struct req_op_context context;
    get_gsh_export_ref(one->ctx_export);
    init_op_context_simple(&context, one->ctx_export, one->fsal_export);
    one->argument->fsal_resume = kAskAgain;
    one->done(one->object, fsalstat(ERR_FSAL_NO_ERROR, 0), one->argument, one->caller);
    release_op_context();
  }
  pthread_mutex_unlock(&last_mutex);
}
#endif

static void hold_commits(unsigned value) {
  settings.commits_held = value;
#if FSAL_MAJOR_VERSION >= 1305
  if (value == 0) resume_commits();
#endif
}

static void hold_replies(unsigned value) {
  settings.replies_held = value;
#if FSAL_MAJOR_VERSION >= 1302
  if (value == 0) resume_those_aside();
#endif
}

static bool do_set(const char* arguments) {
  char name[32];
  unsigned value;
  if (sscanf(arguments, "%31s %u", name, &value) != 2) return false;
  if (strcmp(name, "layoutget_status") == 0)
    settings.layoutget_status = value;
  else if (strcmp(name, "layoutcommit_status") == 0)
    settings.layoutcommit_status = value;
  else if (strcmp(name, "layoutget_delay_ms") == 0)
    settings.layoutget_delay_ms = value;
  else if (strcmp(name, "body_size") == 0)
    settings.body_size = value;
  else if (strcmp(name, "return_on_close") == 0)
    settings.return_on_close = value;
  else if (strcmp(name, "preserve_unlinked") == 0)
    settings.preserve_unlinked = value;
  else if (strcmp(name, "mds_threshold") == 0)
    settings.mds_threshold = value;
  else if (strcmp(name, "getattrs_invalidates") == 0)
    settings.getattrs_invalidates = value;
  else if (strcmp(name, "getattrs_delay_ms") == 0)
    settings.getattrs_delay_ms = value;
  else if (strcmp(name, "records_lookups") == 0)
    settings.records_lookups = value;
  else if (strcmp(name, "commits_held") == 0)
    hold_commits(value);
  else if (strcmp(name, "names_held") == 0)
    settings.names_held = value;
  else if (strcmp(name, "xattr_size") == 0)
    settings.xattr_size = value;
  else if (strcmp(name, "xattr_grows") == 0)
    settings.xattr_grows = value;
  else if (strcmp(name, "xattr_missing") == 0)
    settings.xattr_missing = value;
  else if (strcmp(name, "replies_wait") == 0)
    settings.replies_wait = value;
  else if (strcmp(name, "replies_held") == 0)
    hold_replies(value);
  else if (strcmp(name, "replies_later") == 0)
    settings.replies_later = value;
  else if (strcmp(name, "replies_lost") == 0)
    settings.replies_lost = value;
  else
    return false;
  return true;
}

static bool do_grace(void) { return nfs_start_grace(NULL) == 0; }

static bool do_grace_left(void) {
  record("{\"call\": \"grace_left\", \"ms\": %llu}", (unsigned long long)nfs_grace_left_ms());
  return true;
}

static bool do_allocated(void) {
  record("{\"call\": \"allocated\", \"bytes\": %zu}", mallinfo2().uordblks);
  return true;
}

static void* serve_commands(void* argument) {
  int listener = (int)(intptr_t)argument;
  for (;;) {
    char command[256];
    int peer = accept(listener, NULL, NULL);
    if (peer < 0) continue;
    ssize_t size = read(peer, command, sizeof(command) - 1);
    bool ok = false;
    if (size > 0) {
      command[size] = '\0';
      if (strncmp(command, "recall ", 7) == 0) ok = do_recall(command + 7);
      if (strncmp(command, "recall_any ", 11) == 0) ok = do_recall_any(command + 11);
      if (strncmp(command, "set ", 4) == 0) ok = do_set(command + 4);
      if (strcmp(command, "grace") == 0) ok = do_grace();
      if (strcmp(command, "grace_left") == 0) ok = do_grace_left();
      if (strcmp(command, "allocated") == 0) ok = do_allocated();
    }
    if (write(peer, ok ? "ok\n" : "error\n", ok ? 3 : 6) < 0) ok = false;
    close(peer);
  }
  return NULL;
}

static bool listen_for_commands(void) {
  static bool listening = false;  // exports are made one after the other
  const char* path = getenv("LAYOUT_FSAL_SOCKET");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  pthread_t thread;
  if (path == NULL || listening) return true;
  listening = true;
  if (strlen(path) >= sizeof(address.sun_path)) return false;
  strcpy(address.sun_path, path);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return listener >= 0 && bind(listener, (struct sockaddr*)&address, sizeof(address)) == 0 &&
         listen(listener, 16) == 0 &&
         pthread_create(&thread, NULL, serve_commands, (void*)(intptr_t)listener) == 0 &&
         pthread_detach(thread) == 0;
}

static void replace_object_methods(struct fsal_obj_handle* root) {
  // MEM keeps one table for all its objects, in writable memory of its own.
  struct fsal_obj_ops* methods = (struct fsal_obj_ops*)root->obj_ops;
  methods->layoutget = layoutget;
  methods->layoutreturn = layoutreturn;
  methods->layoutcommit = layoutcommit;
  if (methods->read2 != read2) mem_read2 = methods->read2;
  methods->read2 = read2;
  if (methods->lookup != lookup) mem_lookup = methods->lookup;
  methods->lookup = lookup;
  if (methods->getattrs != getattrs) mem_getattrs = methods->getattrs;
  methods->getattrs = getattrs;
  methods->getxattrs = getxattrs;
#if FSAL_MAJOR_VERSION >= 1301
  methods->layouterror = layouterror;
  methods->layoutstats = layoutstats;
#endif
#if FSAL_MAJOR_VERSION >= 1302
  if (methods->mkdir != make_directory) mem_mkdir = methods->mkdir;
  methods->mkdir = make_directory;
  if (methods->open2 != open2) mem_open2 = methods->open2;
  methods->open2 = open2;
  methods->tell_cached = tell_cached;
#endif
#if FSAL_MAJOR_VERSION >= 1303
  methods->mds_threshold = mds_threshold;
#endif
#if FSAL_MAJOR_VERSION >= 1305
  methods->commit_async = commit_async;
#endif
#if FSAL_MAJOR_VERSION >= 1306
  methods->layoutrecall_waits = layoutrecall_waits;
#endif
}

static fsal_status_t create_export(struct fsal_module* self, void* node,
                                   struct config_error_type* error,
                                   const struct fsal_up_vector* up_ops) {
  (void)self;
  const char* delay_ms = getenv("LAYOUT_FSAL_EXPORT_MS");
  if (delay_ms != NULL) usleep((useconds_t)atoi(delay_ms) * 1000);
  struct fsal_module* mem = lookup_fsal("MEM");
  struct fsal_obj_handle* root;
  if (mem == NULL) return fsalstat(ERR_FSAL_INVAL, 0);
  fsal_status_t status = mem->m_ops.create_export(mem, node, error, up_ops);
  if (FSAL_IS_ERROR(status)) return status;
  struct export_ops* methods = &op_ctx->fsal_export->exp_ops;
  status = methods->lookup_path(op_ctx->fsal_export, CTX_FULLPATH(op_ctx), &root, NULL);
  if (FSAL_IS_ERROR(status)) return status;
  replace_object_methods(root);
  methods->fs_layouttypes = fs_layouttypes;
  methods->fs_layout_blocksize = fs_layout_blocksize;
  methods->fs_maximum_segments = fs_maximum_segments;
  methods->fs_loc_body_size = fs_loc_body_size;
  mem_fs_supports = methods->fs_supports;
  methods->fs_supports = fs_supports;
  mem_supported_attrs = methods->fs_supported_attrs;
  methods->fs_supported_attrs = fs_supported_attrs;
  mem_release = methods->release;
  methods->release = release;
  if (up_vector == NULL) up_vector = up_ops;
  last_up_vector = up_ops;
  return listen_for_commands() ? status : fsalstat(ERR_FSAL_IO, errno);
}

MODULE_INIT void load(void) {
  if (register_fsal(&module, "LAYOUT", FSAL_MAJOR_VERSION, FSAL_MINOR_VERSION,
                    FSAL_ID_EXPERIMENTAL) != 0) {
    return;
  }
  module.m_ops.create_export = create_export;
  module.m_ops.getdeviceinfo = getdeviceinfo;
  module.m_ops.fs_da_addr_size = fs_da_addr_size;
}

MODULE_FINI void unload(void) { (void)unregister_fsal(&module); }
