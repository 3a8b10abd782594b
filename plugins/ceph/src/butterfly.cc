//! The Butterfly code as Ceph asks for it; see `butterfly.h`.

#include "butterfly.h"

#include "profile.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <sstream>

namespace suture {

namespace {

using ceph::bufferlist;
using ceph::bufferptr;
using Chunks = std::map<int, bufferlist>;

// New buffers begin at a cache line.
constexpr unsigned MEMORY_ALIGNMENT = 64;
// Chunks of the longest stripe: 8 of data and two parities.
constexpr int CHUNKS_MAX = 10;

// A chunk's bytes in one piece. Ceph's lists are shared, not copied, so making one contiguous does
// not touch the caller's.
const std::uint8_t *bytes_of(bufferlist &chunk) {
    return reinterpret_cast<const std::uint8_t *>(chunk.c_str());
}

// An empty chunk list with room for that many bytes.
std::uint8_t *make_room(bufferlist &chunk, unsigned bytes) {
    bufferptr room(ceph::buffer::create_aligned(bytes, MEMORY_ALIGNMENT));
    auto *start = reinterpret_cast<std::uint8_t *>(room.c_str());
    chunk.clear();
    chunk.push_back(std::move(room));
    return start;
}

// The wanted chunks: those that are there, and those that are not.
struct Wanted {
    std::vector<std::uint32_t> present;
    std::vector<std::uint32_t> lost;
};

template <typename Container>
Wanted split(const std::set<int> &want, const Container &available) {
    Wanted wanted;
    for (const int chunk : want) {
        (available.count(chunk) != 0 ? wanted.present : wanted.lost).push_back(chunk);
    }
    return wanted;
}

}  // namespace

bool reads_whole_chunks() {
    static const bool whole = [] {
        const char *value = std::getenv("SUTURE_CEPH_READS");
        const std::string reads = value ? value : "sub-chunks";
        if (reads == "sub-chunks") {
            return false;
        }
        // Whoever means something else by it gets what cannot hurt.
        std::cerr << "libec_butterfly: SUTURE_CEPH_READS=" << reads
                  << (reads == "whole" ? "" : " (known are whole and sub-chunks)")
                  << ": recoveries read whole chunks" << std::endl;
        return true;
    }();
    return whole;
}

int Butterfly::init(ceph::ErasureCodeProfile &profile, std::ostream *ss) {
    std::ostringstream said;
    std::unique_ptr<Code> code = open_profile(&profile, said);
    if (ss && !said.str().empty()) {
        *ss << said.str() << std::endl;
    }
    if (!code) {
        return -EINVAL;
    }
    code_ = std::move(code);
    profile_ = profile;
    return 0;
}

// Rules have nothing to do with the code, but Ceph has each plugin make its own, with functions
// that a monitor does not export. The plugin that every Ceph has makes the same rule for us.
int Butterfly::create_rule(const std::string &name, CrushWrapper &crush, std::ostream *ss) const {
    ceph::ErasureCodeProfile asked = {{"plugin", "jerasure"},
                                      {"technique", "reed_sol_van"},
                                      {"k", std::to_string(get_data_chunk_count())},
                                      {"m", std::to_string(get_coding_chunk_count())}};
    for (const auto &[key, value] : profile_) {
        if (key.rfind("crush-", 0) == 0) {
            asked[key] = value;
        }
    }
    ceph::ErasureCodeInterfaceRef jerasure;
    const int error = ceph::ErasureCodePluginRegistry::singleton.factory(
        "jerasure", directory_, asked, &jerasure, ss);
    return error ? error : jerasure->create_rule(name, crush, ss);
}

unsigned int Butterfly::get_chunk_count() const {
    return get_data_chunk_count() + get_coding_chunk_count();
}

unsigned int Butterfly::get_data_chunk_count() const { return code_->sizes().data_chunks; }

unsigned int Butterfly::get_coding_chunk_count() const { return code_->sizes().parity_chunks; }

int Butterfly::get_sub_chunk_count() { return code_->sizes().sub_chunk_count; }

unsigned int Butterfly::get_chunk_size(unsigned int object_size) const {
    const std::uint64_t step = code_->sizes().data_chunks * code_->sizes().alignment;
    return (object_size + step - 1) / step * code_->sizes().alignment;
}

ceph::SubChunkRuns Butterfly::whole() const {
    return {{0, static_cast<int>(code_->sizes().sub_chunk_count)}};
}

int Butterfly::minimum_to_decode(const std::set<int> &want_to_read, const std::set<int> &available,
                                 std::map<int, ceph::SubChunkRuns> *minimum) {
    const Wanted wanted = split(want_to_read, available);
    std::map<int, ceph::SubChunkRuns> answer;
    if (!wanted.lost.empty()) {
        // What is read anyway comes first.
        std::vector<std::uint32_t> helpers = wanted.present;
        for (const int chunk : available) {
            if (want_to_read.count(chunk) == 0) {
                helpers.push_back(chunk);
            }
        }
        // Beside chunks that are wanted whole, everybody sends as much.
        const std::size_t enough = get_data_chunk_count();
        if ((reads_whole_chunks() || !wanted.present.empty()) && helpers.size() > enough) {
            helpers.resize(enough);
        }
        std::vector<suture_read> reads;
        if (const int error = code_->repair_reads(wanted.lost, helpers, &reads)) {
            return error;
        }
        for (const suture_read &read : reads) {
            answer[read.chunk].emplace_back(read.first, read.count);
        }
    }
    for (const std::uint32_t chunk : wanted.present) {
        answer[chunk] = whole();
    }
    *minimum = std::move(answer);
    return 0;
}

int Butterfly::minimum_to_decode_with_cost(const std::set<int> &want_to_read,
                                           const std::map<int, int> &available,
                                           std::set<int> *minimum) {
    std::vector<std::pair<int, int>> by_cost;
    for (const auto &[chunk, cost] : available) {
        by_cost.emplace_back(want_to_read.count(chunk) != 0 ? -1 : cost, chunk);
    }
    std::sort(by_cost.begin(), by_cost.end());
    // Whole chunks are asked for, so k of them do.
    std::set<int> cheapest;
    for (const auto &[cost, chunk] : by_cost) {
        if (cheapest.size() < get_data_chunk_count() || cost == -1) {
            cheapest.insert(chunk);
        }
    }
    std::map<int, ceph::SubChunkRuns> reads;
    const int error = minimum_to_decode(want_to_read, cheapest, &reads);
    if (!error) {
        minimum->clear();
        for (const auto &[chunk, runs] : reads) {
            minimum->insert(chunk);
        }
    }
    return error;
}

int Butterfly::encode(const std::set<int> &want_to_encode, const bufferlist &in,
                      Chunks *encoded) {
    const int data = get_data_chunk_count(), all = get_chunk_count();
    const unsigned chunk_bytes = get_chunk_size(in.length());
    Chunks chunks;
    for (int chunk = 0; chunk < data; ++chunk) {
        const std::uint64_t start = std::uint64_t{chunk_bytes} * chunk;
        const std::uint64_t left = in.length() > start ? in.length() - start : 0;
        if (left >= chunk_bytes) {
            chunks[chunk].substr_of(in, start, chunk_bytes);
            continue;
        }
        // The object ends here, or has ended: zeros follow.
        std::uint8_t *room = make_room(chunks[chunk], chunk_bytes);
        if (left != 0) {
            in.begin(start).copy(left, reinterpret_cast<char *>(room));
        }
        std::fill(room + left, room + chunk_bytes, 0);
    }
    for (int chunk = data; chunk < all; ++chunk) {
        make_room(chunks[chunk], chunk_bytes);
    }
    if (const int error = encode_chunks(want_to_encode, &chunks)) {
        return error;
    }
    for (auto chunk = chunks.begin(); chunk != chunks.end();) {
        chunk = want_to_encode.count(chunk->first) != 0 ? std::next(chunk) : chunks.erase(chunk);
    }
    // What else is there stays there.
    chunks.merge(*encoded);
    *encoded = std::move(chunks);
    return 0;
}

int Butterfly::encode_chunks(const std::set<int> &, Chunks *encoded) {
    const int data = get_data_chunk_count(), all = get_chunk_count();
    const unsigned chunk_bytes = (*encoded)[0].length();
    if (all > CHUNKS_MAX) {
        return -EINVAL;
    }
    // No vectors: small stripes notice every allocation.
    std::array<const std::uint8_t *, CHUNKS_MAX> from;
    std::array<std::uint8_t *, CHUNKS_MAX> to;
    for (int chunk = 0; chunk < all; ++chunk) {
        bufferlist &bytes = (*encoded)[chunk];
        if (bytes.length() != chunk_bytes) {
            return -EINVAL;
        }
        if (chunk < data) {
            from[chunk] = bytes_of(bytes);
        } else {
            to[chunk - data] = reinterpret_cast<std::uint8_t *>(bytes.c_str());
        }
    }
    return chunk_bytes == 0 ? 0 : code_->encode(from.data(), to.data(), chunk_bytes);
}

int Butterfly::decode(const std::set<int> &want_to_read, const Chunks &chunks, Chunks *decoded,
                      int chunk_size) {
    const Wanted wanted = split(want_to_read, chunks);
    Chunks answer;
    for (const std::uint32_t chunk : wanted.present) {
        answer[chunk] = chunks.at(chunk);
    }
    if (!wanted.lost.empty()) {
        if (chunks.empty()) {
            return -EIO;
        }
        const unsigned sent = chunks.begin()->second.length();
        const bool is_packed = chunk_size > 0 && sent < static_cast<unsigned>(chunk_size);
        const unsigned chunk_bytes = is_packed ? chunk_size : sent;
        // Copies of lists share their bytes, unless a list has to be made contiguous.
        Chunks helpers = chunks;
        std::vector<suture_input> inputs;
        for (auto &[chunk, bytes] : helpers) {
            inputs.push_back({static_cast<std::uint32_t>(chunk), bytes_of(bytes), bytes.length()});
        }
        std::vector<suture_output> outputs;
        for (const std::uint32_t chunk : wanted.lost) {
            outputs.push_back({chunk, make_room(answer[chunk], chunk_bytes), chunk_bytes});
        }
        const int error = chunk_bytes == 0 ? 0
                          : is_packed      ? code_->repair(inputs, outputs)
                                           : code_->decode(inputs, outputs);
        if (error) {
            return error;
        }
    }
    for (auto &[chunk, bytes] : answer) {
        (*decoded)[chunk] = std::move(bytes);
    }
    return 0;
}

int Butterfly::decode_chunks(const std::set<int> &want_to_read, const Chunks &chunks,
                             Chunks *decoded) {
    return decode(want_to_read, chunks, decoded, 0);
}

int Butterfly::decode_concat(const Chunks &chunks, bufferlist *decoded) {
    std::set<int> data;
    for (unsigned chunk = 0; chunk < get_data_chunk_count(); ++chunk) {
        data.insert(chunk);
    }
    Chunks found;
    if (const int error = decode(data, chunks, &found, 0)) {
        return error;
    }
    for (auto &[chunk, bytes] : found) {
        decoded->claim_append(bytes);
    }
    return 0;
}

}  // namespace suture
