// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// nbdkit's header wants these two definitions before it, the same in every file.
#ifndef SATCHEL_VOLUMES_PLUGIN_NBDKIT_API_H_
#define SATCHEL_VOLUMES_PLUGIN_NBDKIT_API_H_

#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#include <nbdkit-plugin.h>

#endif  // SATCHEL_VOLUMES_PLUGIN_NBDKIT_API_H_
