//! What Ceph 16.2 and an erasure-code plugin know of each other.
//!
//! Place: the outermost edge of the plugin. Ceph ships no header for plugins, so this is one: the
//! order of virtual functions, which is all that two binaries have to agree on. It holds for the
//! series 16.2 and for no other; a plugin is made for one version and says which (`plugin.cc`).
//!
//! Invariant: nothing is added, left out or moved. What Ceph calls is in the comments.

#ifndef SUTURE_CEPH_ABI_16_2_H
#define SUTURE_CEPH_ABI_16_2_H

#include <rados/buffer.h>

#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Of the map of devices only the address passes through here.
class CrushWrapper;

namespace ceph {

using ErasureCodeProfile = std::map<std::string, std::string>;

// Runs of neighbouring sub-chunks: first, count.
using SubChunkRuns = std::vector<std::pair<int, int>>;

// One erasure code with its parameters. Functions return 0 or a negative errno.
class ErasureCodeInterface {
public:
    virtual ~ErasureCodeInterface() = default;

    virtual int init(ErasureCodeProfile &profile, std::ostream *ss) = 0;
    virtual const ErasureCodeProfile &get_profile() const = 0;
    virtual int create_rule(const std::string &name, CrushWrapper &crush,
                            std::ostream *ss) const = 0;
    virtual unsigned int get_chunk_count() const = 0;
    virtual unsigned int get_data_chunk_count() const = 0;
    virtual unsigned int get_coding_chunk_count() const = 0;
    virtual int get_sub_chunk_count() = 0;
    // Bytes of each chunk of an object of that many bytes, padding included.
    virtual unsigned int get_chunk_size(unsigned int object_size) const = 0;
    // What to read of whom. An OSD asks when it plans a recovery, when replies have come, and when
    // it decodes them, each time with the chunks that it has then.
    virtual int minimum_to_decode(const std::set<int> &want_to_read, const std::set<int> &available,
                                  std::map<int, SubChunkRuns> *minimum) = 0;
    virtual int minimum_to_decode_with_cost(const std::set<int> &want_to_read,
                                            const std::map<int, int> &available,
                                            std::set<int> *minimum) = 0;
    virtual int encode(const std::set<int> &want_to_encode, const bufferlist &in,
                       std::map<int, bufferlist> *encoded) = 0;
    virtual int encode_chunks(const std::set<int> &want_to_encode,
                              std::map<int, bufferlist> *encoded) = 0;
    // With chunks shorter than `chunk_size`, these are the sub-chunks that were asked for, packed.
    virtual int decode(const std::set<int> &want_to_read,
                       const std::map<int, bufferlist> &chunks, std::map<int, bufferlist> *decoded,
                       int chunk_size) = 0;
    virtual int decode_chunks(const std::set<int> &want_to_read,
                              const std::map<int, bufferlist> &chunks,
                              std::map<int, bufferlist> *decoded) = 0;
    virtual const std::vector<int> &get_chunk_mapping() const = 0;
    virtual int decode_concat(const std::map<int, bufferlist> &chunks, bufferlist *decoded) = 0;
};

using ErasureCodeInterfaceRef = std::shared_ptr<ErasureCodeInterface>;

// What a shared object adds to the registry.
class ErasureCodePlugin {
public:
    void *library = nullptr;

    virtual ~ErasureCodePlugin() = default;

    virtual int factory(const std::string &directory, ErasureCodeProfile &profile,
                        ErasureCodeInterfaceRef *erasure_code, std::ostream *ss) = 0;
};

// Lives in the process that loads plugins. It has members, which are no business of ours, so it is
// only ever used through its address.
class ErasureCodePluginRegistry {
public:
    static ErasureCodePluginRegistry singleton;

    int factory(const std::string &plugin, const std::string &directory,
                ErasureCodeProfile &profile, ErasureCodeInterfaceRef *erasure_code,
                std::ostream *ss);
    int add(const std::string &name, ErasureCodePlugin *plugin);

private:
    ErasureCodePluginRegistry() = default;
};

}  // namespace ceph

#endif
