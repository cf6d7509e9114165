// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/index/index_env.h"

#include <leveldb/env.h>

#include <string>
#include <utility>
#include <vector>

namespace satchel {
namespace {

leveldb::Status ToLevelDb(const Status& status) {
  if (status.ok()) return leveldb::Status::OK();
  if (status.Is(Kind::kNotFound)) return leveldb::Status::NotFound(status.what(), status.why());
  const std::string mark = status.Is(Kind::kFull)     ? kNoRoomMark
                           : status.Is(Kind::kDenied) ? kDeniedMark
                                                      : "";
  return leveldb::Status::IOError(mark + status.what(), status.why());
}

leveldb::Status ReadSome(File* file, uint64_t offset, size_t n, leveldb::Slice* result,
                         char* scratch) {
  size_t got = 0;
  const Status status = file->ReadAt(offset, n, scratch, &got);
  *result = leveldb::Slice(scratch, status.ok() ? got : 0);
  return ToLevelDb(status);
}

class InOrder final : public leveldb::SequentialFile {
 public:
  explicit InOrder(std::unique_ptr<File> file) : file_(std::move(file)) {}

  leveldb::Status Read(size_t n, leveldb::Slice* result, char* scratch) override {
    const leveldb::Status status = ReadSome(file_.get(), at_, n, result, scratch);
    at_ += result->size();
    return status;
  }

  leveldb::Status Skip(uint64_t n) override {
    at_ += n;
    return leveldb::Status::OK();
  }

 private:
  const std::unique_ptr<File> file_;
  uint64_t at_ = 0;
};

class Anywhere final : public leveldb::RandomAccessFile {
 public:
  explicit Anywhere(std::unique_ptr<File> file) : file_(std::move(file)) {}

  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    return ReadSome(file_.get(), offset, n, result, scratch);
  }

 private:
  const std::unique_ptr<File> file_;
};

// What could not be written or synced is never tried again: the file has failed for good. A second
// sync after a failed one could succeed without what the first one lost.
class WritableIndexFile final : public leveldb::WritableFile {
 public:
  WritableIndexFile(Env* env, std::string folder, std::unique_ptr<File> file)
      : env_(env), folder_(std::move(folder)), file_(std::move(file)) {}

  ~WritableIndexFile() override { (void)WriteOut(); }

  leveldb::Status Append(const leveldb::Slice& data) override {
    buffer_.append(data.data(), data.size());
    return buffer_.size() < kBufferSize ? leveldb::Status::OK() : ToLevelDb(WriteOut());
  }

  // LevelDB flushes after each block of a table and each record of a log, and reads none of it
  // before Sync or Close.
  leveldb::Status Flush() override { return leveldb::Status::OK(); }

  leveldb::Status Sync() override {
    return ToLevelDb(Try([this] { return MakeDurable(); }));
  }

  leveldb::Status Close() override {
    const Status status = WriteOut();
    file_.reset();
    return ToLevelDb(status);
  }

 private:
  static constexpr size_t kBufferSize = 1 << 16;

  template <typename Act>
  Status Try(const Act& act) {
    if (failed_.ok()) failed_ = act();
    return failed_;
  }

  Status WriteOut() {
    return Try([this]() -> Status {
      if (buffer_.empty() || file_ == nullptr) return {};
      SATCHEL_RETURN_IF_ERROR(file_->WriteAt(size_, buffer_.data(), buffer_.size()));
      size_ += buffer_.size();
      buffer_.clear();
      return {};
    });
  }

  Status MakeDurable() {
    SATCHEL_RETURN_IF_ERROR(WriteOut());
    SATCHEL_RETURN_IF_ERROR(file_->Sync());
    if (!named_) SATCHEL_RETURN_IF_ERROR(env_->SyncDir(folder_));
    named_ = true;
    return {};
  }

  Env* const env_;
  const std::string folder_;
  std::unique_ptr<File> file_;
  std::string buffer_;
  uint64_t size_ = 0;
  bool named_ = false;  // the file's name is durable
  Status failed_;
};

class FileLocked final : public leveldb::FileLock {
 public:
  std::unique_ptr<satchel::FileLock> lock;
};

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Threads, time and sleeping stay LevelDB's own.
class IndexEnv final : public leveldb::EnvWrapper {
 public:
  explicit IndexEnv(satchel::Env* env) : EnvWrapper(leveldb::Env::Default()), env_(env) {}

  leveldb::Status NewSequentialFile(const std::string& name,
                                    leveldb::SequentialFile** file) override {
    *file = nullptr;
    std::unique_ptr<File> opened;
    const Status status = env_->Open(name, OpenMode::kRead, &opened);
    if (status.ok()) *file = new InOrder(std::move(opened));
    return ToLevelDb(status);
  }

  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** file) override {
    *file = nullptr;
    std::unique_ptr<File> opened;
    const Status status = env_->Open(name, OpenMode::kRead, &opened);
    if (status.ok()) *file = new Anywhere(std::move(opened));
    return ToLevelDb(status);
  }

  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override {
    *file = nullptr;
    std::unique_ptr<File> opened;
    Status status;
    if (env_->Exists(name)) status = env_->Remove(name);
    if (status.ok()) status = env_->Open(name, OpenMode::kCreate, &opened);
    if (status.ok()) *file = new WritableIndexFile(env_, FolderOf(name), std::move(opened));
    return ToLevelDb(status);
  }

  leveldb::Status NewAppendableFile(const std::string& name, leveldb::WritableFile**) override {
    return leveldb::Status::NotSupported(name, "files of the index are written once");
  }

  bool FileExists(const std::string& name) override { return env_->Exists(name); }

  leveldb::Status GetChildren(const std::string& folder, std::vector<std::string>* names) override {
    return ToLevelDb(env_->List(folder, names));
  }

  leveldb::Status RemoveFile(const std::string& name) override {
    return ToLevelDb(env_->Remove(name));
  }

  // LevelDB does not look at the answer: whoever opens the index has made its folder.
  leveldb::Status CreateDir(const std::string&) override { return leveldb::Status::OK(); }

  // LevelDB removes a folder only after the database in it, and does not mind if that fails.
  leveldb::Status RemoveDir(const std::string& folder) override {
    return leveldb::Status::NotSupported(folder, "the folder of the index stays");
  }

  leveldb::Status GetFileSize(const std::string& name, uint64_t* size) override {
    std::unique_ptr<File> file;
    Status status = env_->Open(name, OpenMode::kRead, &file);
    if (status.ok()) status = file->Size(size);
    return ToLevelDb(status);
  }

  leveldb::Status RenameFile(const std::string& from, const std::string& to) override {
    Status status = env_->Rename(from, to);
    if (status.ok()) status = env_->SyncDir(FolderOf(to));
    return ToLevelDb(status);
  }

  leveldb::Status LockFile(const std::string& name, leveldb::FileLock** lock) override {
    *lock = nullptr;
    auto held = std::make_unique<FileLocked>();
    const Status status = env_->Lock(name, &held->lock);
    if (status.ok()) *lock = held.release();
    return ToLevelDb(status);
  }

  leveldb::Status UnlockFile(leveldb::FileLock* lock) override {
    delete lock;
    return leveldb::Status::OK();
  }

  leveldb::Status NewLogger(const std::string& name, leveldb::Logger** logger) override {
    *logger = nullptr;
    return leveldb::Status::NotSupported(name, "the index keeps no log of messages");
  }

 private:
  satchel::Env* const env_;
};

}  // namespace

std::unique_ptr<leveldb::Env> NewIndexEnv(Env* env) { return std::make_unique<IndexEnv>(env); }

}  // namespace satchel
