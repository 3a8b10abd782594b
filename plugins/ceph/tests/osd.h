//! What an OSD does with a code, without the OSD: write, read sub-chunks, decode.
//!
//! Place: between the plugin and its tests. Objects are stripes of one unit a chunk, one after the
//! other; helpers answer with the runs that they were asked for, packed, stripe after stripe; and
//! the replies of all helpers are cut by what was asked of the first of them, as Ceph does it.

#ifndef SUTURE_CEPH_TESTS_OSD_H
#define SUTURE_CEPH_TESTS_OSD_H

#include "../src/abi_16_2.h"

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace osd {

using Bytes = std::vector<std::uint8_t>;
using Plan = std::map<int, ceph::SubChunkRuns>;

// Ends the program with the texts when something that was to be so is not.
template <typename... Texts>
void expect(bool so, const Texts &...texts) {
    if (!so) {
        (std::cerr << "FAILED: " << ... << texts) << std::endl;
        std::exit(1);
    }
}

// The same bytes each time, from a seed.
Bytes random_bytes(std::size_t count, std::uint64_t seed);

// A list of pieces of odd lengths at odd addresses, as the network leaves them; some `piece` long.
ceph::bufferlist fragmented(const Bytes &bytes, std::size_t piece);
Bytes bytes_of(const ceph::bufferlist &list);

class Osd {
public:
    Osd(ceph::ErasureCodeInterface &code, unsigned unit) : code_(code), unit_(unit) {}

    // The chunks of an object, all its stripes.
    std::map<int, Bytes> write(const Bytes &object) const;

    // What to read to have those chunks.
    Plan plan(const std::set<int> &want, const std::set<int> &available) const;

    // A helper's reply.
    Bytes read(const Bytes &chunk, const ceph::SubChunkRuns &runs) const;

    // The wanted chunks from the replies, after both of the questions that Ceph asks again.
    std::map<int, Bytes> decode(const std::set<int> &want,
                                const std::map<int, Bytes> &replies) const;

    // A degraded read of the whole object.
    Bytes decode_object(const std::map<int, Bytes> &chunks) const;

private:
    ceph::ErasureCodeInterface &code_;
    unsigned unit_;
};

template <typename Value>
std::set<int> keys(const std::map<int, Value> &map) {
    std::set<int> keys;
    for (const auto &entry : map) {
        keys.insert(entry.first);
    }
    return keys;
}

}  // namespace osd

#endif
