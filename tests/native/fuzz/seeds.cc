// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes one well-formed input for each fuzzer, in the format that it reads, below a folder.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "chunkstore/core/format/description.h"
#include "chunkstore/core/format/frame.h"
#include "chunkstore/core/format/hash.h"
#include "chunkstore/core/format/record.h"
#include "chunkstore/core/format/table.h"
#include "chunkstore/core/media/media_commit.h"
#include "chunkstore/core/media/media_index.h"
#include "chunkstore/core/volume/block_map_file.h"
#include "volumes/plugin/miss_protocol.h"

namespace satchel {
namespace {

template <typename T>
void Put(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Three records: two compressed, one raw.
std::string Records(std::vector<MediaIndexEntry>* entries) {
  std::string out;
  for (uint32_t i = 0; i < 3; ++i) {
    std::string block;
    uint32_t state = i + 1;
    while (block.size() < kBlockSize) {
      state = state * 1664525 + 1013904223;
      block += i < 2 ? static_cast<char>('a' + i) : static_cast<char>(state >> 24);
    }
    const auto* bytes = reinterpret_cast<const uint8_t*>(block.data());
    const ChunkRef ref = HashBlock(bytes);
    const auto offset = static_cast<uint32_t>(kPackHeaderSize + out.size());
    entries->push_back({ref, offset, AppendRecord(ref, bytes, 1, &out)});
  }
  return out;
}

std::string Frame() {
  std::string blocks;
  for (size_t i = 0; i < 4 * kBlockSize; ++i) blocks += static_cast<char>('a' + i * i / 1000 % 20);
  std::string out;
  FrameEncoder encoder(kFrameLevel);
  (void)encoder.Append(FrameCodec::kBlocks, reinterpret_cast<uint8_t*>(blocks.data()), 4, &out);
  return out;
}

// A table of two levels with two leaves, as table_page.cc wants it.
std::string Table() {
  std::string out;
  Put(uint64_t{130 * kBlockSize}, &out);
  Put(uint64_t{0}, &out);
  Put(uint64_t{130}, &out);
  for (unsigned number = 0; number < 3; ++number) {
    Page page{};
    for (uint8_t i = 0; i < (number == 0 ? 2 : 60); ++i) {
      page.refs[i].bytes[0] = static_cast<uint8_t>(i + 1);
    }
    uint8_t block[kBlockSize];
    EncodePage(page, number == 0 ? 1 : 0, block);
    out.append(reinterpret_cast<const char*>(block), sizeof block);
  }
  return out;
}

// Without its checksum, which the fuzzer adds.
std::string Commit() {
  MediaCommit commit;
  commit.uuid.fill(7);
  commit.generation = 3;
  commit.packs = {{1, 40, 60'000}, {2, 3, 5'000}};
  commit.files = {{"checkpoints/notes-1.json", 900, Sha256("", 0)},
                  {"checkpoints/notes-1.sig", 1, Sha256("", 0)}};
  std::string out = EncodeMediaCommit(commit);
  out.resize(out.size() - sizeof(uint64_t));
  return out;
}

std::string Map() {
  std::string out(kBlockMapHeaderSize, '\0');
  std::memcpy(out.data(), kBlockMapMagic, sizeof kBlockMapMagic);
  const uint64_t blocks = 3;
  std::memcpy(out.data() + sizeof kBlockMapMagic, &blocks, sizeof blocks);
  Put(EncodeEntry({BlockState::kPacked, {1, 16, 25}}), &out);
  Put(EncodeEntry(kZeroEntry), &out);
  Put(EncodeEntry(kDirtyEntry), &out);
  out.resize(BlockMapSize(blocks));
  return out;
}

// The content of one block that is not kept, behind the byte that miss_reply.cc wants.
std::string Reply() {
  std::string out(1, '\0');
  Put(MissReply{kMissContentMagic, 0}, &out);
  return out.append(kBlockSize, 'x');
}

// A guest's RENAME2: a fuse_in_header, a fuse_rename2_in, two names.
std::string Rename() {
  std::string out(56, '\0');
  out[4] = 45;
  return out.append("old\0new", 8);
}

void Write(const std::filesystem::path& folder, const std::string& name, const std::string& data) {
  std::filesystem::create_directories(folder / name);
  std::ofstream(folder / name / "well-formed", std::ios::binary) << data;
}

}  // namespace
}  // namespace satchel

int main(int argc, char** argv) {
  using namespace satchel;
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  std::vector<MediaIndexEntry> entries;
  const std::string records = Records(&entries);
  std::string pack(kPackMagic, sizeof kPackMagic);
  Put(kPackVersion, &pack);
  Put(uint32_t{0}, &pack);
  pack += records + Frame() + records;
  Write(folder, "record", records);
  Write(folder, "pack_scan", pack);
  Write(folder, "frame", Frame());
  Write(folder, "media_index", EncodeMediaIndex(&entries, pack.size()));
  Write(folder, "media_commit", Commit());
  Write(folder, "table_page", Table());
  Write(folder, "block_map", Map());
  Write(folder, "agent_frames",
        "\x07\x02\x01\x01\xc0SATF\xdb\xdc\xdb\xdd\xc0GET / HTTP/1.1\r\n\r\n");
  Write(folder, "miss_reply", Reply());
  Write(folder, "share_message", Rename());
  Write(folder, "description", MakeDescription("satchel-store", 1, ""));
  return 0;
}
