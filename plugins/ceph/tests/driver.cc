//! Tries the plugin without a cluster: every k, every lost column, every pair, and what is refused.
//!
//! Place: `driver FOLDER`, where `libec_butterfly.so` is. With SUTURE_CEPH_READS=whole it expects
//! what that promises. The first test of the plugin: seconds, no root, no Ceph.

#include "osd.h"
#include "registry.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <thread>

namespace {

using ceph::ErasureCodeInterfaceRef;
using ceph::ErasureCodeProfile;
using osd::Bytes;
using osd::expect;
using osd::keys;
using osd::Osd;
using osd::Plan;

std::string folder;
bool whole_chunks;

ErasureCodeInterfaceRef butterfly(int k) {
    return registry::make("butterfly", folder, {{"k", std::to_string(k)}, {"m", "2"}});
}

int sub_chunks(const ceph::SubChunkRuns &runs) {
    int sum = 0;
    for (const auto &run : runs) {
        sum += run.second;
    }
    return sum;
}

std::set<int> all_but(int count, const std::set<int> &without) {
    std::set<int> rest;
    for (int chunk = 0; chunk < count; ++chunk) {
        if (without.count(chunk) == 0) {
            rest.insert(chunk);
        }
    }
    return rest;
}

std::map<int, Bytes> only(const std::map<int, Bytes> &chunks, const std::set<int> &some) {
    std::map<int, Bytes> rest;
    for (const int chunk : some) {
        rest[chunk] = chunks.at(chunk);
    }
    return rest;
}

// The definition of the code, byte by byte, as it is published.
void check_parity(const std::map<int, Bytes> &chunks, int k, std::size_t unit) {
    const std::size_t rows = 1u << (k - 1), row_bytes = unit / rows;
    auto byte = [&](int chunk, std::size_t start, std::size_t row, std::size_t at) {
        return chunks.at(chunk)[start + row * row_bytes + at];
    };
    for (std::size_t start = 0; start < chunks.at(0).size(); start += unit) {
        for (std::size_t row = 0; row < rows; ++row) {
            for (std::size_t at = 0; at < row_bytes; ++at) {
                std::uint8_t h = 0, b = byte(0, start, row, at);
                for (int column = 0; column < k; ++column) {
                    h ^= byte(column, start, row, at);
                }
                for (int column = 1; column < k; ++column) {
                    const std::size_t mirrored = row ^ ((1u << column) - 1);
                    b ^= byte(column, start, mirrored, at);
                    const bool differ = ((row >> column) ^ (row >> (column - 1))) & 1;
                    for (int before = 0; differ && before < column; ++before) {
                        b ^= byte(before, start, mirrored, at);
                    }
                }
                expect(h == byte(k, start, row, at), "k=", k, ": H is wrong in row ", row);
                expect(b == byte(k + 1, start, row, at), "k=", k, ": B is wrong in row ", row);
            }
        }
    }
}

// One chunk is rebuilt, from half of each of the others but for B.
void rebuild_one(const Osd &osd, const std::map<int, Bytes> &chunks, int k, int lost) {
    const int alpha = 1 << (k - 1);
    const std::set<int> want = {lost};
    const Plan plan = osd.plan(want, all_but(k + 2, want));
    const bool is_half = lost != k + 1 && !whole_chunks;
    expect(static_cast<int>(plan.size()) == (is_half ? k + 1 : k), "k=", k, " lost ", lost, ": ",
           plan.size(), " helpers");
    std::map<int, Bytes> replies;
    for (const auto &[helper, runs] : plan) {
        expect(sub_chunks(runs) == (is_half ? alpha / 2 : alpha), "k=", k, " lost ", lost, ": ",
               helper, " sends ", sub_chunks(runs), " of ", alpha);
        int end = 0;
        for (const auto &[first, count] : runs) {
            expect(first >= end && count > 0 && first + count <= alpha, "runs out of order");
            end = first + count;
        }
        replies[helper] = osd.read(chunks.at(helper), runs);
    }
    expect(osd.plan(want, keys(plan)) == plan, "k=", k, " lost ", lost, ": answers differ");
    expect(osd.decode(want, replies) == only(chunks, want), "k=", k, ": ", lost, " is wrong");
}

// Two chunks are lost: both are rebuilt, each alone, and the object is read.
void lose_two(const Osd &osd, const std::map<int, Bytes> &chunks, int k, int one, int other,
              const Bytes &object) {
    const std::set<int> rest = all_but(k + 2, {one, other});
    const std::map<int, Bytes> left = only(chunks, rest);
    for (const std::set<int> &want : {std::set<int>{one, other}, {one}, {other}}) {
        const Plan plan = osd.plan(want, rest);
        expect(keys(plan) == rest, "not everything is read");
        for (const auto &[helper, runs] : plan) {
            expect(runs == ceph::SubChunkRuns{{0, 1 << (k - 1)}}, helper, " is not read whole");
        }
        expect(osd.decode(want, left) == only(chunks, want), "k=", k, ": pair ", one, " ", other);
    }
    expect(osd.decode_object(left) == object, "k=", k, ": degraded read without ", one, " ", other);
}

void every_loss() {
    for (int k = 2; k <= 8; ++k) {
        const ErasureCodeInterfaceRef code = butterfly(k);
        const unsigned alignment = code->get_chunk_size(1);
        expect(alignment == 64u << (k - 1), "k=", k, ": alignment ", alignment);
        expect(code->get_data_chunk_count() == unsigned(k) && code->get_chunk_count() == k + 2u &&
               code->get_coding_chunk_count() == 2 && code->get_sub_chunk_count() == 1 << (k - 1),
               "k=", k, ": wrong sizes");
        expect(code->get_chunk_mapping().empty(), "chunks are moved");
        for (const unsigned units : {1u, 3u}) {
            const unsigned unit = units * alignment;
            const Osd osd(*code, unit);
            const Bytes object = osd::random_bytes(std::size_t{unit} * k * 2, k);
            const std::map<int, Bytes> chunks = osd.write(object);
            check_parity(chunks, k, unit);
            for (int lost = 0; lost < k + 2; ++lost) {
                rebuild_one(osd, chunks, k, lost);
                for (int other = lost + 1; other < k + 2; ++other) {
                    lose_two(osd, chunks, k, lost, other, object);
                }
            }
        }
        std::cout << "k=" << k << ": " << k + 2 << " columns, " << (k + 2) * (k + 1) / 2
                  << " pairs" << std::endl;
    }
}

std::set<int> members(unsigned bits) {
    std::set<int> set;
    for (int chunk = 0; bits >> chunk; ++chunk) {
        if (bits >> chunk & 1) {
            set.insert(chunk);
        }
    }
    return set;
}

// Whatever is wanted of whatever is there: the answer names only what is there, holds when it is
// asked again, and asks all helpers for equally much.
void every_question() {
    unsigned asked = 0;
    for (int k = 2; k <= 4; ++k) {
        const ErasureCodeInterfaceRef code = butterfly(k);
        const unsigned end = 1u << (k + 2);
        for (unsigned wanted = 0; wanted < end; ++wanted) {
            for (unsigned there = 0; there < end; ++there, ++asked) {
                const std::set<int> want = members(wanted), available = members(there);
                Plan plan, again;
                const int status = code->minimum_to_decode(want, available, &plan);
                const bool possible = available.size() >= unsigned(k) || !(wanted & ~there);
                expect(status == (possible ? 0 : -EIO), "k=", k, ": status ", status);
                std::set<int> cheap;
                std::map<int, int> costs;
                for (const int chunk : available) {
                    costs[chunk] = 10 - chunk;
                }
                expect(code->minimum_to_decode_with_cost(want, costs, &cheap) == status, "cost");
                if (!possible) {
                    continue;
                }
                for (const auto &[helper, runs] : plan) {
                    expect(there >> helper & 1, helper, " is not there");
                    expect(sub_chunks(runs) == sub_chunks(plan.begin()->second), "unequal");
                }
                for (const int chunk : want) {
                    expect(!(there >> chunk & 1) || plan.count(chunk), chunk, " is not read");
                }
                expect(code->minimum_to_decode(want, keys(plan), &again) == 0 && again == plan,
                       "k=", k, ": other answers");
                if (wanted & ~there && (wanted & there) == 0) {
                    expect(cheap.size() == unsigned(k) && cheap.count(*available.rbegin()),
                           "the cheapest is left out");
                }
            }
        }
    }
    std::cout << asked << " questions, each answered alike again" << std::endl;
}

void lengths_that_need_padding() {
    for (int k = 2; k <= 8; ++k) {
        const ErasureCodeInterfaceRef code = butterfly(k);
        const unsigned alignment = 64u << (k - 1);
        for (const unsigned length : {0u, 1u, 4095u, 100'000u, k * alignment - 1, k * alignment,
                                      k * alignment + 1}) {
            const unsigned chunk_bytes = code->get_chunk_size(length);
            // The shortest that holds it and can be cut.
            expect(chunk_bytes % alignment == 0 && std::uint64_t{chunk_bytes} * k >= length &&
                   (chunk_bytes == 0 || std::uint64_t{chunk_bytes - alignment} * k < length),
                   "k=", k, ": chunks of ", chunk_bytes, " for ", length);
            const Bytes object = osd::random_bytes(length, length);
            std::map<int, ceph::bufferlist> encoded;
            const std::set<int> all = all_but(k + 2, {});
            expect(code->encode(all, osd::fragmented(object, 999), &encoded) == 0, "encode");
            std::map<int, ceph::bufferlist> left;
            for (int chunk = 2; chunk < k + 2; ++chunk) {
                left[chunk] = encoded[chunk];
                expect(encoded[chunk].length() == chunk_bytes, "chunk ", chunk, " is short");
            }
            ceph::bufferlist out;
            expect(code->decode_concat(left, &out) == 0, "decode_concat");
            Bytes padded = object;
            padded.resize(std::size_t{chunk_bytes} * k);
            expect(osd::bytes_of(out) == padded, "k=", k, ": ", length, " bytes come back wrong");
            std::map<int, ceph::bufferlist> some;
            some[99] = left[2];
            expect(code->encode({k}, osd::fragmented(object, 999), &some) == 0 &&
                   keys(some) == std::set<int>{k, 99}, "more than was wanted, or less than was");
            expect(osd::bytes_of(some[k]) == osd::bytes_of(encoded[k]), "some are others");
        }
        expect(code->get_chunk_size(0xffffffff) >= 0xffffffff / k, "k=", k, ": sizes wrap around");
    }
}

// What cannot be decoded is refused, not made up.
void impossible_decodes() {
    const ErasureCodeInterfaceRef code = butterfly(4);
    std::map<int, ceph::bufferlist> chunks, out;
    expect(code->decode({0}, chunks, &out, 4096) == -EIO, "something from nothing");
    for (int chunk = 1; chunk < 4; ++chunk) {
        chunks[chunk] = osd::fragmented(osd::random_bytes(4096, 1), 4096);
    }
    expect(code->decode({0}, chunks, &out, 4096) == -EIO, "four from three");
    chunks[4] = osd::fragmented(osd::random_bytes(2048, 1), 4096);
    expect(code->decode({0}, chunks, &out, 4096) == -EINVAL, "unequal lengths");
    for (int chunk = 1; chunk < 5; ++chunk) {
        chunks[chunk] = osd::fragmented(osd::random_bytes(2048, 1), 4096);
    }
    expect(code->decode({0}, chunks, &out, 4096) == -EINVAL, "halves of too few helpers");
    expect(code->decode({77}, chunks, &out, 2048) == -EINVAL, "a chunk that no stripe has");
    chunks[4].clear();
    expect(code->decode({0}, chunks, &out, 4096) == -EINVAL, "an empty helper");
    expect(out.empty(), "a refusal left something");
    expect(code->decode({}, chunks, &out, 4096) == 0 && out.empty(), "something unasked");
    expect(code->decode({1}, chunks, &out, 2048) == 0 && keys(out) == std::set<int>{1},
           "what is there is not given");
    Plan plan;
    expect(code->minimum_to_decode({0}, {1, 2, 3, -4}, &plan) == -EINVAL, "chunk -4");
    expect(code->minimum_to_decode({0}, {1, 2, 3, 6}, &plan) == -EINVAL, "chunk 6");
    expect(plan.empty(), "a refusal left a plan");
}

// What an OSD passes to a code by itself: all chunks, those of parity in any pieces.
void encode_in_place() {
    const ErasureCodeInterfaceRef code = butterfly(3);
    const Osd osd(*code, 512);
    const std::map<int, Bytes> stripe = osd.write(osd::random_bytes(512 * 3, 3));
    std::map<int, ceph::bufferlist> chunks;
    for (const auto &[chunk, bytes] : stripe) {
        chunks[chunk] = osd::fragmented(chunk < 3 ? bytes : Bytes(512), 100);
    }
    expect(code->encode_chunks(all_but(5, {}), &chunks) == 0, "encode_chunks refuses");
    for (const auto &[chunk, bytes] : stripe) {
        expect(osd::bytes_of(chunks[chunk]) == bytes, "chunk ", chunk, " is wrong");
    }
    chunks[1] = osd::fragmented(Bytes(256), 256);
    expect(code->encode_chunks(all_but(5, {}), &chunks) == -EINVAL, "a short chunk");
    chunks.erase(1);
    expect(code->encode_chunks(all_but(5, {}), &chunks) == -EINVAL, "a chunk that is not there");
}

// Reads that cannot wait ask more helpers than it takes; what is wanted may be there in part.
void more_than_enough() {
    const ErasureCodeInterfaceRef code = butterfly(4);
    const unsigned unit = 4096;
    const Osd osd(*code, unit);
    const Bytes object = osd::random_bytes(unit * 4, 4);
    const std::map<int, Bytes> chunks = osd.write(object);
    for (int lost = 0; lost < 6; ++lost) {
        std::map<int, ceph::bufferlist> whole, out;
        for (const int chunk : all_but(6, {lost})) {
            whole[chunk] = osd::fragmented(chunks.at(chunk), 77);
        }
        const std::set<int> want = {lost, (lost + 1) % 6};
        expect(code->decode(want, whole, &out, unit) == 0 && keys(out) == want, "lost ", lost);
        for (const int chunk : want) {
            expect(osd::bytes_of(out[chunk]) == chunks.at(chunk), "lost ", lost, ": ", chunk);
        }
        expect(osd.decode_object(only(chunks, all_but(6, {lost}))) == object, "lost ", lost);
    }
    expect(osd.decode_object(chunks) == object, "with all chunks");
}

void many_threads() {
    // One that nobody has used yet.
    const ErasureCodeInterfaceRef known = butterfly(5), code = butterfly(5);
    const Osd osd(*code, 1024);
    const Bytes object = osd::random_bytes(1024 * 5 * 3, 5);
    const std::map<int, Bytes> chunks = Osd(*known, 1024).write(object);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            for (int turn = 0; turn < 20; ++turn) {
                rebuild_one(osd, chunks, 5, (turn + thread) % 7);
                expect(osd.write(object) == chunks, "encoded otherwise");
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

struct Answer {
    ErasureCodeProfile profile;
    int status;
    const char *said;
};

const Answer ANSWERS[] = {
    {{{"k", "1"}}, -EINVAL, "k=1: butterfly(1) is impossible: it is defined here for 2 to 8"},
    {{{"k", "9"}}, -EINVAL, "it is defined here for 2 to 8 data chunks"},
    {{{"k", "four"}}, -EINVAL, "k=four: "},
    {{{"k", "-4"}}, -EINVAL, "k=-4: "},
    {{{"k", "4)x("}}, -EINVAL, "k=4)x(: "},
    // Others read the profile too, and as strictly as they please.
    {{{"k", " 4"}}, -EINVAL, "k= 4: write a number, as k=4"},
    {{{"k", "+4"}}, -EINVAL, "k=+4: write a number"},
    {{{"k", "04"}}, -EINVAL, "k=04: write a number"},
    {{{"k", "4.0"}}, -EINVAL, "k=4.0: write a number"},
    {{{"k", "99999999999999999999"}}, -EINVAL, "k=99999999999999999999: "},
    {{{"m", "3"}}, -EINVAL, "m=3: butterfly has two parities; write m=2"},
    {{{"technique", "reed_sol_van"}}, -EINVAL, "technique=reed_sol_van: butterfly knows k, m"},
    {{{"crush-failure-domian", "osd"}}, -EINVAL, "crush-failure-domian=osd: butterfly knows k, m"},
    {{{"m", "two"}}, -EINVAL, "m=two: butterfly has two parities"},
    {{{"m", "1"}}, -EINVAL, "m=1: butterfly has two parities"},
    {{{"mapping", "DD_"}}, -EINVAL, "mapping=DD_: butterfly has none"},
    {{{"stripe_unit", "5000"}}, -EINVAL, "a multiple of 512 bytes; try 4608 or 5120, or bet"},
    {{{"stripe_unit", "100"}}, -EINVAL, "try 512, or better 32768"},
    {{{"stripe_unit", "4096"}, {"k", "8"}}, -EINVAL, "try 8192, or better 524288"},
    {{{"stripe_unit", "0"}}, -EINVAL, "stripe_unit=0: write bytes"},
    {{{"stripe_unit", "many"}}, -EINVAL, "stripe_unit=many: write bytes"},
    {{{"stripe_unit", "99999999999999999999"}}, -EINVAL, "at most 256M"},
    {{{"stripe_unit", "8G"}}, -EINVAL, "at most 256M"},
    {{{"stripe_unit", "4096"}}, 0, "warning: stripe_unit=4096 makes sub-chunks of 512 bytes"},
    {{{"stripe_unit", "16K"}}, 0, "use stripe_unit=32768 or more"},
    {{{"stripe_unit", "32Ki"}}, 0, ""},
    {{{"stripe_unit", "1M"}, {"crush-root", "fast"}}, 0, ""},
    {{}, 0, ""},
};

void profiles() {
    for (const Answer &answer : ANSWERS) {
        ErasureCodeProfile profile = answer.profile;
        ErasureCodeInterfaceRef code;
        std::string said;
        const int status = registry::try_make("butterfly", folder, profile, &code, &said);
        expect(status == answer.status, answer.said, ": status ", status, ", ", said);
        expect(*answer.said ? said.find(answer.said) != said.npos : said.empty(), "said: ", said);
        expect(said.empty() || said.find('\n') == said.size() - 1, "not one line: ", said);
    }
    ErasureCodeProfile profile;
    ErasureCodeInterfaceRef code;
    std::string said;
    registry::try_make("butterfly", folder, profile, &code, &said);
    const ErasureCodeProfile expected = {
        {"plugin", "butterfly"}, {"k", "4"}, {"m", "2"}, {"stripe_unit", "32768"},
        {"crush-root", "default"}, {"crush-failure-domain", "host"}, {"crush-device-class", ""}};
    expect(profile == expected, "defaults are not written back");
    // A monitor begins a code of a new profile once more.
    std::ostringstream again;
    expect(code->init(profile, &again) == 0 && profile == expected && again.str().empty() &&
           code->get_profile() == expected && code->get_chunk_count() == 6, "begun again otherwise");
    expect(code->init(profile, nullptr) == 0, "somebody has to listen");
    ErasureCodeProfile refused = {{"k", "1"}};
    expect(code->init(refused, &again) == -EINVAL && code->get_chunk_count() == 6,
           "a refusal changed the code");
}

// The plugin that makes rules for ours, in the driver: it notes what it is asked for.
class Jerasure final : public ceph::ErasureCodeInterface {
public:
    explicit Jerasure(const ErasureCodeProfile &profile) : profile_(profile) {}
    int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *ss) const override {
        *ss << name;
        return reinterpret_cast<std::uintptr_t>(&crush) == 0x1000 ? 17 : -EINVAL;
    }
    const ErasureCodeProfile &get_profile() const override { return profile_; }

    int init(ErasureCodeProfile &, std::ostream *) override { return -1; }
    unsigned int get_chunk_count() const override { return 0; }
    unsigned int get_data_chunk_count() const override { return 0; }
    unsigned int get_coding_chunk_count() const override { return 0; }
    int get_sub_chunk_count() override { return 1; }
    unsigned int get_chunk_size(unsigned int) const override { return 0; }
    int minimum_to_decode(const std::set<int> &, const std::set<int> &, Plan *) override {
        return -1;
    }
    int minimum_to_decode_with_cost(const std::set<int> &, const std::map<int, int> &,
                                    std::set<int> *) override {
        return -1;
    }
    using Lists = std::map<int, ceph::bufferlist>;
    int encode(const std::set<int> &, const ceph::bufferlist &, Lists *) override { return -1; }
    int encode_chunks(const std::set<int> &, Lists *) override { return -1; }
    int decode(const std::set<int> &, const Lists &, Lists *, int) override { return -1; }
    int decode_chunks(const std::set<int> &, const Lists &, Lists *) override { return -1; }
    const std::vector<int> &get_chunk_mapping() const override { return mapping_; }
    int decode_concat(const Lists &, ceph::bufferlist *) override { return -1; }

private:
    ErasureCodeProfile profile_;
    std::vector<int> mapping_;
};

class JerasurePlugin final : public ceph::ErasureCodePlugin {
public:
    int factory(const std::string &directory, ErasureCodeProfile &profile,
                ErasureCodeInterfaceRef *code, std::ostream *) override {
        asked = profile;
        asked["directory"] = directory;
        *code = std::make_shared<Jerasure>(profile);
        return 0;
    }

    ErasureCodeProfile asked;
};

void rules() {
    auto *plugin = new JerasurePlugin;
    registry::add("jerasure", plugin);
    const auto code = registry::make(
        "butterfly", folder, {{"k", "5"}, {"crush-root", "fast"}, {"crush-device-class", "hdd"}});
    std::ostringstream said;
    auto *crush = reinterpret_cast<CrushWrapper *>(0x1000);
    expect(code->create_rule("mine", *crush, &said) == 17 && said.str() == "mine", "no rule");
    const ErasureCodeProfile expected = {
        {"plugin", "jerasure"}, {"technique", "reed_sol_van"}, {"k", "5"}, {"m", "2"},
        {"crush-root", "fast"}, {"crush-failure-domain", "host"}, {"crush-device-class", "hdd"},
        {"directory", folder}};
    expect(plugin->asked == expected, "the rule is asked for with other keys");
}

void exports() {
    void *library = registry::library("butterfly");
    expect(dlsym(library, "__erasure_code_init") != nullptr, "no entry");
    for (const char *name : {"suture_open", "rust_eh_personality", "rust_begin_unwind"}) {
        Dl_info from;
        void *found = dlsym(library, name);
        expect(!found || !dladdr(found, &from) || !std::strstr(from.dli_fname, "libec_butterfly"),
               name, " is exported");
    }
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 2) {
        std::cerr << "usage: driver FOLDER, where libec_butterfly.so is" << std::endl;
        return 2;
    }
    folder = arguments[1];
    const char *reads = std::getenv("SUTURE_CEPH_READS");
    whole_chunks = reads && std::strcmp(reads, "sub-chunks") != 0;
    profiles();
    every_loss();
    every_question();
    lengths_that_need_padding();
    impossible_decodes();
    encode_in_place();
    more_than_enough();
    many_threads();
    rules();
    exports();
    std::cout << "all good, recoveries read " << (whole_chunks ? "whole chunks" : "sub-chunks")
              << std::endl;
}
