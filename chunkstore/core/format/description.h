// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The small JSON file that makes a folder a store or a medium: {"format": ..., "version": ...}.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_DESCRIPTION_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_DESCRIPTION_H_

#include <string>

#include "chunkstore/core/os/env.h"

namespace satchel {

// One line of JSON. `extra` is empty, or more members: ', "uuid": "..."'.
std::string MakeDescription(const std::string& format, int version, const std::string& extra);

// The file at `path` describes this format in this version: else kNotFound, kDamaged, or, for
// another version, kUnsupported. Errors speak of `subject` ("store /srv/store").
Status CheckDescription(Env* env, const std::string& path, const std::string& format, int version,
                        const std::string& subject);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_DESCRIPTION_H_
