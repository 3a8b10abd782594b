// The header serves C++ as it is: functions have C names, and types are used without `struct`.
#include "suture.h"

#include <cstdio>

int main() {
    suture_code *code = nullptr;
    const suture_status status = suture_open("butterfly(4)", &code);
    suture_sizes sizes = {};
    if (status != SUTURE_STATUS_OK || suture_get_sizes(code, &sizes) != SUTURE_STATUS_OK) {
        return 1;
    }
    suture_close(code);
    std::printf("butterfly(4) has %zu sub-chunks\n", sizes.sub_chunk_count);
    return sizes.sub_chunk_count == 8 ? 0 : 1;
}
