// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/media/sealed_env.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "chunkstore/core/os/mutex.h"

namespace satchel {
namespace {

constexpr char kInClear[] = "media.json";
constexpr size_t kTogether = 64;  // blocks read or written in one call

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

uint64_t BlocksOf(uint64_t bytes) { return (bytes + kSealedContent - 1) / kSealedContent; }

Status Failed(const char* what) { return Status::Make(Kind::kIo, what, "OpenSSL refused"); }

// For one thread at a time.
class Sealer {
 public:
  Sealer(const std::vector<SealKey>& keys, const std::string& name)
      : bound_(sizeof(uint64_t), '\0') {
    bound_ += name;
    for (const SealKey& key : keys) {
      ContextPtr context(EVP_CIPHER_CTX_new());
      keyed_ = keyed_ && context != nullptr &&
               EVP_CipherInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key.data(), nullptr,
                                 /*seals=*/1) == 1;
      contexts_.push_back(std::move(context));
    }
  }

  // Under the newest key.
  Status Seal(uint64_t number, const uint8_t* content, uint8_t* block) {
    EVP_CIPHER_CTX* const context = contexts_.front().get();
    uint8_t* const sealed = block + kSealNonceSize;
    int size = 0;
    if (RAND_bytes(block, kSealNonceSize) != 1 || !Begin(context, number, block, /*seals=*/1) ||
        EVP_CipherUpdate(context, sealed, &size, content, kSealedContent) != 1 ||
        EVP_CipherFinal_ex(context, sealed + size, &size) != 1 ||
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, kSealTagSize, sealed + kSealedContent) !=
            1) {
      return Failed("cannot seal a block");
    }
    return {};
  }

  // false, and zeros, if no key opens it.
  bool Unseal(uint64_t number, uint8_t* block, uint8_t* content) {
    // A file is of one key: the one that opened the block before comes first.
    if (Opens(used_, number, block, content)) return true;
    for (size_t i = 0; i < contexts_.size(); ++i) {
      if (i == used_ || !Opens(i, number, block, content)) continue;
      used_ = i;
      return true;
    }
    std::memset(content, 0, kSealedContent);
    return false;
  }

 private:
  using ContextPtr = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

  bool Opens(size_t key, uint64_t number, uint8_t* block, uint8_t* content) {
    EVP_CIPHER_CTX* const context = contexts_[key].get();
    uint8_t* const sealed = block + kSealNonceSize;
    int size = 0;
    return Begin(context, number, block, /*seals=*/0) &&
           EVP_CipherUpdate(context, content, &size, sealed, kSealedContent) == 1 &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, kSealTagSize,
                               sealed + kSealedContent) == 1 &&
           EVP_CipherFinal_ex(context, content + size, &size) == 1;
  }

  bool Begin(EVP_CIPHER_CTX* context, uint64_t number, const uint8_t* nonce, int seals) {
    std::memcpy(bound_.data(), &number, sizeof number);
    int size = 0;
    const auto* bound = reinterpret_cast<const uint8_t*>(bound_.data());
    return keyed_ && EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce, seals) == 1 &&
           EVP_CipherUpdate(context, nullptr, &size, bound, static_cast<int>(bound_.size())) == 1;
  }

  std::string bound_;
  bool keyed_ = true;
  size_t used_ = 0;
  std::vector<ContextPtr> contexts_;
};

class SealedFile final : public File {
 public:
  SealedFile(std::unique_ptr<File> file, const std::vector<SealKey>& keys, const std::string& name)
      : file_(std::move(file)), sealer_(keys, name) {}

  // What the last block says is believed as far as the file goes.
  Status Load() {
    const MutexLock lock(&mutex_);
    uint64_t stored = 0;
    SATCHEL_RETURN_IF_ERROR(file_->Size(&stored));
    blocks_ = stored / kSealedBlock;
    size_ = 0;
    if (blocks_ == 0) return {};
    uint8_t content[kSealedContent];
    SATCHEL_RETURN_IF_ERROR(ReadBlocks(blocks_ - 1, 1, content));
    uint64_t size = 0;
    std::memcpy(&size, content + kSealedContent - kSealedLengthSize, sizeof size);
    const uint64_t most = blocks_ * kSealedContent;
    size_ = size != 0 && size <= most - kSealedLengthSize ? size : most;
    return {};
  }

