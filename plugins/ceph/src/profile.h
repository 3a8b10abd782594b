//! What an operator writes in `ceph osd erasure-code-profile set`.
//!
//! Place: before there is a pool. Everything that could only go wrong later is refused here, with
//! what to write instead; what is left out is written back, so that the profile of a pool says
//! everything.

#ifndef SUTURE_CEPH_PROFILE_H
#define SUTURE_CEPH_PROFILE_H

#include "abi_16_2.h"
#include "code.h"

namespace suture {

// Below this, a device reads more than it is asked for, and a recovery saves nothing on disk.
constexpr unsigned SUB_CHUNK_BYTES_MIN = 4096;

// Opens the code that the profile asks for, with its defaults written back. Null when the profile
// is refused; then `said` says why. It may also warn, in one line, since `ceph` shows no more.
std::unique_ptr<Code> open_profile(ceph::ErasureCodeProfile *profile, std::ostream &said);

}  // namespace suture

#endif
