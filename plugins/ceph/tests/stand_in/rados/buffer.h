//! A stand-in for Ceph's lists of buffers, as far as the plugin and its driver use them.
//!
//! Place: on machines without libradospp-dev, the plugin is compiled with this header to be tested,
//! never to be installed. As in Ceph, a list is pieces of shared memory, and `c_str` makes one
//! piece of several.

#ifndef SUTURE_CEPH_STAND_IN_BUFFER_H
#define SUTURE_CEPH_STAND_IN_BUFFER_H

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ceph {
namespace buffer {

struct raw {
    std::shared_ptr<char> bytes;
    unsigned length;
};

inline raw create_aligned(unsigned length, unsigned alignment) {
    const std::size_t whole = (std::max(length, 1u) + alignment - 1) / alignment * alignment;
    auto *bytes = static_cast<char *>(std::aligned_alloc(alignment, whole));
    // What nobody writes is to be noticed.
    std::memset(bytes, 0xdb, whole);
    return {std::shared_ptr<char>(bytes, std::free), length};
}

class ptr {
public:
    ptr() = default;
    ptr(raw whole) : bytes_(std::move(whole.bytes)), length_(whole.length) {}
    ptr(const ptr &other, unsigned offset, unsigned length)
        : bytes_(other.bytes_, other.bytes_.get() + offset), length_(length) {}

    char *c_str() const { return bytes_.get(); }
    unsigned length() const { return length_; }

private:
    std::shared_ptr<char> bytes_;
    unsigned length_ = 0;
};

class list {
public:
    class const_iterator {
    public:
        const_iterator(const list *from, unsigned at) : from_(from), at_(at) {}

        void copy(unsigned length, char *to) {
            list part;
            part.substr_of(*from_, at_, length);
            for (const ptr &piece : part.pieces_) {
                std::memcpy(to, piece.c_str(), piece.length());
                to += piece.length();
            }
            at_ += length;
        }

    private:
        const list *from_;
        unsigned at_;
    };

    unsigned length() const {
        unsigned sum = 0;
        for (const ptr &piece : pieces_) {
            sum += piece.length();
        }
        return sum;
    }

    const_iterator begin(std::size_t at = 0) const { return {this, static_cast<unsigned>(at)}; }

    void clear() { pieces_.clear(); }

    void push_back(ptr piece) {
        if (piece.length() != 0) {
            pieces_.push_back(std::move(piece));
        }
    }

    void append(const ptr &piece) { push_back(piece); }

    void append(const list &other) {
        pieces_.insert(pieces_.end(), other.pieces_.begin(), other.pieces_.end());
    }

    void claim_append(list &other) {
        append(other);
        other.clear();
    }

    void substr_of(const list &other, unsigned offset, unsigned length) {
        if (offset + length > other.length()) {
            throw std::out_of_range("end of buffer");
        }
        std::vector<ptr> pieces;
        for (const ptr &piece : other.pieces_) {
            const unsigned skipped = std::min(offset, piece.length());
            const unsigned taken = std::min(length, piece.length() - skipped);
            if (taken != 0) {
                pieces.emplace_back(piece, skipped, taken);
            }
            offset -= skipped;
            length -= taken;
        }
        pieces_ = std::move(pieces);
    }

    char *c_str() {
        if (pieces_.size() > 1) {
            ptr joined(create_aligned(length(), 64));
            begin().copy(length(), joined.c_str());
            pieces_ = {joined};
        }
        return pieces_.empty() ? nullptr : pieces_[0].c_str();
    }

private:
    std::vector<ptr> pieces_;
};

}  // namespace buffer

using bufferptr = buffer::ptr;
using bufferlist = buffer::list;

}  // namespace ceph

#endif
