#include "layout/siphash.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <memory>

#include "rpc/base/assert.h"

namespace weft::layout {
namespace {

struct MacFree {
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};

// A context that yields 16 bytes; the key comes with each use.
std::unique_ptr<EVP_MAC_CTX, MacFree> make_context() {
  const std::unique_ptr<EVP_MAC, MacFree> mac(EVP_MAC_fetch(nullptr, "SIPHASH", nullptr));
  WEFT_ASSERT(mac != nullptr);
  std::unique_ptr<EVP_MAC_CTX, MacFree> context(EVP_MAC_CTX_new(mac.get()));
  WEFT_ASSERT(context != nullptr);
  std::size_t size = sizeof(SipHash128);
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                               OSSL_PARAM_construct_end()};
  WEFT_ASSERT(EVP_MAC_CTX_set_params(context.get(), params) == 1);
  return context;
}

}  // namespace

SipHash128 siphash128(const SipKey& key, std::span<const std::byte> bytes) {
  static thread_local const auto context = make_context();
  SipHash128 hash;
  std::size_t size = 0;
  const bool done =
      EVP_MAC_init(context.get(), reinterpret_cast<const unsigned char*>(key.data()), key.size(),
                   nullptr) == 1 &&
      EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(bytes.data()),
                     bytes.size()) == 1 &&
      EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(hash.data()), &size,
                    hash.size()) == 1;
  WEFT_ASSERT(done && size == hash.size());
  return hash;
}

}  // namespace weft::layout
