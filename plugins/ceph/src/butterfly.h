//! The Butterfly code as Ceph asks for it.
//!
//! Place: an OSD finds the failure, reads and keeps; it asks here which sub-chunks to read
//! (`minimum_to_decode`) and what they make (`decode`).
//!
//! Invariants: an answer of `minimum_to_decode`, asked again with just the chunks that it names, is
//! the same answer: Ceph asks when it plans, when replies have come, and when it decodes. All
//! helpers of an answer send equally many sub-chunks: Ceph cuts the replies of all by the count of
//! one. After `init` nothing changes, so threads may share it.

#ifndef SUTURE_CEPH_BUTTERFLY_H
#define SUTURE_CEPH_BUTTERFLY_H

#include "abi_16_2.h"
#include "code.h"

namespace suture {

class Butterfly final : public ceph::ErasureCodeInterface {
public:
    explicit Butterfly(std::string directory) : directory_(std::move(directory)) {}

    int init(ceph::ErasureCodeProfile &profile, std::ostream *ss) override;
    const ceph::ErasureCodeProfile &get_profile() const override { return profile_; }
    int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *ss) const override;
    unsigned int get_chunk_count() const override;
    unsigned int get_data_chunk_count() const override;
    unsigned int get_coding_chunk_count() const override;
    int get_sub_chunk_count() override;
    unsigned int get_chunk_size(unsigned int object_size) const override;
    int minimum_to_decode(const std::set<int> &want_to_read, const std::set<int> &available,
                          std::map<int, ceph::SubChunkRuns> *minimum) override;
    int minimum_to_decode_with_cost(const std::set<int> &want_to_read,
                                    const std::map<int, int> &available,
                                    std::set<int> *minimum) override;
    int encode(const std::set<int> &want_to_encode, const ceph::bufferlist &in,
               std::map<int, ceph::bufferlist> *encoded) override;
    int encode_chunks(const std::set<int> &want_to_encode,
                      std::map<int, ceph::bufferlist> *encoded) override;
    int decode(const std::set<int> &want_to_read, const std::map<int, ceph::bufferlist> &chunks,
               std::map<int, ceph::bufferlist> *decoded, int chunk_size) override;
    int decode_chunks(const std::set<int> &want_to_read,
                      const std::map<int, ceph::bufferlist> &chunks,
                      std::map<int, ceph::bufferlist> *decoded) override;
    const std::vector<int> &get_chunk_mapping() const override { return mapping_; }
    int decode_concat(const std::map<int, ceph::bufferlist> &chunks,
                      ceph::bufferlist *decoded) override;

private:
    ceph::SubChunkRuns whole() const;

    std::string directory_;
    ceph::ErasureCodeProfile profile_;
    // Chunks are where their numbers say.
    const std::vector<int> mapping_;
    std::unique_ptr<Code> code_;
};

// Whether recoveries read whole chunks: SUTURE_CEPH_READS=whole in the daemon's environment. Looked
// at once, so that a recovery that was planned in one way is decoded in the same.
bool reads_whole_chunks();

}  // namespace suture

#endif
