//! What an OSD does with a code, without the OSD; see `osd.h`.

#include "osd.h"

#include <algorithm>
#include <cstring>

namespace osd {

using ceph::bufferlist;
using ceph::bufferptr;

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
    Bytes bytes(count);
    std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
    for (std::uint8_t &byte : bytes) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        byte = state >> 32;
    }
    return bytes;
}

bufferlist fragmented(const Bytes &bytes, std::size_t piece) {
    bufferlist list;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
        const std::size_t length = std::min(piece, bytes.size() - at);
        bufferptr whole(ceph::buffer::create_aligned(length + 1, 64));
        std::memcpy(whole.c_str() + 1, bytes.data() + at, length);
        list.append(bufferptr(whole, 1, length));
    }
    return list;
}

Bytes bytes_of(const bufferlist &list) {
    Bytes bytes(list.length());
    if (!bytes.empty()) {
        list.begin().copy(bytes.size(), reinterpret_cast<char *>(bytes.data()));
    }
    return bytes;
}

std::map<int, Bytes> Osd::write(const Bytes &object) const {
    const std::size_t width = std::size_t{unit_} * code_.get_data_chunk_count();
    std::set<int> all;
    for (unsigned chunk = 0; chunk < code_.get_chunk_count(); ++chunk) {
        all.insert(chunk);
    }
    std::map<int, Bytes> chunks;
    for (std::size_t at = 0; at < object.size(); at += width) {
        const auto start = object.begin() + at;
        const Bytes stripe(start, start + std::min(width, object.size() - at));
        std::map<int, bufferlist> encoded;
        const bufferlist in = fragmented(stripe, unit_ + 77);
        expect(code_.encode(all, in, &encoded) == 0, "encode refuses");
        expect(keys(encoded) == all, "encode does not give all chunks");
        expect(bytes_of(in) == stripe, "encode changed the object");
        for (const auto &[chunk, list] : encoded) {
            const Bytes bytes = bytes_of(list);
            chunks[chunk].insert(chunks[chunk].end(), bytes.begin(), bytes.end());
        }
    }
    return chunks;
}

Plan Osd::plan(const std::set<int> &want, const std::set<int> &available) const {
    Plan plan;
    expect(code_.minimum_to_decode(want, available, &plan) == 0, "no plan");
    return plan;
}

Bytes Osd::read(const Bytes &chunk, const ceph::SubChunkRuns &runs) const {
    const std::size_t sub_chunk = unit_ / code_.get_sub_chunk_count();
    Bytes reply;
    for (std::size_t at = 0; at < chunk.size(); at += unit_) {
        for (const auto &[first, count] : runs) {
            const auto start = chunk.begin() + at + first * sub_chunk;
            reply.insert(reply.end(), start, start + count * sub_chunk);
        }
    }
    return reply;
}

std::map<int, Bytes> Osd::decode(const std::set<int> &want,
                                 const std::map<int, Bytes> &replies) const {
    Plan ignored;
    expect(code_.minimum_to_decode(want, keys(replies), &ignored) == 0, "replies do not do");
    const Plan plan = this->plan(want, keys(replies));
    std::size_t asked = 0;
    for (const auto &[first, count] : plan.begin()->second) {
        asked += count * (unit_ / code_.get_sub_chunk_count());
    }
    std::map<int, Bytes> rebuilt;
    const std::size_t stripes = replies.at(plan.begin()->first).size() / asked;
    for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
        std::map<int, bufferlist> chunks, out;
        for (const auto &[chunk, reply] : replies) {
            expect(reply.size() >= (stripe + 1) * asked, "helpers send unequally much");
            const auto start = reply.begin() + stripe * asked;
            chunks[chunk] = fragmented(Bytes(start, start + asked), 1001);
        }
        expect(code_.decode(want, chunks, &out, unit_) == 0, "decode refuses");
        for (const int chunk : want) {
            expect(out.count(chunk) != 0 && out[chunk].length() == unit_, "no unit of ", chunk);
            const Bytes bytes = bytes_of(out[chunk]);
            rebuilt[chunk].insert(rebuilt[chunk].end(), bytes.begin(), bytes.end());
        }
    }
    return rebuilt;
}

Bytes Osd::decode_object(const std::map<int, Bytes> &chunks) const {
    Bytes object;
    for (std::size_t at = 0; at < chunks.begin()->second.size(); at += unit_) {
        std::map<int, bufferlist> stripe;
        for (const auto &[chunk, bytes] : chunks) {
            const auto start = bytes.begin() + at;
            stripe[chunk] = fragmented(Bytes(start, start + unit_), 4099);
        }
        bufferlist out;
        expect(code_.decode_concat(stripe, &out) == 0, "decode_concat refuses");
        const Bytes bytes = bytes_of(out);
        object.insert(object.end(), bytes.begin(), bytes.end());
    }
    return object;
}

}  // namespace osd
