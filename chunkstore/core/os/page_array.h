// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A large array in pages of its own. It grows by mremap, which moves no bytes, and what it gives up
// goes back to the system at once. Memory of the C library does neither for sure: what lies below
// its threshold, which rises to 32 MB with what is freed, is copied as it grows, and stays with the
// process afterwards. Pages that were never written cost nothing. A few pages are of the C library
// all the same: calls to the system and faults cost more than they.
#ifndef SATCHEL_CHUNKSTORE_CORE_OS_PAGE_ARRAY_H_
#define SATCHEL_CHUNKSTORE_CORE_OS_PAGE_ARRAY_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace satchel {

// Of plain values. Not thread-safe.
template <typename T>
class PageArray {
  static_assert(std::is_trivially_copyable_v<T>, "it is moved by the kernel and begins as zeros");

 public:
  PageArray() = default;
  explicit PageArray(size_t size) { Resize(size); }
  ~PageArray() { Free(); }
  PageArray(PageArray&& other) noexcept { *this = std::move(other); }
  PageArray& operator=(PageArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }

  // Elements up to the smaller size stay. Of an array that only ever grew, new ones are zero.
  // std::bad_alloc leaves it as it was.
  void Resize(size_t size) {
    if (size == 0) return Free();
    void* memory = nullptr;
    if (IsMapped(size_) && IsMapped(size)) {
      memory = mremap(data_, size_ * sizeof(T), size * sizeof(T), MREMAP_MAYMOVE);
      if (memory == MAP_FAILED) throw std::bad_alloc();
    } else {
      memory = Allocate(size);
      if (size_ > 0) std::memcpy(memory, data_, std::min(size_, size) * sizeof(T));
      Free();
    }
    data_ = static_cast<T*>(memory);
    size_ = size;
  }

 private:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kFewBytes = 8 * kPage;

  static bool IsMapped(size_t size) { return size * sizeof(T) > kFewBytes; }

  // Zeros, from the beginning of a page on.
  static void* Allocate(size_t size) {
    const size_t bytes = size * sizeof(T);
    if (!IsMapped(size)) {
      void* const memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
      if (memory == nullptr) throw std::bad_alloc();
      return std::memset(memory, 0, bytes);
    }
    constexpr int kProtection = PROT_READ | PROT_WRITE;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* const memory = mmap(nullptr, bytes, kProtection, kFlags, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
  }

  void Free() {
    if (IsMapped(size_)) {
      (void)munmap(data_, size_ * sizeof(T));
    } else {
      std::free(data_);
    }
    data_ = nullptr;
    size_ = 0;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_OS_PAGE_ARRAY_H_
