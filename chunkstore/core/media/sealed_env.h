// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// An Env whose files are sealed: what is in them, and to a few per cent how much, is told to nobody
// without the key. Described in docs/formats/sealed.md.
//
//   file  := block*          none in a file that nothing was written to
//   block := nonce (12)  ciphertext (4068)  tag (16)
//
// A block is sealed with AES-256-GCM under the key, with a nonce that is drawn anew each time it is
// written. The additional data is the number of the block (u64) and the file's name without
// folders, so that no block passes for another one. The last 8 bytes of the last block are the
// length of the content (u64); between the content and these are zeros, as many as padding takes
// (PaddedSize). Sync writes them; what is appended after that overwrites them, and the next Sync
// writes them anew.
//
// Who wrote a block and when is not told by that: a file can be cut off or put back. A block that
// does not open reads as zeros, because all that is kept in such files checks itself, and damage is
// then found where it always is. Names are as the caller gives them, and media.json is left in
// clear.
#ifndef SATCHEL_CHUNKSTORE_CORE_MEDIA_SEALED_ENV_H_
#define SATCHEL_CHUNKSTORE_CORE_MEDIA_SEALED_ENV_H_

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chunkstore/core/os/forwarding_env.h"

namespace satchel {

constexpr size_t kSealKeySize = 32;
constexpr size_t kSealedBlock = 4096;
constexpr size_t kSealNonceSize = 12;
constexpr size_t kSealTagSize = 16;
constexpr size_t kSealedContent = kSealedBlock - kSealNonceSize - kSealTagSize;
constexpr size_t kSealedLengthSize = 8;

using SealKey = std::array<uint8_t, kSealKeySize>;

// Bytes on the medium of a file with `size` bytes of content: Padme of the blocks that it takes
// (Nikitin et al., PURBs, 2019). At most an eighth more, and a thirtieth of many.
uint64_t PaddedSize(uint64_t size);

class SealedEnv final : public ForwardingEnv {
 public:
  // `env` outlives it. keys: at least one, the newest first, under which all is written. What an
  // older one opens is read too: a medium's key is changed without its packs being written anew.
  SealedEnv(Env* env, std::vector<SealKey> keys) : ForwardingEnv(env), keys_(std::move(keys)) {}
  ~SealedEnv() override;
  SealedEnv(const SealedEnv&) = delete;
  SealedEnv& operator=(const SealedEnv&) = delete;

  // The file may outlive the Env.
  Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) override;
  Status Rename(const std::string& from, const std::string& to) override;
  uint64_t Room(uint64_t bytes) override { return bytes + bytes / 16; }

 private:
  std::vector<SealKey> keys_;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_MEDIA_SEALED_ENV_H_
