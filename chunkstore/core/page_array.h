// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A large array in pages of its own. It grows by mremap, which moves no bytes, and what it gives up
// goes back to the system at once. Memory of the C library does neither for sure: what lies below
// its threshold, which rises to 32 MB with what is freed, is copied as it grows, and stays with the
// process afterwards. Pages that were never written cost nothing.
#ifndef SATCHEL_CHUNKSTORE_CORE_PAGE_ARRAY_H_
#define SATCHEL_CHUNKSTORE_CORE_PAGE_ARRAY_H_

#include <sys/mman.h>

#include <cstddef>
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
    constexpr int kProtection = PROT_READ | PROT_WRITE;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* const memory = data_ == nullptr
                             ? mmap(nullptr, size * sizeof(T), kProtection, kFlags, -1, 0)
                             : mremap(data_, size_ * sizeof(T), size * sizeof(T), MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(memory);
    size_ = size;
  }

 private:
  void Free() {
    if (data_ != nullptr) (void)munmap(data_, size_ * sizeof(T));
    data_ = nullptr;
    size_ = 0;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_PAGE_ARRAY_H_