  Status ReadAt(uint64_t offset, size_t n, void* out, size_t* got) override {
    const MutexLock lock(&mutex_);
    auto* to = static_cast<uint8_t*>(out);
    *got = 0;
    if (offset >= size_) return {};
    n = std::min<uint64_t>(n, size_ - offset);
    uint8_t content[kTogether * kSealedContent];
    while (*got < n) {
      const uint64_t first = (offset + *got) / kSealedContent;
      const size_t skip = (offset + *got) % kSealedContent;
      if (first == kept_number_) {
        const size_t part = std::min(n - *got, kSealedContent - skip);
        std::memcpy(to + *got, kept_ + skip, part);
        *got += part;
        continue;
      }
      const size_t count = std::min<uint64_t>(kTogether, BlocksOf(skip + n - *got));
      SATCHEL_RETURN_IF_ERROR(ReadBlocks(first, count, content));
      std::memcpy(kept_, content + (count - 1) * kSealedContent, kSealedContent);
      kept_number_ = first + count - 1;
      const size_t part = std::min(n - *got, count * kSealedContent - skip);
      std::memcpy(to + *got, content + skip, part);
      *got += part;
    }
    return {};
  }

  Status WriteAt(uint64_t offset, const void* data, size_t n) override {
    const MutexLock lock(&mutex_);
    return Write(offset, static_cast<const uint8_t*>(data), n);
  }

  Status Truncate(uint64_t size) override {
    const MutexLock lock(&mutex_);
    if (size > size_) return Status::Make(Kind::kState, "cannot lengthen a sealed file");
    size_ = size;
    padded_ = false;
    return {};
  }

  Status PunchHole(uint64_t, uint64_t) override {
    return Status::Make(Kind::kState, "cannot make a hole in a sealed file");
  }

  Status Finish() override {
    const MutexLock lock(&mutex_);
    return padded_ ? Status() : Pad();
  }

  Status Sync() override {
    SATCHEL_RETURN_IF_ERROR(Finish());
    return file_->Sync();
  }

  void StartWriting(uint64_t offset, uint64_t length, uint64_t behind) override {
    const uint64_t first = offset / kSealedContent * kSealedBlock;
    file_->StartWriting(first, BlocksOf(length) * kSealedBlock, behind);
  }

  Status Size(uint64_t* size) override {
    const MutexLock lock(&mutex_);
    *size = size_;
    return {};
  }

  Status NextData(uint64_t offset, uint64_t* begin, uint64_t* end) override {
    SATCHEL_RETURN_IF_ERROR(Size(end));
    *begin = std::min(offset, *end);
    return {};
  }

 private:
  // What does not open, or is not there, is zeros.
  Status ReadBlocks(uint64_t first, size_t count, uint8_t* content) REQUIRES(mutex_) {
    size_t got = 0;
    SATCHEL_RETURN_IF_ERROR(
        file_->ReadAt(first * kSealedBlock, count * kSealedBlock, buffer_, &got));
    std::memset(content, 0, count * kSealedContent);
    for (size_t i = 0; i < got / kSealedBlock; ++i) {
      sealer_.Unseal(first + i, buffer_ + i * kSealedBlock, content + i * kSealedContent);
    }
    return {};
  }

  Status Write(uint64_t offset, const uint8_t* data, size_t n) REQUIRES(mutex_) {
    padded_ = false;
    kept_number_ = kNone;
    uint8_t content[kSealedContent];
    while (n > 0) {
      const uint64_t first = offset / kSealedContent;
      size_t filled = 0;
      size_t count = 0;
      for (; count < kTogether && filled < n; ++count) {
        const size_t skip = count == 0 ? offset % kSealedContent : 0;
        const size_t part = std::min(n - filled, kSealedContent - skip);
        SATCHEL_RETURN_IF_ERROR(Before(first + count, part, content));
        std::memcpy(content + skip, data + filled, part);
        SATCHEL_RETURN_IF_ERROR(
            sealer_.Seal(first + count, content, buffer_ + count * kSealedBlock));
        filled += part;
      }
      SATCHEL_RETURN_IF_ERROR(file_->WriteAt(first * kSealedBlock, buffer_, count * kSealedBlock));
      blocks_ = std::max(blocks_, first + count);
      offset += filled;
      data += filled;
      n -= filled;
      size_ = std::max(size_, offset);
    }
    return {};
  }

