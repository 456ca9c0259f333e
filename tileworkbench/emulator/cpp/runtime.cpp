// The runtime of the emulator, one translation unit: the pieces below, in this order, after emu.h and numbers.h.
#include <cstdint>
#include "emu.h"
#include "numbers.h"
#include "state.h"
#include "fibers.h"
#include "record.h"
#include "memory.h"
#include "schedule.h"
#include "warp.h"
#include "async.h"
#include "wgmma.h"
#include "api.h"
