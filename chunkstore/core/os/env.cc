// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/os/env.h"

namespace satchel {
namespace {

Status WriteTemporary(Env* env, const std::string& path, const std::string& data) {
  if (env->Exists(path)) SATCHEL_RETURN_IF_ERROR(env->Remove(path));
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(env->Open(path, OpenMode::kCreate, &file));
  SATCHEL_RETURN_IF_ERROR(file->WriteAt(0, data.data(), data.size()));
  return file->Sync();
}

class SynchronousWriter final : public AsyncWriter {
 public:
  explicit SynchronousWriter(File* file) : file_(file) {}

  Status Write(uint64_t offset, const void* data, size_t n) override {
    return file_->WriteUncached(offset, data, n);
  }
  Status Wait() override { return {}; }

 private:
  File* const file_;
};

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Status File::ReadPieces(uint64_t offset, const Piece* pieces, size_t n, size_t* got) {
  *got = 0;
  for (size_t i = 0; i < n; ++i) {
    size_t some = 0;
    SATCHEL_RETURN_IF_ERROR(ReadAt(offset + *got, pieces[i].size, pieces[i].data, &some));
    *got += some;
    if (some < pieces[i].size) break;
  }
  return {};
}

std::unique_ptr<AsyncWriter> File::MakeAsyncWriter() {
  return std::make_unique<SynchronousWriter>(this);
}

Status ReadFile(Env* env, const std::string& path, size_t limit, std::string* out) {
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(env->Open(path, OpenMode::kRead, &file));
  uint64_t size = 0;
  SATCHEL_RETURN_IF_ERROR(file->Size(&size));
  if (size > limit) return Status::Make(Kind::kDamaged, "cannot read " + path, "it is too large");
  out->resize(size);
  size_t got = 0;
  SATCHEL_RETURN_IF_ERROR(file->ReadAt(0, size, out->data(), &got));
  out->resize(got);
  return {};
}

Status WriteFileDurably(Env* env, const std::string& path, const std::string& data) {
  const std::string temporary = path + ".tmp";
  Status status = WriteTemporary(env, temporary, data);
  if (status.ok()) status = env->Rename(temporary, path);
  if (!status.ok()) {
    if (env->Exists(temporary)) (void)env->Remove(temporary);
    return status;
  }
  return env->SyncDir(FolderOf(path));
}

}  // namespace satchel