  // The content of a block of which `part` bytes are written: zeros behind the end of the file.
  Status Before(uint64_t number, size_t part, uint8_t* content) REQUIRES(mutex_) {
    const uint64_t begin = number * kSealedContent;
    if (part == kSealedContent) return {};
    std::memset(content, 0, kSealedContent);
    if (begin >= size_) return {};
    uint8_t block[kSealedBlock];
    size_t got = 0;
    SATCHEL_RETURN_IF_ERROR(file_->ReadAt(number * kSealedBlock, sizeof block, block, &got));
    if (got == sizeof block) sealer_.Unseal(number, block, content);
    const uint64_t kept = std::min<uint64_t>(kSealedContent, size_ - begin);
    std::memset(content + kept, 0, kSealedContent - kept);
    return {};
  }

  // Zeros up to the last block, which has the length, and nothing behind it.
  Status Pad() REQUIRES(mutex_) {
    if (size_ == 0) {  // a length of 0 would be read as that of a block that does not open
      if (blocks_ != 0) SATCHEL_RETURN_IF_ERROR(file_->Truncate(0));
      blocks_ = 0;
      padded_ = true;
      return {};
    }
    const uint64_t size = size_;
    const uint64_t end = PaddedSize(size) / kSealedBlock * kSealedContent;
    const std::string zeros(kTogether * kSealedContent, '\0');
    while (size_ < end - kSealedLengthSize) {
      const uint64_t left = end - kSealedLengthSize - size_;
      const auto* data = reinterpret_cast<const uint8_t*>(zeros.data());
      SATCHEL_RETURN_IF_ERROR(Write(size_, data, std::min<uint64_t>(zeros.size(), left)));
    }
    const Status status = Write(size_, reinterpret_cast<const uint8_t*>(&size), sizeof size);
    size_ = size;
    SATCHEL_RETURN_IF_ERROR(status);
    if (blocks_ * kSealedContent > end) {
      blocks_ = end / kSealedContent;
      SATCHEL_RETURN_IF_ERROR(file_->Truncate(blocks_ * kSealedBlock));
    }
    padded_ = true;
    return {};
  }

  const std::unique_ptr<File> file_;
  Mutex mutex_;
  Sealer sealer_ GUARDED_BY(mutex_);
  uint64_t size_ GUARDED_BY(mutex_) = 0;    // bytes of content
  uint64_t blocks_ GUARDED_BY(mutex_) = 0;  // in the file
  bool padded_ GUARDED_BY(mutex_) = true;
  uint8_t buffer_[kTogether * kSealedBlock] GUARDED_BY(mutex_);

  // The content of the block that was read last: records stand one behind the other.
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t kept_number_ GUARDED_BY(mutex_) = kNone;
  uint8_t kept_[kSealedContent] GUARDED_BY(mutex_);
};

}  // namespace

uint64_t PaddedSize(uint64_t size) {
  const uint64_t bytes = BlocksOf(size + kSealedLengthSize) * kSealedBlock;
  unsigned exponent = 0;
  while (bytes >> (exponent + 1) != 0) ++exponent;
  unsigned digits = 0;
  while (exponent >> digits != 0) ++digits;
  const uint64_t mask = (uint64_t{1} << (exponent - digits)) - 1;
  const uint64_t padded = (bytes + mask) & ~mask;
  return (padded + kSealedBlock - 1) / kSealedBlock * kSealedBlock;
}

SealedEnv::~SealedEnv() {
  for (SealKey& key : keys_) OPENSSL_cleanse(key.data(), key.size());
}

Status SealedEnv::Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name == kInClear) return ForwardingEnv::Open(path, mode, file);
  std::unique_ptr<File> opened;
  SATCHEL_RETURN_IF_ERROR(ForwardingEnv::Open(path, mode, &opened));
  auto sealed = std::make_unique<SealedFile>(std::move(opened), keys_, name);
  SATCHEL_RETURN_IF_ERROR(sealed->Load());
  *file = std::move(sealed);
  return {};
}

// A block is bound to the name of its file.
Status SealedEnv::Rename(const std::string& from, const std::string&) {
  return Status::Make(Kind::kState, "cannot rename " + from, "it is sealed");
}

}  // namespace satchel
