//! A registry of plugins in place of Ceph's, for programs that load plugins without a cluster.
//!
//! Place: around the plugin in tests. It does what Ceph's does: loads `libec_NAME.so` from a
//! folder, refuses another version, has it add itself, and refuses a code that hides what it made
//! of its profile.

#ifndef SUTURE_CEPH_TESTS_REGISTRY_H
#define SUTURE_CEPH_TESTS_REGISTRY_H

#include "../src/abi_16_2.h"

#include <string>

namespace registry {

// A code of the plugin in that folder; ends the program with a text when there is none.
ceph::ErasureCodeInterfaceRef make(const std::string &plugin, const std::string &folder,
                                   ceph::ErasureCodeProfile profile);

// The same, giving back the errno and what was said.
int try_make(const std::string &plugin, const std::string &folder,
             ceph::ErasureCodeProfile &profile, ceph::ErasureCodeInterfaceRef *code,
             std::string *said);

// What dlopen gave for a plugin that has been loaded.
void *library(const std::string &plugin);

// Adds a plugin that is part of the program.
void add(const std::string &name, ceph::ErasureCodePlugin *plugin);

}  // namespace registry

#endif
