//! Where Ceph comes in: the two functions that its registry looks for in `libec_butterfly.so`.
//!
//! Place: monitors load a plugin when a profile or pool names it, OSDs when they have such a pool.
//! Ceph refuses a plugin that does not name its own version to the letter, so the build takes the
//! version from the Ceph that it is for.

#include "butterfly.h"

#include <cerrno>
#include <iostream>

namespace {

class Plugin final : public ceph::ErasureCodePlugin {
public:
    int factory(const std::string &directory, ceph::ErasureCodeProfile &profile,
                ceph::ErasureCodeInterfaceRef *erasure_code, std::ostream *ss) override {
        auto code = std::make_shared<suture::Butterfly>(directory);
        const int error = code->init(profile, ss);
        if (!error) {
            *erasure_code = code;
        }
        return error;
    }
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const char *__erasure_code_version() { return SUTURE_CEPH_VERSION; }

EXPORTED int __erasure_code_init(char *name, char *) {
    if (suture_abi_version() != SUTURE_ABI_VERSION) {
        std::cerr << "libec_butterfly: libsuture_ffi has version " << suture_abi_version()
                  << " of its interface, not " << SUTURE_ABI_VERSION << std::endl;
        return -EXDEV;
    }
    // Said at the start, not in the first recovery.
    suture::reads_whole_chunks();
    auto plugin = std::make_unique<Plugin>();
    const int error = ceph::ErasureCodePluginRegistry::singleton.add(name, plugin.get());
    if (!error) {
        // The registry owns it now, and destroys it when the process ends.
        plugin.release();
    }
    return error;
}
