// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SATCHEL_TESTS_NATIVE_FUZZ_REQUIRE_H_
#define SATCHEL_TESTS_NATIVE_FUZZ_REQUIRE_H_

namespace satchel::fuzz {

// What has to hold whatever the bytes are: a fuzzer reports the abort.
inline void Require(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace satchel::fuzz

#endif  // SATCHEL_TESTS_NATIVE_FUZZ_REQUIRE_H_
