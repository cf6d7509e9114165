// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/tools/dump.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "chunkstore/core/format/table.h"
#include "chunkstore/core/index/index.h"
#include "chunkstore/core/media/media_commit.h"
#include "chunkstore/core/media/media_index.h"
#include "chunkstore/core/packs/pack_reader.h"
#include "chunkstore/core/packs/pack_scan.h"
#include "chunkstore/core/volume/block_map_file.h"

namespace satchel {
namespace {

using Show = std::function<Status(const DumpedPart&)>;

std::string Number(uint64_t n) { return std::to_string(n); }

// Whether the content is what the record says.
std::string State(const RecordView& record) {
  uint8_t block[kBlockSize];
  const Status status = VerifyRecord(record, block);
  return status.ok() ? "whole" : status.why();
}

Status DumpRecords(File* file, uint64_t begin, uint64_t end, const Show& show) {
  ScanVisitor visitor;
  visitor.on_record = [&](uint64_t offset, const RecordView& record, bool) {
    const char* codec = record.codec == Codec::kRaw ? "raw" : "zstd";
    return show(
        {offset, record.size(), "record",
         record.ref.IdHex() + " " + codec + " " + Number(record.length) + " " + State(record)});
  };
  FrameDecoder decoder;
  visitor.on_frame = [&](uint64_t offset, const FrameView& frame) {
    std::vector<ChunkRef> names;
    std::string text = Number(frame.count) + " chunks";
    const Status named = NameFrame(frame, &decoder, &names);
    if (!named.ok()) text += " " + named.why();
    for (const ChunkRef& name : names) text += " " + name.IdHex();
    return show({offset, frame.size(), "frame", text});
  };
  visitor.on_garbage = [&](uint64_t from, uint64_t to, const std::string& why) {
    return show({from, to - from, "garbage", why});
  };
  return ScanPack(file, begin, end, visitor);
}

Status DumpPack(File* file, uint64_t size, const Show& show) {
  const Status header = CheckPackHeader(file);
  if (!header.ok()) return header;
  SATCHEL_RETURN_IF_ERROR(
      show({0, kPackHeaderSize, "header", "pack of version " + Number(kPackVersion)}));
  return DumpRecords(file, kPackHeaderSize, size, show);
}

Status DumpIndex(Env* env, const std::string& path, const Show& show) {
  std::string data;
  std::vector<MediaIndexEntry> entries;
  SATCHEL_RETURN_IF_ERROR(ReadFile(env, path, kMediaIndexLimit, &data));
  uint64_t of = 0;
  SATCHEL_RETURN_IF_ERROR(DecodeMediaIndex(data, &entries, &of));
  SATCHEL_RETURN_IF_ERROR(
      show({0, kMediaIndexHeaderSize, "header", Number(entries.size()) + " entries"}));
  uint64_t at = kMediaIndexHeaderSize;
  for (const MediaIndexEntry& entry : entries) {
    SATCHEL_RETURN_IF_ERROR(show({at, kMediaIndexEntrySize, "entry",
                                  entry.ref.IdHex() + " at " + Number(entry.offset) + ", " +
                                      Number(entry.length) + " bytes"}));
    at += kMediaIndexEntrySize;
  }
  return show({at, data.size() - at, "checksum", "right"});
}

Status DumpCommit(Env* env, const std::string& path, const Show& show) {
  std::string data;
  MediaCommit commit;
  SATCHEL_RETURN_IF_ERROR(ReadFile(env, path, kMediaCommitLimit, &data));
  SATCHEL_RETURN_IF_ERROR(DecodeMediaCommit(data, &commit));
  SATCHEL_RETURN_IF_ERROR(
      show({0, kMediaCommitHeaderSize, "header",
            "generation " + Number(commit.generation) + " of " + FormatUuid(commit.uuid) +
                ", created " + Number(commit.created) + " ns, " + Number(commit.packs.size()) +
                " packs, " + Number(commit.files.size()) + " files"}));
  uint64_t at = kMediaCommitHeaderSize;
  for (const MediaPack& pack : commit.packs) {
    SATCHEL_RETURN_IF_ERROR(show({at, kMediaCommitPackSize, "pack",
                                  PackName(pack.number) + ", " + Number(pack.chunks) + " chunks, " +
                                      Number(pack.size) + " bytes"}));
    at += kMediaCommitPackSize;
  }
  for (const MediaFile& file : commit.files) {
    const uint64_t size = kMediaCommitFileSize + file.path.size();
    SATCHEL_RETURN_IF_ERROR(show({at, size, "file",
                                  file.path + ", " + Number(file.size) + " bytes, SHA-256 " +
                                      Hex(file.digest.data(), file.digest.size())}));
    at += size;
  }
  return show({at, data.size() - at, "checksum", "right"});
}

std::string InWords(const Location& at) {
  const std::string text = "in pack " + Number(at.pack) + " at " + Number(at.offset);
  return at.in_frame() ? text + " slot " + Number(at.slot) : text;
}

std::string InWords(const BlockEntry& entry) {
  static constexpr const char* kStates[] = {"absent", "zero", "packed", "dirty"};
  const std::string text = kStates[static_cast<size_t>(entry.state)];
  return entry.state == BlockState::kPacked ? text + " " + InWords(entry.at) : text;
}

// Runs of blocks without a place of their own are one part.
Status DumpMap(const std::string& path, const Show& show) {
  std::unique_ptr<BlockMap> map;
  SATCHEL_RETURN_IF_ERROR(BlockMap::OpenShared(path, &map));
  SATCHEL_RETURN_IF_ERROR(show({0, kBlockMapHeaderSize, "header",
                                "map of " + Number(map->blocks()) + " blocks, " +
                                    Number(map->CountForesight().touched) + " of them touched"}));
  for (uint64_t i = 0; i < map->blocks();) {
    const BlockEntry entry = map->Load(i);
    uint64_t end = i + 1;
    while (entry.state != BlockState::kPacked && end < map->blocks() &&
           map->Load(end).state == entry.state) {
      ++end;
    }
    SATCHEL_RETURN_IF_ERROR(
        show({kBlockMapHeaderSize + i * 8, (end - i) * 8, "entry",
              "block " + Number(i) + " to " + Number(end - 1) + " " + InWords(entry)}));
    i = end;
  }
  return {};
}

Status DumpPage(const std::string& block, const Show& show) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(block.data());
  const auto level = static_cast<uint8_t>(block[5]);
  Page page;
  SATCHEL_RETURN_IF_ERROR(DecodePage(kZeroRef, bytes, level, &page));
  SATCHEL_RETURN_IF_ERROR(
      show({0, kPageHeaderSize, "header", "table page of level " + Number(level)}));
  for (uint32_t i = 0; i < kPageFanout; ++i) {
    const ChunkRef& ref = page.refs[i];
    SATCHEL_RETURN_IF_ERROR(show({kPageHeaderSize + uint64_t{i} * kChunkRefSize, kChunkRefSize,
                                  "entry", ref.IsZero() ? "zero" : ref.IdHex()}));
  }
  return {};
}

}  // namespace

