//! What an operator writes in `ceph osd erasure-code-profile set`; see `profile.h`.

#include "profile.h"

#include <charconv>
#include <optional>
#include <set>

namespace suture {

namespace {

using ceph::ErasureCodeProfile;

// The largest stripe unit that Ceph's 32 bits take, with 8 chunks.
constexpr std::uint64_t STRIPE_UNIT_MAX = 1 << 28;

bool is_ours(const std::string &key) {
    static const std::set<std::string> ours = {
        "plugin", "directory", "k", "m", "stripe_unit",
        "crush-root", "crush-failure-domain", "crush-device-class"};
    return ours.count(key) != 0;
}

// Digits without more; others read a profile too, and as strictly as they please.
bool is_number(const std::string &text) {
    return !text.empty() && text[0] != '0' &&
           text.find_first_not_of("0123456789") == text.npos;
}

// Bytes as Ceph writes them: digits, then K, M or G for powers of 1024, with or without an i.
std::optional<std::uint64_t> bytes_of(const std::string &text) {
    std::uint64_t number = 0;
    const char *end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, number);
    if (parsed.ec != std::errc() || number > STRIPE_UNIT_MAX) {
        return std::nullopt;
    }
    const std::string suffix(parsed.ptr, end);
    if (suffix.empty() || suffix == "B") {
        return number;
    }
    const std::size_t power = std::string("KMG").find(suffix[0]);
    if (power == std::string::npos || (suffix.size() > 1 && suffix.substr(1) != "i")) {
        return std::nullopt;
    }
    return number << 10 * (power + 1);
}

// Writes the default where nothing was written.
const std::string &value_or(ErasureCodeProfile *profile, const char *key,
                            const std::string &value) {
    std::string &written = (*profile)[key];
    if (written.empty()) {
        written = value;
    }
    return written;
}

bool check_stripe_unit(ErasureCodeProfile *profile, const suture_sizes &sizes,
                       std::ostream &said) {
    const std::uint64_t best = std::uint64_t{SUB_CHUNK_BYTES_MIN} * sizes.sub_chunk_count;
    const std::string &written = value_or(profile, "stripe_unit", std::to_string(best));
    const std::optional<std::uint64_t> bytes = bytes_of(written);
    if (!bytes || *bytes == 0 || *bytes > STRIPE_UNIT_MAX) {
        said << "stripe_unit=" << written << ": write bytes, as 32768 or 32K, at most 256M";
        return false;
    }
    if (*bytes % sizes.alignment != 0) {
        const std::uint64_t below = *bytes - *bytes % sizes.alignment;
        said << "stripe_unit=" << written << ": with k=" << sizes.data_chunks
             << " it is a multiple of " << sizes.alignment << " bytes; try ";
        if (below != 0) {
            said << below << " or ";
        }
        said << below + sizes.alignment << ", or better " << best;
        return false;
    }
    if (*bytes < best) {
        said << "warning: stripe_unit=" << written << " makes sub-chunks of "
             << *bytes / sizes.sub_chunk_count << " bytes, and disks read no less than "
             << SUB_CHUNK_BYTES_MIN << ": recovery saves network but no disk reads; with k="
             << sizes.data_chunks << " use stripe_unit=" << best << " or more";
    }
    return true;
}

}  // namespace

std::unique_ptr<Code> open_profile(ErasureCodeProfile *profile, std::ostream &said) {
    for (const auto &[key, value] : *profile) {
        if (key == "mapping") {
            said << "mapping=" << value << ": butterfly has none: chunks are data first, then the "
                 << "two parities; leave it out";
            return nullptr;
        }
        if (!is_ours(key)) {
            said << key << "=" << value << ": butterfly knows k, m, stripe_unit, crush-root, "
                 << "crush-failure-domain and crush-device-class; leave it out";
            return nullptr;
        }
    }
    const std::string &m = value_or(profile, "m", "2");
    if (m != "2") {
        said << "m=" << m << ": butterfly has two parities; write m=2";
        return nullptr;
    }
    const std::string &k = value_or(profile, "k", "4");
    if (!is_number(k)) {
        said << "k=" << k << ": write a number, as k=4";
        return nullptr;
    }
    std::string why;
    std::unique_ptr<Code> code = Code::open("butterfly(" + k + ")", &why);
    if (!code) {
        said << "k=" << k << ": " << why;
        return nullptr;
    }
    if (!check_stripe_unit(profile, code->sizes(), said)) {
        return nullptr;
    }
    value_or(profile, "crush-root", "default");
    value_or(profile, "crush-failure-domain", "host");
    value_or(profile, "crush-device-class", "");
    return code;
}

}  // namespace suture
