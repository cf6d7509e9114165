// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading folders. A listing is asked for when it is read from its beginning; after that nothing
// of it needs Python.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shares/fuse/session.h"

namespace satchel {
namespace {

void OpenFolder(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  OpenFolders* const folders = &Session::Of(request)->folders();
  info->fh = folders->Add();
  if (info->fh == 0) {
    fuse_reply_err(request, ENFILE);
  } else if (fuse_reply_open(request, info) == -ENOENT) {
    folders->Remove(info->fh);
  }
}

// "." and ".." come first. The kernel takes no attributes of them.
Item Dots(fuse_ino_t folder, const char* name) {
  Item item = {name, {}};
  item.entry.attr.st_ino = folder;
  item.entry.attr.st_mode = S_IFDIR;
  return item;
}

int List(Session* session, fuse_ino_t folder, std::vector<Item>* items) {
  items->push_back(Dots(folder, "."));
  items->push_back(Dots(folder, ".."));
  return session->policy().Ask("entries", [&](const py::object& operations) {
    for (const py::handle& entry : operations.attr("entries")(folder)) {
      items->push_back({py::cast<std::string>(entry.attr("name")), EntryOf(entry)});
    }
  });
}

size_t AddItem(fuse_req_t request, char* to, size_t room, const Item& item, off_t next, bool plus) {
  const char* const name = item.name.c_str();
  return plus ? fuse_add_direntry_plus(request, to, room, name, &item.entry, next)
              : fuse_add_direntry(request, to, room, name, &item.entry.attr, next);
}

// The items from `offset` on, as many as have room.
std::string Pack(fuse_req_t request, const std::vector<Item>& items, size_t offset, size_t size,
                 bool plus) {
  std::string out(size, '\0');
  size_t used = 0;
  for (size_t i = offset; i < items.size(); ++i) {
    const off_t next = static_cast<off_t>(i) + 1;
    const size_t needed = AddItem(request, &out[used], size - used, items[i], next, plus);
    if (needed > size - used) break;
    used += needed;
  }
  out.resize(used);
  return out;
}

void ReadEntries(fuse_req_t request, fuse_ino_t folder, size_t size, off_t offset,
                 fuse_file_info* info, bool plus) {
  Session* const session = Session::Of(request);
  const std::shared_ptr<Listing> listing = session->folders().Find(info->fh);
  if (listing == nullptr || offset < 0) {
    fuse_reply_err(request, listing == nullptr ? ENFILE : EINVAL);
    return;
  }
  bool read;
  {
    const MutexLock lock(&listing->mutex);
    read = listing->read && offset > 0;
  }
  std::vector<Item> items;
  const int error = read ? 0 : List(session, folder, &items);
  if (error != 0) {
    fuse_reply_err(request, error);
    return;
  }
  std::string packed;
  {
    const MutexLock lock(&listing->mutex);
    if (!read) listing->items = std::move(items);
    listing->read = true;
    packed = Pack(request, listing->items, static_cast<size_t>(offset), size, plus);
  }
  fuse_reply_buf(request, packed.data(), packed.size());
}

void ReadFolder(fuse_req_t request, fuse_ino_t folder, size_t size, off_t offset,
                fuse_file_info* info) {
  ReadEntries(request, folder, size, offset, info, false);
}

void ReadFolderPlus(fuse_req_t request, fuse_ino_t folder, size_t size, off_t offset,
                    fuse_file_info* info) {
  ReadEntries(request, folder, size, offset, info, true);
}

void ReleaseFolder(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  Session::Of(request)->folders().Remove(info->fh);
  fuse_reply_err(request, 0);
}

// Changes of names are home's before they are answered, but not durable.
void SyncFolder(fuse_req_t request, fuse_ino_t folder, int, fuse_file_info*) {
  const int error = Session::Of(request)->policy().Ask(
      "sync_folder", [&](const py::object& operations) { operations.attr("sync_folder")(folder); });
  fuse_reply_err(request, error);
}

}  // namespace

void AddFolderCalls(fuse_lowlevel_ops* calls) {
  calls->opendir = &OpenFolder;
  calls->readdir = &ReadFolder;
  calls->readdirplus = &ReadFolderPlus;
  calls->releasedir = &ReleaseFolder;
  calls->fsyncdir = &SyncFolder;
}

}  // namespace satchel