Status DumpFile(Env* env, const std::string& path, const Show& show) {
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(env->Open(path, OpenMode::kRead, &file));
  uint64_t size = 0;
  SATCHEL_RETURN_IF_ERROR(file->Size(&size));
  std::string head(kBlockSize, '\0');
  size_t got = 0;
  SATCHEL_RETURN_IF_ERROR(file->ReadAt(0, head.size(), head.data(), &got));
  uint32_t magic = 0;
  std::memcpy(&magic, head.data(), sizeof magic);
  const auto begins = [&](const char* with, size_t n) {
    return got >= n && std::memcmp(head.data(), with, n) == 0;
  };
  if (begins(kPackMagic, sizeof kPackMagic)) return DumpPack(file.get(), size, show);
  if (begins(kMediaIndexMagic, sizeof kMediaIndexMagic)) return DumpIndex(env, path, show);
  if (begins(kMediaCommitMagic, sizeof kMediaCommitMagic)) return DumpCommit(env, path, show);
  if (begins(kBlockMapMagic, sizeof kBlockMapMagic)) return DumpMap(path, show);
  if (magic == kPageMagic && size == kBlockSize && got == kBlockSize) return DumpPage(head, show);
  if (magic == kRecordMagic || magic == kFrameMagic) return DumpRecords(file.get(), 0, size, show);
  return Status::Make(Kind::kUsage, "cannot show " + path, "it is no file of the chunk store");
}

Status DumpIndexCopy(Env* env, const std::string& path, const Show& show) {
  std::unique_ptr<Index> index;
  SATCHEL_RETURN_IF_ERROR(Index::Open(env, path, &index));
  PackPosition end;
  bool complete = false;
  SATCHEL_RETURN_IF_ERROR(index->End(&end, &complete));
  const std::string where = "packs end in pack " + Number(end.pack) + " at " + Number(end.offset);
  SATCHEL_RETURN_IF_ERROR(show({0, 0, "end", complete ? where : "it is being rebuilt"}));
  return index->ForEach([&](const ChunkRef& ref, const Location& at) {
    return show({at.offset, at.size(), "entry", ref.IdHex() + " " + InWords(at)});
  });
}

}  // namespace satchel
