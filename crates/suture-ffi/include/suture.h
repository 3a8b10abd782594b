/*
 * Suture for C and C++: erasure codes that repair a lost chunk from as few bytes as they can.
 *
 * A stripe has k data chunks and m parity chunks, equally long, counted from 0, data first. A chunk
 * is a sequence of units; a code may cut each unit into alpha equal sub-chunks, and repair a chunk
 * from some of the sub-chunks of others. The way of a repair:
 *
 *     suture_open           the code, by its name
 *     suture_repair_reads   which sub-chunks of which chunks to read
 *     (read them, wherever they are)
 *     suture_repair         the lost chunk
 *
 * The contract: pointers are null or valid for as many elements as the count or length beside them
 * says; nobody writes to a buffer during the call, and buffers to be written overlap no other. An
 * open code may be used by any number of threads at once. What a call refuses, it refuses before it
 * writes a byte. Nothing here reads files, starts threads, or throws.
 *
 * Made of crates/suture-ffi/src by the test `header`; do not edit.
 */

#ifndef SUTURE_H
#define SUTURE_H

#include <stddef.h>
#include <stdint.h>

// Changes whenever a program that was compiled with an older header would no longer work.
#define SUTURE_ABI_VERSION 1

// Flag of `suture_repair_reads`: helpers send sub-chunks as they are. Without it, the repair that
// reads and combines least is chosen, even where helpers would have to send sums of their
// sub-chunks to save traffic, and do not all read alike. The last parity of a Butterfly code is
// such a chunk; with this flag, k whole chunks are read for it.
#define SUTURE_PLAIN_READS 1

// How a call ended. Everything but `SUTURE_STATUS_OK` is negative. A call that is refused has
// written nothing, except where `SUTURE_STATUS_INTERNAL` or `SUTURE_STATUS_TOO_SMALL` say so.
typedef enum {
    // All was done as asked.
    SUTURE_STATUS_OK = 0,
    // A pointer that must not be null is, or it is not aligned for what it points to.
    SUTURE_STATUS_BAD_POINTER = -1,
    // The text does not name a code, or no such code is possible.
    SUTURE_STATUS_BAD_NAME = -2,
    // A chunk that the stripe does not have, that is named twice, or that is both lost and
    // available; or no lost chunk was named.
    SUTURE_STATUS_BAD_CHUNK = -3,
    // A length that does not fit: units are multiples of the code's alignment, chunks are
    // multiples of the unit, and what is passed together is equally long.
    SUTURE_STATUS_BAD_LENGTH = -4,
    // A flag that this version does not know.
    SUTURE_STATUS_BAD_FLAGS = -5,
    // A buffer to be written overlaps another buffer.
    SUTURE_STATUS_OVERLAP = -6,
    // What survives does not determine what is lost.
    SUTURE_STATUS_TOO_FEW_CHUNKS = -7,
    // More helpers than the repair uses: they are not those that `suture_repair_reads` asked for.
    SUTURE_STATUS_TOO_MANY_HELPERS = -8,
    // The caller's array is too small; how much it takes has been written to the count.
    SUTURE_STATUS_TOO_SMALL = -9,
    // A defect of Suture. Outputs may have been written in part. Please report the text.
    SUTURE_STATUS_INTERNAL = -10,
} suture_status;

// An erasure code that was opened by its name. Any number of threads may use it at a time.
typedef struct suture_code suture_code;

// The sizes of a code.
typedef struct {
    // Data chunks of a stripe: k.
    size_t data_chunks;
    // Parity chunks of a stripe: m, all kinds together.
    size_t parity_chunks;
    // Sub-chunks of a unit: alpha; 1 for codes that do not cut chunks.
    size_t sub_chunk_count;
    // Units are multiples of this many bytes: 64 * alpha.
    size_t alignment;
    // How many chunks may be lost, whichever they are, without losing data.
    size_t loss_tolerance;
} suture_sizes;

