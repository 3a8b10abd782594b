//! A registry of plugins in place of Ceph's; see `registry.h`.

#include "registry.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <sstream>

namespace ceph {

namespace {

std::map<std::string, ErasureCodePlugin *> &plugins() {
    static std::map<std::string, ErasureCodePlugin *> known;
    return known;
}

int load(const std::string &plugin, const std::string &directory, std::ostream *ss) {
    const std::string file = directory + "/libec_" + plugin + ".so";
    void *library = dlopen(file.c_str(), RTLD_NOW);
    if (!library) {
        *ss << dlerror();
        return -EIO;
    }
    using Version = const char *();
    using Init = int(char *, char *);
    auto *version = reinterpret_cast<Version *>(dlsym(library, "__erasure_code_version"));
    auto *init = reinterpret_cast<Init *>(dlsym(library, "__erasure_code_init"));
    if (!version || !init) {
        *ss << file << " is not a plugin";
        return -ENOENT;
    }
    if (std::string(version()) != SUTURE_CEPH_VERSION) {
        *ss << file << " is for version " << version() << ", not " << SUTURE_CEPH_VERSION;
        return -EXDEV;
    }
    std::string name = plugin, folder = directory;
    if (const int error = init(name.data(), folder.data())) {
        *ss << file << " does not begin: " << error;
        return error;
    }
    if (plugins().count(plugin) == 0) {
        *ss << file << " did not add itself";
        return -EBADF;
    }
    plugins()[plugin]->library = library;
    return 0;
}

}  // namespace

ErasureCodePluginRegistry ErasureCodePluginRegistry::singleton;

int ErasureCodePluginRegistry::add(const std::string &name, ErasureCodePlugin *plugin) {
    return plugins().emplace(name, plugin).second ? 0 : -EEXIST;
}

int ErasureCodePluginRegistry::factory(const std::string &plugin, const std::string &directory,
                                       ErasureCodeProfile &profile,
                                       ErasureCodeInterfaceRef *erasure_code, std::ostream *ss) {
    if (plugins().count(plugin) == 0) {
        if (const int error = load(plugin, directory, ss)) {
            return error;
        }
    }
    if (const int error = plugins()[plugin]->factory(directory, profile, erasure_code, ss)) {
        return error;
    }
    if (profile != (*erasure_code)->get_profile()) {
        *ss << "the profile is not that of the code";
        return -EINVAL;
    }
    return 0;
}

}  // namespace ceph

namespace registry {

int try_make(const std::string &plugin, const std::string &folder,
             ceph::ErasureCodeProfile &profile, ceph::ErasureCodeInterfaceRef *code,
             std::string *said) {
    std::ostringstream ss;
    profile["plugin"] = plugin;
    const int error =
        ceph::ErasureCodePluginRegistry::singleton.factory(plugin, folder, profile, code, &ss);
    *said = ss.str();
    return error;
}

ceph::ErasureCodeInterfaceRef make(const std::string &plugin, const std::string &folder,
                                   ceph::ErasureCodeProfile profile) {
    ceph::ErasureCodeInterfaceRef code;
    std::string said;
    if (const int error = try_make(plugin, folder, profile, &code, &said)) {
        std::cerr << plugin << ": " << said << " (" << error << ")" << std::endl;
        std::exit(1);
    }
    return code;
}

void *library(const std::string &plugin) { return ceph::plugins()[plugin]->library; }

void add(const std::string &name, ceph::ErasureCodePlugin *plugin) {
    ceph::ErasureCodePluginRegistry::singleton.add(name, plugin);
}

}  // namespace registry
