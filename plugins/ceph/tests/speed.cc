//! How fast plugins encode: Butterfly beside those of Ceph, in one process, in turns.
//!
//! Place: `speed OURS THEIRS`, folders with plugins. It needs Ceph's libraries, as they do.
//! Processor time counts, since other work of the machine is no property of a code; a turn's ratio
//! compares what ran next to each other, and the median turn is shown.

#include "osd.h"
#include "registry.h"

#include <rados/librados.h>

#include <time.h>

#include <algorithm>
#include <cmath>
#include <iomanip>

class CephContext;

namespace ceph::global {
// Plugins of Ceph write to the log of the process that they are in.
extern CephContext *g_ceph_context;
}  // namespace ceph::global

namespace {

constexpr unsigned OBJECT_BYTES = 4 << 20;
constexpr int TURNS = 15;
constexpr double TURN_SECONDS = 0.04;

double processor_seconds() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// Megabytes of objects a second in one turn.
double encode(ceph::ErasureCodeInterface &code, const ceph::bufferlist &object, unsigned bytes) {
    std::set<int> all;
    for (unsigned chunk = 0; chunk < code.get_chunk_count(); ++chunk) {
        all.insert(chunk);
    }
    const double start = processor_seconds();
    double encoded_bytes = 0, seconds = 0;
    do {
        for (unsigned at = 0; at + bytes <= object.length(); at += bytes) {
            ceph::bufferlist part;
            part.substr_of(object, at, bytes);
            std::map<int, ceph::bufferlist> encoded;
            osd::expect(code.encode(all, part, &encoded) == 0, "encode refuses");
            encoded_bytes += bytes;
        }
        seconds = processor_seconds() - start;
    } while (seconds < TURN_SECONDS);
    return encoded_bytes / seconds / 1e6;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// One row: objects of 4 MiB, encoded in parts of that many bytes. The ratio to the second code.
double compare(const std::vector<ceph::ErasureCodeInterfaceRef> &codes, int k, unsigned bytes) {
    ceph::bufferlist object;
    ceph::bufferptr memory(ceph::buffer::create_aligned(OBJECT_BYTES, 4096));
    const osd::Bytes random = osd::random_bytes(OBJECT_BYTES, k);
    std::copy(random.begin(), random.end(), memory.c_str());
    object.push_back(std::move(memory));
    std::vector<std::vector<double>> rates(codes.size()), ratios(codes.size());
    for (int turn = 0; turn <= TURNS; ++turn) {
        std::vector<double> now;
        for (const auto &code : codes) {
            now.push_back(encode(*code, object, bytes));
        }
        // The first turn fills caches and compiles.
        for (std::size_t code = 0; turn > 0 && code < codes.size(); ++code) {
            rates[code].push_back(now[code]);
            ratios[code].push_back(now[0] / now[code]);
        }
    }
    std::cout << std::setw(2) << k << std::setw(10) << bytes / 1024 << " KiB";
    for (const auto &of_code : rates) {
        std::cout << std::setw(12) << std::fixed << std::setprecision(0) << median(of_code);
    }
    for (std::size_t code = 1; code < codes.size(); ++code) {
        std::cout << std::setw(13) << std::setprecision(2) << median(ratios[code]);
    }
    std::cout << std::endl;
    return median(ratios[1]);
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 3) {
        std::cerr << "usage: speed OURS THEIRS, folders with plugins" << std::endl;
        return 2;
    }
    rados_t cluster;
    osd::expect(rados_create(&cluster, nullptr) == 0, "librados does not begin");
    ceph::global::g_ceph_context = static_cast<CephContext *>(rados_cct(cluster));
    std::cout << "Encoding, MB of objects per second of processor time; ratios are Butterfly's\n"
              << " k  encoded in   butterfly    jerasure         isa  to jerasure       to isa"
              << std::endl;
    double lowest = INFINITY;
    for (int k = 2; k <= 8; ++k) {
        const std::string of = std::to_string(k);
        const ceph::ErasureCodeProfile theirs = {
            {"k", of}, {"m", "2"}, {"technique", "reed_sol_van"}};
        const std::vector<ceph::ErasureCodeInterfaceRef> codes = {
            registry::make("butterfly", arguments[1], {{"k", of}, {"m", "2"}}),
            registry::make("jerasure", arguments[2], theirs),
            registry::make("isa", arguments[2], theirs)};
        // What an OSD encodes at a time with the stripe unit that a profile gets by itself, what
        // Ceph's own benchmark takes, and whole objects.
        const unsigned stripe = std::stoul(codes[0]->get_profile().at("stripe_unit")) * k;
        for (const unsigned bytes : std::set<unsigned>{stripe, 1u << 20, OBJECT_BYTES}) {
            lowest = std::min(lowest, compare(codes, k, bytes));
        }
    }
    std::cout << "the lowest ratio to jerasure: " << lowest << std::endl;
    return 0;
}