// Bytes of a chunk that are there.
typedef struct {
    // Which chunk: 0 to k - 1 are data, k to k + m - 1 parity.
    uint32_t chunk;
    // Where its bytes are.
    const uint8_t *bytes;
    // How many bytes they are.
    size_t length;
} suture_input;

// Room for a chunk that is to be rebuilt.
typedef struct {
    // Which chunk to rebuild.
    uint32_t chunk;
    // Where its bytes go.
    uint8_t *bytes;
    // How many: the whole chunk.
    size_t length;
} suture_output;

// Neighbouring sub-chunks to read, in every unit of a chunk. In unit u they are the bytes from
// u * unit + first * (unit / alpha), count * (unit / alpha) of them.
typedef struct {
    // The chunk to read from.
    uint32_t chunk;
    // The first sub-chunk, counted from 0.
    uint32_t first;
    // How many sub-chunks to read.
    uint32_t count;
} suture_read;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, to be compared with `SUTURE_ABI_VERSION` of the header.
uint32_t suture_abi_version(void);

// A few words for a status; "unknown status" for any other number. Never null, never freed.
const char *suture_status_text(int32_t status);

// What was wrong with this thread's last call that failed, in a sentence with the numbers. Never
// null; empty when none has failed. Valid until the thread's next call that fails.
const char *suture_last_error(void);

// Opens a code by its name, which ends with a zero byte: `rs(6,3)`, `rs-vandermonde(10,4)`,
// `lrc(12,2,2)`, `butterfly(4)`, `clay(4,2,5)`. Cheap: what is dear is done when it is first
// needed, and kept in the handle. Close it with `suture_close`.
suture_status suture_open(const char *name, suture_code **code);

// Closes a code. No call may be using it. Null is ignored.
void suture_close(suture_code *code);

// Writes the sizes of a code.
suture_status suture_get_sizes(const suture_code *code, suture_sizes *sizes);

// Computes the m parity chunks of a stripe from its k data chunks, all `chunk_bytes` long.
//
// A chunk is a sequence of units of `unit_bytes`, each a codeword of its own with those at the
// same place in the other chunks; 0 says that the chunk is one unit. Calls that decode or repair
// the stripe must name the same unit.
suture_status suture_encode(const suture_code *code,
                            const uint8_t *const *data,
                            uint8_t *const *parity,
                            size_t chunk_bytes,
                            size_t unit_bytes);

// Rebuilds lost chunks from whole chunks. Any of those that are available may be passed, in any
// order; what is not needed is not looked at. All lengths are equal; for units see
// `suture_encode`. Chunks that are neither passed nor asked for are simply not there.
suture_status suture_decode(const suture_code *code,
                            const suture_input *available,
                            size_t available_count,
                            const suture_output *lost,
                            size_t lost_count,
                            size_t unit_bytes);

// Says what a repair of the lost chunks reads: the sub-chunks of the helpers that together make
// the least, when these chunks are available. Helpers that come early in `available` are
// preferred. Chunks ascend in the answer, and so do the runs of each.
//
// `read_count` says how many entries `reads` has room for, and is set to how many the answer has.
// When there is not room enough, only the count is written, and the status is
// `SUTURE_STATUS_TOO_SMALL`; so one may ask with 0 first (`reads` may then be null). The same
// question always gets the same answer.
suture_status suture_repair_reads(const suture_code *code,
                                  const uint32_t *lost,
                                  size_t lost_count,
                                  const uint32_t *available,
                                  size_t available_count,
                                  uint32_t flags,
                                  suture_read *reads,
                                  size_t *read_count);

// Rebuilds lost chunks from exactly what `suture_repair_reads` asked for, whatever its flags: one
// input for each helper, with all its runs packed, unit after unit and ascending in each unit;
// and one output for each chunk that was lost in that question. A helper's length is the number of
// sub-chunks that were asked of it times the bytes of a sub-chunk, for all units together.
suture_status suture_repair(const suture_code *code,
                            const suture_input *helpers,
                            size_t helper_count,
                            const suture_output *lost,
                            size_t lost_count,
                            size_t unit_bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SUTURE_H */
