//! An open code of Suture, in the words of C++.
//!
//! Place: between what Ceph asks (`butterfly.h`) and `suture.h`, which knows all mathematics. Here
//! pointers are gathered and statuses become errnos; nothing is computed.

#ifndef SUTURE_CEPH_CODE_H
#define SUTURE_CEPH_CODE_H

#include <suture.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace suture {

class Code {
public:
    // Opens `butterfly(4)` and the like. Null when there is no such code; then `why` says so.
    static std::unique_ptr<Code> open(const std::string &name, std::string *why);

    const suture_sizes &sizes() const { return sizes_; }

    // What to read to rebuild these chunks, helpers in order of preference, chunks and runs
    // ascending; helpers send sub-chunks as they are. -EIO when they do not suffice.
    int repair_reads(const std::vector<std::uint32_t> &lost,
                     const std::vector<std::uint32_t> &available,
                     std::vector<suture_read> *reads) const;

    // Each chunk is one unit. -EIO when the inputs do not suffice, -EINVAL when they do not fit.
    int encode(const std::uint8_t *const *data, std::uint8_t *const *parity,
               std::size_t chunk_bytes) const;
    int decode(const std::vector<suture_input> &available,
               const std::vector<suture_output> &lost) const;
    int repair(const std::vector<suture_input> &helpers,
               const std::vector<suture_output> &lost) const;

private:
    struct Close {
        void operator()(suture_code *code) const { suture_close(code); }
    };

    std::unique_ptr<suture_code, Close> code_;
    suture_sizes sizes_ = {};
};

}  // namespace suture

#endif
