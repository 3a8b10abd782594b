//! An open code of Suture, in the words of C++; see `code.h`.

#include "code.h"

#include <cerrno>
#include <iostream>

namespace suture {

namespace {

// What Ceph is told. It has no place for a text, so what nobody expects is said on the daemon's
// standard error; that chunks are missing is an answer as any other.
int errno_of(suture_status status) {
    if (status == SUTURE_STATUS_OK) {
        return 0;
    }
    if (status == SUTURE_STATUS_TOO_FEW_CHUNKS) {
        return -EIO;
    }
    std::cerr << "libec_butterfly: " << suture_last_error() << std::endl;
    return status == SUTURE_STATUS_INTERNAL ? -EIO : -EINVAL;
}

}  // namespace

std::unique_ptr<Code> Code::open(const std::string &name, std::string *why) {
    suture_code *opened = nullptr;
    if (suture_open(name.c_str(), &opened) != SUTURE_STATUS_OK) {
        *why = suture_last_error();
        return nullptr;
    }
    auto code = std::make_unique<Code>();
    code->code_.reset(opened);
    if (suture_get_sizes(opened, &code->sizes_) != SUTURE_STATUS_OK) {
        *why = suture_last_error();
        return nullptr;
    }
    return code;
}

int Code::repair_reads(const std::vector<std::uint32_t> &lost,
                       const std::vector<std::uint32_t> &available,
                       std::vector<suture_read> *reads) const {
    auto ask = [&](std::size_t *count) {
        return suture_repair_reads(code_.get(), lost.data(), lost.size(), available.data(),
                                   available.size(), SUTURE_PLAIN_READS, reads->data(), count);
    };
    std::size_t count = reads->size();
    suture_status status = ask(&count);
    while (status == SUTURE_STATUS_TOO_SMALL) {
        reads->resize(count);
        status = ask(&count);
    }
    reads->resize(status == SUTURE_STATUS_OK ? count : 0);
    return errno_of(status);
}

int Code::encode(const std::uint8_t *const *data, std::uint8_t *const *parity,
                 std::size_t chunk_bytes) const {
    return errno_of(suture_encode(code_.get(), data, parity, chunk_bytes, 0));
}

int Code::decode(const std::vector<suture_input> &available,
                 const std::vector<suture_output> &lost) const {
    return errno_of(suture_decode(code_.get(), available.data(), available.size(), lost.data(),
                                  lost.size(), 0));
}

int Code::repair(const std::vector<suture_input> &helpers,
                 const std::vector<suture_output> &lost) const {
    return errno_of(suture_repair(code_.get(), helpers.data(), helpers.size(), lost.data(),
                                  lost.size(), 0));
}

}  // namespace suture
