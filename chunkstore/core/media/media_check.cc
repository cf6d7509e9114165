// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading all of a medium to see whether it is what it says.
#include <algorithm>
#include <utility>

#include "chunkstore/core/media/fat_order.h"
#include "chunkstore/core/media/media.h"
#include "chunkstore/core/packs/pack_scan.h"

namespace satchel {

// Reads packs one after the other, as a medium likes it, and remembers what is whole in them.
class Media::Checker {
 public:
  Checker(Media* media, const ProgressFn& progress, MediaReport* report)
      : media_(media), progress_(progress), report_(report) {}

  Status Run(const std::vector<uint32_t>& packs) {
    for (const uint32_t pack : packs) {
      std::unique_ptr<File> file;
      uint64_t size = 0;
      if (Open(pack, &file).ok() && file->Size(&size).ok()) total_ += size;
    }
    for (const uint32_t pack : packs) SATCHEL_RETURN_IF_ERROR(Read(pack));
    if (progress_) (void)progress_(total_, total_);
    return {};
  }

  // Whole records of each pack that could be read.
  const std::map<uint32_t, std::vector<MediaIndexEntry>>& whole() const { return whole_; }
  uint64_t size(uint32_t pack) const { return sizes_.at(pack); }

 private:
  Status Open(uint32_t pack, std::unique_ptr<File>* file) {
    return media_->env_->Open(media_->PathOf(pack, ".pack"), OpenMode::kRead, file);
  }

  // What cannot be read for itself is a bad place; a medium that is gone ends it.
  Status Read(uint32_t pack) {
    std::unique_ptr<File> file;
    uint64_t size = 0;
    Status status = Open(pack, &file);
    if (status.Is(Kind::kDamaged)) {
      Bad(pack, 0, status.why());
      return {};
    }
    if (status.ok()) status = file->Size(&size);
    if (status.ok()) status = CheckPackHeader(file.get());
    if (status.Is(Kind::kDamaged)) status = Status(), Bad(pack, 0, "its header is damaged");
    if (status.ok()) {
      whole_[pack];
      sizes_[pack] = size;
      status = Scan(pack, file.get(), size);
    }
    if (status.ok() || status.Is(Kind::kCancelled)) return status;
    SATCHEL_RETURN_IF_ERROR(media_->Excuse(status));
    Bad(pack, 0, status.ToString());
    return {};
  }

  Status Scan(uint32_t pack, File* file, uint64_t size) {
    ScanVisitor visitor;
    visitor.on_record = [&](uint64_t offset, const RecordView& record, bool) {
      uint8_t block[kBlockSize];
      done_ += record.size();
      if (const Status status = VerifyRecord(record, block); !status.ok()) {
        Bad(pack, offset, status.why());
      } else if (offset <= UINT32_MAX) {
        ++report_->records;
        whole_[pack].push_back({record.ref, static_cast<uint32_t>(offset), record.length});
      }
      if (!progress_ || done_ - reported_ < kReportEvery) return Status();
      reported_ = done_;
      return progress_(done_, std::max(done_, total_))
                 ? Status()
                 : Status::Make(Kind::kCancelled, "it was stopped");
    };
    visitor.on_frame = [&](uint64_t offset, const FrameView&) {
      Bad(pack, offset, "it is a frame, and media have none");
      return Status();
    };
    visitor.on_garbage = [&](uint64_t begin, uint64_t end, const std::string& why) {
      Bad(pack, begin, std::to_string(end - begin) + " bytes are no record: " + why);
      return Status();
    };
    report_->bytes += size;
    return ScanPack(file, kPackHeaderSize, size, visitor);
  }

  void Bad(uint32_t pack, uint64_t offset, std::string why) {
    report_->bad.push_back({pack, offset, std::move(why)});
  }

  static constexpr uint64_t kReportEvery = 1 << 20;

  Media* const media_;
  const ProgressFn& progress_;
  MediaReport* const report_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
  uint64_t reported_ = 0;
  std::map<uint32_t, std::vector<MediaIndexEntry>> whole_;
  std::map<uint32_t, uint64_t> sizes_;
};

Status Media::Verify(const ProgressFn& progress, MediaReport* report) {
  const MutexLock writer(&write_mutex_);
  std::set<uint32_t> numbers = Named();
  for (const auto& [pack, info] : packs()) numbers.insert(pack);
  Checker checker(this, progress, report);
  SATCHEL_RETURN_IF_ERROR(checker.Run({numbers.begin(), numbers.end()}));
  const MutexLock lock(&mutex_);
  const RefMap<Location> named = std::move(places_);
  places_ = RefMap<Location>();
  packs_.clear();
  for (const auto& [pack, entries] : checker.whole()) {
    AddEntries(pack, checker.size(pack), entries);
  }
  for (const auto& entry : named.entries()) {
    if (places_.Find(entry.ref) == nullptr) report->damaged.push_back(entry.ref);
  }
  return {};
}

Status Media::RebuildIndexes(const ProgressFn& progress, MediaReport* report) {
  const MutexLock writer(&write_mutex_);
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(AllowAbsent(env_->List(PacksPath(), &names)));
  std::vector<uint32_t> numbers;
  for (const std::string& name : names) {
    uint32_t pack = 0;
    if (ParsePackName(name, &pack)) numbers.push_back(pack);
  }
  Checker checker(this, progress, report);
  SATCHEL_RETURN_IF_ERROR(checker.Run(numbers));
  for (const auto& [pack, whole] : checker.whole()) {
    std::vector<MediaIndexEntry> entries = whole;
    const std::string path = PathOf(pack, ".idx");
    const std::string wanted = EncodeMediaIndex(&entries, checker.size(pack));
    std::string found;
    const Status read = ReadFile(env_, path, kMediaIndexLimit, &found);
    if (read.ok() && found == wanted) continue;
    if (entries.empty() && read.Is(Kind::kNotFound)) continue;
    Removal removal(env_);
    SATCHEL_RETURN_IF_ERROR(Judge(removal.Add(path)));
    SATCHEL_RETURN_IF_ERROR(Judge(removal.Sync()));
    SATCHEL_RETURN_IF_ERROR(Judge(WriteNew(env_, path, wanted)));
  }
  {
    const MutexLock lock(&mutex_);
    places_.Clear();
    packs_.clear();
  }
  return Judge(Load());
}

}  // namespace satchel
